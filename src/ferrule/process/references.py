"""Fills in what settings leave open, so that no secret has to stand in a file: `${NAME}`, `${NAME:-default}`,
`${keyring:service/user}`, and where the user alone wrote the settings `${file:~/token}` and `${command:pass show x}`.

A text keeps its places until it is used. That is what is shown, compared and remembered. `Template` is the only way to
fill one in: it splits the text once, and never looks at what was filled in again.
"""

from __future__ import annotations

import re
import subprocess
import threading
from concurrent import futures
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")

_PLACE = re.compile(r"\$\{([^{}]*)\}")
_KEYRING, _FILE, _COMMAND = "keyring:", "file:", "command:"
_SHORTEST_SECRET = 6
_MOST_READ = 65_536
_SECONDS_OF_A_COMMAND = 30.0


class MissingValueError(Exception):
    """A variable or a secret that is needed is not there."""


@dataclass(slots=True, frozen=True)
class Template:
    """A text in literal parts, with a place to fill in between each two of them."""

    literals: tuple[str, ...]
    places: tuple[str, ...] = ()
    """What stands between `${` and `}`."""

    @staticmethod
    def parse(text: str | Template) -> Template:
        if isinstance(text, Template):
            return text
        parts = _PLACE.split(text)
        return Template(tuple(parts[::2]), tuple(parts[1::2]))

    def put(self, values: Mapping[str, str | Template]) -> Template:
        """With the places filled in that have a value here. The value's own text stays literal."""
        literals, places = [self.literals[0]], list[str]()
        for place, after in zip(self.places, self.literals[1:], strict=True):
            value = values.get(place, Template(("", ""), (place,)))
            value = Template((value,)) if isinstance(value, str) else value
            literals[-1] += value.literals[0]
            literals += value.literals[1:]
            places += value.places
            literals[-1] += after
        return Template(tuple(literals), tuple(places))

    def text(self, value: Callable[[str], str]) -> str:
        """With every place filled in."""
        rest = zip(self.places, self.literals[1:], strict=True)
        return self.literals[0] + "".join(value(place) + after for place, after in rest)

    def __str__(self) -> str:
        return self.text("${{{}}}".format)


@dataclass(slots=True)
class Variables:
    """Where values come from, and which of them must not be shown."""

    environment: Mapping[str, str]
    of_the_user: bool = False
    """Whether only the user can have written the texts, which may then name their files and programs too."""
    _known: dict[str, str] = field(default_factory=dict[str, str])
    _hidden: dict[str, str] = field(default_factory=dict[str, str])
    _programs: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    async def ask_keyring(self, texts: Iterable[str | Template], seconds: float) -> None:
        """Look up what the texts want of the keyring; raises `MissingValueError`.

        A locked one waits for its person, perhaps for ever, so it is asked in a thread that nothing has to wait for.
        """
        places = [place[2:-1] for place in places_in(texts) if place.startswith("${" + _KEYRING)]
        if not places:
            return
        try:
            self._known |= await _in_its_own_thread(lambda: {place: _looked_up(place) for place in places}, seconds)
        except TimeoutError:
            raise MissingValueError(
                phrase(
                    "the keyring did not answer within {seconds} s; it may be locked", seconds=f"{round(seconds, 2):g}"
                )
            ) from None

    def fill(self, text: str | Template) -> str:
        """The text with every place filled in; raises `MissingValueError`."""
        return Template.parse(text).text(self._value)

    def fill_secret(self, name: str, text: str | Template) -> str:
        """The same for a text that is a secret as a whole, whether it names one or holds it."""
        filled = self.fill(text)
        self._hide(name, filled)
        return filled

    def fill_table(self, table: Mapping[str, str | Template]) -> dict[str, str]:
        """The same for every value of a table. All of it is hidden: what stands there is seldom meant to be read."""
        return {name: self.fill_secret(name, value) for name, value in table.items()}

    def masked(self, text: str) -> str:
        """Text without any value that was filled in; its name is there instead."""
        for value, name in self._hidden.items():
            text = text.replace(value, f"[{name}]")
        return text

    def end_programs(self) -> None:
        """End the programs that still work on a value, since nothing waits for it."""
        for program in self._programs:
            program.kill()

    def _value(self, place: str) -> str:
        if place in self._known:
            value = self._known[place]
        elif place.startswith(_KEYRING):
            value = _looked_up(place)
        elif place.startswith((_FILE, _COMMAND)):
            if not self.of_the_user:
                raise MissingValueError(
                    phrase("`${place}` may only be used in your own settings", place=f"{{{place}}}")
                )
            value = _from_file(place) if place.startswith(_FILE) else _from_command(place, self._programs)
        else:
            name, has_default, default = place.partition(":-")
            value = self.environment.get(name) or (default if has_default else None)
            if value is None:
                raise MissingValueError(phrase("the variable `{name}` is not set", name=name))
            if not has_default or value != default:
                self._hide(name, value)
            return value
        self._known[place] = value
        self._hide(place, value)
        return value

    def _hide(self, name: str, value: str) -> None:
        for form in (value, value.strip()):  # what is left of a value that was too much for a header
            if len(form) >= _SHORTEST_SECRET:
                self._hidden.setdefault(form, name)


