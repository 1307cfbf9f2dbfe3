"""Changes the MCP servers in a settings file or a `.mcp.json`, and nothing else in it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule.app.settings import SettingsError
from ferrule.core.files import write_atomically
from ferrule.core.phrases import phrase, said_by
from ferrule.policy.patterns import RuleError
from ferrule.policy.rule_file import SettingsDocument
from ferrule.workspace.confined import read_given

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

_SERVERS, _TRUSTED = "mcp_servers", "trusted_mcp_servers"


class ServerFile(SettingsDocument):
    """A `ferrule.toml` whose servers, or tables of another `section`, can be added to, taken from and trusted."""

    def add(self, name: str, table: Mapping[str, Any], section: str = _SERVERS) -> bool:
        """Put a server in, in place of one that has its name; whether there was one."""
        import tomlkit

        with as_settings_error():
            document = self.document()
            servers: Any = document.setdefault(section, tomlkit.table(is_super_table=True))
            replaced = name in servers
            made = tomlkit.table()
            for key, value in table.items():
                made[key] = value
            servers[name] = made
            self.write(document)
            return replaced

    def remove(self, name: str, section: str = _SERVERS) -> bool:
        """Take a server out; False when it was not there."""
        with as_settings_error():
            document = self.document()
            servers: Any = cast("Any", document).get(section)
            if servers is None or name not in servers:
                return False
            del servers[name]
            if not servers:
                del document[section]
            self.write(document)
            return True

    def trust(self, fingerprint: str) -> None:
        """Remember the person's word for a workspace's server as it is now."""
        import tomlkit

        with as_settings_error():
            document = self.document()
            listed: Any = cast("Any", document).get(_TRUSTED)
            if listed is None:
                # Before the first table, where it would be taken for one of that table's keys.
                listed = tomlkit.array()
                values = {**document.unwrap(), _TRUSTED: [fingerprint]}
                listed.append(fingerprint)
                document = _with_key_first(document, listed)
                if document.unwrap() != values:
                    raise RuleError(
                        phrase(
                            "{path} cannot be edited without losing its formatting. Nothing was changed.",
                            path=self.path,
                        )
                    )
            elif fingerprint in listed:
                return
            else:
                listed.append(fingerprint)
            self.write(document)

    def distrust(self, fingerprints: set[str]) -> bool:
        """Take the person's word back; whether any of it stood here."""
        with as_settings_error():
            document = self.document()
            listed: Any = cast("Any", document).get(_TRUSTED, ())
            places = [at for at, one in enumerate(listed) if one in fingerprints]
            if not places:
                return False
            for at in reversed(places):
                del listed[at]
            if not listed:
                del document[_TRUSTED]
            self.write(document)
            return True


class ServerJson:
    """A workspace's `.mcp.json`. Its form has no comments to keep; keys of other programs stay.

    A link in its place is followed inside the workspace alone: one that leads out would have the person change a file
    that they never named, such as another agent's settings.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._leads_out = not self.path.is_relative_to(os.path.realpath(path.parent))
        self._named = path

    def add(self, name: str, table: Mapping[str, Any]) -> bool:
        document = self._read()
        servers = document.setdefault("mcpServers", {})
        replaced = name in servers
        servers[name] = dict(table)
        self._write(document)
        return replaced

    def remove(self, name: str) -> bool:
        document = self._read()
        if name not in document.get("mcpServers", {}):
            return False
        del document["mcpServers"][name]
        self._write(document)
        return True

    def _read(self) -> dict[str, Any]:
        try:
            found: Any = json.loads(read_given(self.path))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise SettingsError(
                phrase("{path} could not be read: {error}. Nothing was changed.", path=self.path, error=error)
            ) from None
        if not isinstance(found, dict) or not isinstance(cast("dict[str, Any]", found).get("mcpServers", {}), dict):
            raise SettingsError(phrase('{path} has no "mcpServers" object. Nothing was changed.', path=self.path))
        return cast("dict[str, Any]", found)

    def _write(self, document: dict[str, Any]) -> None:
        if self._leads_out:
            raise SettingsError(
                phrase(
                    "{named} is a link that leads out of the workspace, to {path}. Nothing was changed.",
                    named=self._named,
                    path=self.path,
                )
            )
        try:
            write_atomically(self.path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            raise SettingsError(
                phrase("{path} could not be written: {why}.", path=self.path, why=error.strerror)
            ) from None


def _with_key_first(document: Any, listed: Any) -> Any:
    import tomlkit

    text = document.as_string()
    head = tomlkit.document()
    head[_TRUSTED] = listed
    return tomlkit.parse(f"{head.as_string()}\n{text}" if text else head.as_string())


@contextmanager
def as_settings_error() -> Generator[None]:
    """A file whose rules or servers cannot be read or changed is a wrong setting."""
    try:
        yield
    except RuleError as error:
        raise SettingsError(said_by(error)) from None
