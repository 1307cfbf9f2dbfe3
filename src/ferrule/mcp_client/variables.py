"""Fills in what a server's settings leave open: `${NAME}`, `${NAME:-default}`, and `${keyring:service/user}`.

What was filled in is remembered by name alone, so that it can be taken out of whatever the server says of itself.
"""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")

_PLACE = re.compile(r"\$\{([^{}]*)\}")
_KEYRING = "keyring:"
_SHORTEST_SECRET = 6


class MissingValue(Exception):  # noqa: N818 - reads as what it says
    """A variable or a secret that a server needs is not there."""


@dataclass(slots=True)
class Variables:
    """Where values come from, and which of them must not be shown."""

    environment: Mapping[str, str]
    _from_keyring: dict[str, str] = field(default_factory=dict[str, str])
    _hidden: dict[str, str] = field(default_factory=dict[str, str])

    async def ask_keyring(self, texts: Iterable[str], seconds: float) -> None:
        """Look up what the texts want of the keyring; raises `MissingValue`.

        A locked one waits for its person, perhaps for ever, so it is asked in a thread that nobody has to wait for.
        """
        places = [place[2:-1] for place in places_in(texts) if place.startswith("${" + _KEYRING)]
        if not places:
            return
        asking = _in_its_own_thread(lambda: {place: _looked_up(place) for place in places})
        try:
            self._from_keyring |= await asyncio.wait_for(asking, seconds)
        except TimeoutError:
            raise MissingValue(
                phrase(
                    "the keyring did not answer within {seconds} s; it may be locked", seconds=f"{round(seconds, 2):g}"
                )
            ) from None

    def fill(self, text: str) -> str:
        """The text with every place filled in; raises `MissingValue`."""
        return _PLACE.sub(lambda found: self._value(found[1]), text)

    def fill_table(self, table: Mapping[str, str]) -> dict[str, str]:
        """The same for every value of a table. All of it is hidden: what stands there is seldom meant to be read."""
        filled = {name: self.fill(value) for name, value in table.items()}
        for name, value in filled.items():
            self._hide(name, value)
        return filled

    def masked(self, text: str) -> str:
        """Text without any value that was filled in; its name stands there instead."""
        for value, name in self._hidden.items():
            text = text.replace(value, f"[{name}]")
        return text

    def _value(self, place: str) -> str:
        if place.startswith(_KEYRING):
            value = self._from_keyring.get(place) or _looked_up(place)
            self._hide(place, value)
            return value
        name, has_default, default = place.partition(":-")
        value = self.environment.get(name) or (default if has_default else None)
        if value is None:
            raise MissingValue(phrase("the variable `{name}` is not set", name=name))
        if not has_default or value != default:
            self._hide(name, value)
        return value

    def _hide(self, name: str, value: str) -> None:
        for form in (value, value.strip()):  # what is left of a value that was too much for a header
            if len(form) >= _SHORTEST_SECRET:
                self._hidden.setdefault(form, name)


def places_in(texts: Iterable[str]) -> list[str]:
    """What of the person's would be filled into these texts, as it is written there, each once."""
    return list(dict.fromkeys(found[0] for text in texts for found in _PLACE.finditer(text)))


def _looked_up(place: str) -> str:
    service, _, user = place.removeprefix(_KEYRING).rpartition("/")
    return from_keyring(service, user)


def _in_its_own_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """What a function gives. Its thread does not keep the program from ending, as asyncio's own would."""
    loop = asyncio.get_running_loop()
    given: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if given.done():
            return
        if error is not None:
            given.set_exception(error)
        else:
            given.set_result(cast("T", value))

    def work() -> None:
        value: T | None = None
        error: Exception | None = None
        try:
            value = function()
        except Exception as raised:  # noqa: BLE001 - for whoever waits
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="ferrule-keyring", daemon=True).start()
    return given


def from_keyring(service: str, user: str) -> str:
    """A secret that the person's keyring holds."""
    if not service or not user:
        raise MissingValue(phrase("a place for a secret is written `${keyring:service/user}`"))
    try:
        keyring: Any = import_module("keyring")
    except ImportError:
        raise MissingValue(phrase("the keyring cannot be read: pip install keyring")) from None
    try:
        value = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001 - every keyring fails in its own way, and the person must hear of it
        raise MissingValue(phrase("the keyring could not be read: {kind}", kind=type(error).__name__)) from None
    if value is None:
        raise MissingValue(phrase("the keyring holds nothing for {service}/{user}", service=service, user=user))
    return str(value)
