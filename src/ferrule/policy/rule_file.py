"""Changes the rules in a settings file, and nothing else in it: comments, order and spelling stay as they are."""

from __future__ import annotations

import os
import secrets
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import phrase
from ferrule.pipeline.stages import Verdict
from ferrule.policy.sources import RuleError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tomlkit import TOMLDocument


# A settings file that is changed in one place while all else in it stays: comments, order and spelling.


class SettingsDocument:
    """A TOML file, read and written whole."""

    def __init__(self, path: Path) -> None:
        # A settings file is often a link into a folder of dotfiles; the link stays, and its target changes.
        self.path = Path(os.path.realpath(path))

    def document(self) -> TOMLDocument:
        """What is in it; empty where there is no file. Raises `RuleError`."""
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            return tomlkit.parse(self.path.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError:
            return tomlkit.document()
        except UnicodeDecodeError:
            raise RuleError(
                phrase("{path} is not UTF-8 text. Nothing was changed; save it as UTF-8.", path=self.path)
            ) from None
        except TOMLKitError as error:
            raise RuleError(
                phrase(
                    "{path} is not valid TOML: {error}. Nothing was changed; mend it in an editor.",
                    path=self.path,
                    error=error,
                )
            ) from None
        except OSError as error:
            raise RuleError(phrase("{path} could not be read: {why}.", path=self.path, why=error.strerror)) from None

    def write(self, document: TOMLDocument) -> None:
        """Whole or not at all: a file that was cut in half would be no settings."""
        text = document.as_string()
        if tomllib.loads(text) != document.unwrap():
            raise RuleError(
                phrase("{path} is written in a way that could not be kept. Nothing was changed.", path=self.path)
            )
        if self.path.exists() and not self.path.is_file():  # /dev/null, which many name to have no settings
            raise RuleError(phrase("{path} is not a file that can be written to. Nothing was changed.", path=self.path))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            mode = self.path.stat().st_mode & 0o7777 if self.path.exists() else None
            temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}")
            try:
                with temporary.open("xb") as file:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                if mode is not None:
                    temporary.chmod(mode)
                temporary.replace(self.path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        except OSError as error:
            raise RuleError(phrase("{path} could not be written: {why}.", path=self.path, why=error.strerror)) from None


_SECTION = "permissions"


class RuleFile(SettingsDocument):
    """A settings file whose rules can be added to and taken from. Works on rules that cannot be read, too."""

    def rules(self) -> Iterator[tuple[Verdict, str]]:
        """Every rule in the file, as it is written."""
        document = self.document()
        for verdict in Verdict:
            for entry in self._list(document, verdict) or ():
                yield verdict, _text(entry)

    def add(self, text: str, verdict: Verdict, match: Sequence[str] = (), no_match: Sequence[str] = ()) -> bool:
        """Put a rule at the end of its list; False when it stands there already."""
        import tomlkit

        document = self.document()
        listed: Any = self._list(document, verdict)
        if listed is not None and any(_text(entry) == text for entry in listed):
            return False
        entry: Any = text
        if match or no_match or _is_table_array(listed):
            entry = tomlkit.table() if _is_table_array(listed) else tomlkit.inline_table()
            entry["rule"] = text
            for key, examples in (("match", match), ("no_match", no_match)):
                if examples:
                    entry[key] = list(examples)
        if listed is None:
            section: Any = document.setdefault(_SECTION, tomlkit.table())
            listed = section[verdict.value] = tomlkit.array()
            listed.append(entry)
        else:
            listed.append(entry)
        self.write(document)
        return True

    def remove(self, text: str, verdict: Verdict | None = None) -> list[Verdict]:
        """Take a rule out of the lists it stands in, or out of one; the lists it was in."""
        document = self.document()
        found: list[Verdict] = []
        for one in Verdict if verdict is None else (verdict,):
            listed: Any = self._list(document, one)
            positions = [at for at, entry in enumerate(listed or ()) if _text(entry) == text]
            for at in reversed(positions):
                del listed[at]
            found += [one] if positions else []
        if found:
            self.write(document)
        return found

    def _list(self, document: TOMLDocument, verdict: Verdict) -> Sequence[Any] | None:
        section = cast("Any", document).get(_SECTION)
        if section is None:
            return None
        if not hasattr(section, "get"):
            raise RuleError(
                phrase(
                    "{path}: `{section}` is not a section. Nothing was changed; mend it in an editor.",
                    path=self.path,
                    section=_SECTION,
                )
            )
        listed = section.get(verdict.value)
        if listed is not None and not isinstance(listed, list):
            raise RuleError(
                phrase(
                    "{path}: `{section}.{name}` is not a list. Nothing was changed.",
                    path=self.path,
                    section=_SECTION,
                    name=verdict.value,
                )
            )
        return cast("Sequence[Any] | None", listed)


def _text(entry: Any) -> str:
    return str(entry.get("rule", "")) if hasattr(entry, "get") else str(entry)


def _is_table_array(listed: Any) -> bool:
    """`[[permissions.allow]]`, where every rule is a section of its own."""
    from tomlkit.items import AoT

    return isinstance(listed, AoT)
