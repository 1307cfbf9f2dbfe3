"""A settings file that is changed in one place while all else in it stays: comments, order and spelling."""

from __future__ import annotations

import os
import secrets
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.policy.rule_errors import RuleError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


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
