"""`plugins.lock`: which plugins are installed, from where, to the hash, and what the user granted each of them.

Only Ferrule writes it, whole or not at all, and only the user can read it. What stands in it is what was agreed to: a
package with another hash is not installed, a tool with another definition is not offered, and a host that is not in it
is not reached.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter, ValidationError

from ferrule.extension import locked, phrase, write_json
from ferrule.extension.hosting import FOR_WRITING
from ferrule.plugins.manifest import Manifest, Needs, PluginError
from ferrule.plugins.plugin_files import lock_file, plugins_folder

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@dataclass(slots=True, frozen=True)
class LockedPackage:
    """One package of a plugin: its hashes are those that its registry offers for this version."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """`sha256:…`, or `sha512-…` as npm writes it."""
    file: str = ""
    """For one that came as a file: its name in the plugin's folder."""


@dataclass(slots=True, frozen=True)
class PluginGrants:
    """What the user lets a plugin have."""

    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """As in the needs: with `:write` at its end one may be written."""
    secrets: tuple[str, ...] = ()
    """Each as `NAME` for the variable of that name, or `NAME=${…}` for where its value is."""

    def beyond(self, before: PluginGrants) -> PluginGrants:
        """What of it the other did not allow."""
        known = {one.partition("=")[0] for one in before.secrets}
        writable = {one.removesuffix(FOR_WRITING) for one in before.folders if one.endswith(FOR_WRITING)}
        return PluginGrants(
            tuple(one for one in self.hosts if one not in before.hosts),
            tuple(one for one in self.folders if one not in before.folders and one not in writable),
            tuple(one for one in self.secrets if one.partition("=")[0] not in known),
        )

    def __bool__(self) -> bool:
        return bool(self.hosts or self.folders or self.secrets)


def granted(needs: Needs) -> PluginGrants:
    """All that a plugin asks for."""
    return PluginGrants(needs.hosts, needs.folders, needs.secrets)


@dataclass(slots=True, frozen=True)
class LockedPlugin:
    manifest: Manifest
    source: str
    """What it was installed from, as it was typed or found."""
    proof: str = ""
    """How it is known who made it."""
    published: str = ""
    market: str = ""
    release: str = ""
    """What its market calls this version: withdrawals are by that."""
    packages: tuple[LockedPackage, ...] = ()
    tree: str = ""
    """A digest over all installed files, so that a change to them is noticed."""
    enabled: bool = False
    grants: PluginGrants = PluginGrants()
    definitions: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of its tools' definitions, as they were when the user agreed."""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    arguments: tuple[str, ...] = ()
    """What the user has its server started with, besides what it says itself; `${workspace}` is the workspace."""
    installed: str = ""
    agreed: str = ""
    """The days on which it was installed and agreed to."""

    @property
    def name(self) -> str:
        return self.manifest.short_name

    @property
    def offered(self) -> tuple[str, str]:
        """The name and version that its market has it under."""
        return self.source.partition(":")[2], self.release or self.manifest.version

    @property
    def again(self) -> str:
        """What to install to have it once more as it is."""
        return "==".join(self.offered) if self.market else self.source

    @property
    def folder(self) -> Path:
        """Where all that belongs to it lies."""
        return plugins_folder() / self.name

    @property
    def program_folder(self) -> Path:
        """The installed files, which it cannot change."""
        return self.folder / "program"

    @property
    def home(self) -> Path:
        """The one folder that it may always write."""
        return self.folder / "home"


@dataclass(slots=True, frozen=True)
class _LockFile:
    version: Literal[1]
    plugins: list[LockedPlugin]


@cache
def _file_form() -> TypeAdapter[_LockFile]:
    return TypeAdapter(_LockFile)


def read_lock() -> dict[str, LockedPlugin]:
    """Every installed plugin by its name; raises `PluginError` for a file that was damaged."""
    file = lock_file()
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PluginError(phrase("{file} cannot be read: {why}.", file=file, why=error.strerror)) from None
    try:
        found = _file_form().validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise PluginError(
            phrase("{file} is damaged: {why}.", file=file, why=why),
            suggestion=phrase("Move it away and install your plugins again."),
        ) from None
    return {one.name: one for one in found.plugins}


@contextmanager
def changing_lock() -> Generator[dict[str, LockedPlugin]]:
    """The plugins, to be changed; written when the block ends well. One process at a time, the others wait."""
    folder = plugins_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder):
        plugins = read_lock()
        yield plugins
        written = _LockFile(1, [plugins[name] for name in sorted(plugins)])
        write_json(lock_file(), _file_form().dump_python(written, mode="json"))


def must_find(plugins: dict[str, LockedPlugin], name: str) -> LockedPlugin:
    """The plugin of this name; raises `PluginError` with the nearest one."""
    if (found := plugins.get(name)) is not None:
        return found
    from ferrule.extension import nearest

    close = nearest(name, list(plugins), most=1)
    raise PluginError(
        phrase("There is no plugin `{name}`.", name=name),
        suggestion=phrase("Did you mean `{name}`?", name=close[0])
        if close
        else phrase("`ferrule plugin list` shows those that are installed."),
    )