def require_reference(name: str, text: str) -> None:
    """Raise `ValueError` unless a setting is a reference as a whole. A default would be the secret itself."""
    if not _PLACE.fullmatch(text) or text == "${}" or ":-" in text:
        raise ValueError(
            f"`{name}` must be `${{NAME}}`, `${{file:PATH}}`, `${{command:PROGRAM}}` or `${{keyring:SERVICE/USER}}`, "
            "not the secret itself"
        )


async def read_reference(text: str, environment: Mapping[str, str], seconds: float) -> str:
    """What a user's reference stands for, read in a thread so that nothing else waits; raises `MissingValueError`."""
    variables = Variables(environment, of_the_user=True)
    try:
        return await _in_its_own_thread(lambda: variables.fill(text), seconds)
    except TimeoutError:
        named = text[2:-1].partition(" ")[0]  # what follows may be a secret
        raise MissingValueError(
            phrase("`{program}` did not end within {seconds} s", program=named, seconds=f"{seconds:g}")
        ) from None
    finally:
        variables.end_programs()


def places_in(texts: Iterable[str | Template]) -> list[str]:
    """What of the user's would be filled into these texts, as it is written there, each once."""
    return list(dict.fromkeys(f"${{{place}}}" for text in texts for place in Template.parse(text).places))


def _looked_up(place: str) -> str:
    service, _, user = place.removeprefix(_KEYRING).rpartition("/")
    return from_keyring(service, user)


async def _in_its_own_thread(function: Callable[[], T], seconds: float) -> T:
    """What a function gives. Its thread does not keep the program from ending, as asyncio's own would."""
    import asyncio  # listing tools does without

    given: futures.Future[T] = futures.Future()
    given.set_running_or_notify_cancel()

    def work() -> None:
        try:
            given.set_result(function())
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            given.set_exception(error)

    threading.Thread(target=work, name="ferrule-keyring", daemon=True).start()
    return await asyncio.wait_for(asyncio.wrap_future(given), seconds)


def from_keyring(service: str, user: str) -> str:
    """A secret that the user's keyring holds."""
    if not service or not user:
        raise MissingValueError(phrase("write a reference to a secret as `${keyring:service/user}`"))
    try:
        keyring: Any = import_module("keyring")
    except ImportError:
        raise MissingValueError(phrase("the keyring cannot be read: pip install keyring")) from None
    try:
        value = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001 - every keyring fails in its own way, and the user must hear of it
        raise MissingValueError(phrase("the keyring could not be read: {kind}", kind=type(error).__name__)) from None
    if value is None:
        raise MissingValueError(phrase("the keyring has nothing for {service}/{user}", service=service, user=user))
    return str(value)


def _from_file(place: str) -> str:
    """What a file holds, without the line's end."""
    file = Path(place.removeprefix(_FILE)).expanduser()
    try:
        with file.open("rb") as opened:
            held = opened.read(_MOST_READ + 1)
        if len(held) > _MOST_READ:
            raise MissingValueError(phrase("the file {file} is too large to be a secret", file=file))
        value = held.decode().strip()
    except OSError as error:
        raise MissingValueError(
            phrase("the file {file} cannot be read: {why}", file=file, why=error.strerror)
        ) from None
    except UnicodeDecodeError:
        raise MissingValueError(phrase("the file {file} is not UTF-8 text", file=file)) from None
    if not value:
        raise MissingValueError(phrase("the file {file} is empty", file=file))
    return value


def _from_command(place: str, running: list[subprocess.Popen[bytes]]) -> str:
    """The first line that a program writes. It is started without a shell; what it complains of is never shown."""
    import shlex

    written = place.removeprefix(_COMMAND)
    try:
        words = shlex.split(written)
    except ValueError:
        words = []
    if not words:
        raise MissingValueError(phrase("write a reference to a program's output as `${command:program arguments}`"))
    program = words[0]
    try:
        with subprocess.Popen(  # noqa: S603 - the user's own settings name it
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as ended:
            running.append(ended)
            try:
                output = ended.communicate(timeout=_SECONDS_OF_A_COMMAND)[0]
            finally:
                ended.kill()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise MissingValueError(phrase("`{program}` could not be run: {why}", program=program, why=why)) from None
    except subprocess.TimeoutExpired:
        raise MissingValueError(
            phrase("`{program}` did not end within {seconds} s", program=program, seconds=f"{_SECONDS_OF_A_COMMAND:g}")
        ) from None
    if ended.returncode:
        raise MissingValueError(
            phrase("`{program}` failed with exit code {code}", program=program, code=ended.returncode)
        )
    lines = output[:_MOST_READ].decode("utf-8", "replace").splitlines()
    if not lines or not lines[0].strip():
        raise MissingValueError(phrase("`{program}` printed nothing", program=program))
    return lines[0].strip()
