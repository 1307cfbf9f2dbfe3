"""Which folders a plugin may be granted, what is dangerous about one, and what of it the plugin's box shows.

Ferrule's own files and the files that a shell runs at its start are never granted, and nothing above them is granted
for writing: a folder above could be renamed, and another put in its place. Nor is anything granted for writing that
other programs run or obey: git directories, guarded settings, and what is hidden in a home.

A folder above can be granted for reading. Its box then gets the entries that are none of these and no other program's
keys, rather than all of it, and of a home nothing that is hidden: that has to be named.
"""

from __future__ import annotations

import os
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.access import FOR_WRITING
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.guarded_names import SHELL_FILES, is_setting
from ferrule.core.phrases import phrase
from ferrule.process.arguments import wrong_text
from ferrule.process.sandbox.guarded import GIT_FOLDER_HAS
from ferrule.process.sandbox.obeyed import led_to_from_home
from ferrule.process.sandbox.places import SECRETS_OF_HOME, all_but, is_within, system_places
from ferrule.workspace.data_folder import own_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MOST_ENTRIES = 500
_NEVER = ("/proc", "/sys", "/dev", "/run", "/var/run")
_MEDIA = ("/run/media", "/var/run/media")
_HOMES = ("/home", "/Users")
_SHELLS = (*sorted(SHELL_FILES), ".config/fish", ".config/environment.d")
_RUN_BY_OTHERS = ("bin", "Library/LaunchAgents")
"""Of a home: what another program than a shell runs, beside what is hidden there."""
_HIDDEN_DATA = (".cache/", ".local/share/", ".local/state/")
"""Of a home: below these, what is hidden is data."""
_SETTINGS_FOLDERS = ("XDG_CONFIG_HOME", "ZDOTDIR")


@dataclass(slots=True, frozen=True)
class FolderDanger:
    """A granted folder, as it was written, and what the user should know of it before they agree."""

    folder: str
    why: str
    rank: int
    """The most dangerous have the lowest."""


def dangers_of(folders: Sequence[str], workspace: Path | None) -> tuple[FolderDanger, ...]:
    """All that is dangerous in what a plugin is granted or asks for, the worst first."""
    if not folders:
        return ()  # as for most plugins, and nothing has to be looked up then
    judge = _Judge(workspace)
    return tuple(sorted(filter(None, map(judge.danger, folders)), key=lambda one: one.rank))


def require_grantable(folders: Sequence[str], workspace: Path) -> None:
    """Raises `ToolError` for a folder that no plugin gets, before the user is asked."""
    if folders:
        judge = _Judge(workspace)
        for one in folders:
            judge.granted(one)


def shown_folders(folders: Sequence[str], workspace: Path) -> Iterator[tuple[str, bool]]:
    """The real paths that a box shows for what was granted, and whether each may be written. Raises `ToolError`."""
    if not folders:
        return
    judge = _Judge(workspace)
    granted = [(one, judge.granted(one)) for one in folders]
    kept_out = (judge.own | judge.shells | judge.secrets | judge.hidden) - {real for _, real in granted}
    for folder, real in granted:
        if not os.path.exists(real):  # noqa: PTH110 - text
            raise ToolError(
                phrase("There is no folder `{folder}` for this plugin.", folder=folder),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Create it, or enable the plugin with another."),
            )
        if folder.endswith(FOR_WRITING):
            yield real, True
            continue
        parts = [*all_but([real], kept_out)]
        if len(parts) > _MOST_ENTRIES:
            raise _refused(folder, phrase("it holds too many others beside keys and settings"))
        yield from ((part, False) for part in parts)


def _refused(folder: str, why: str) -> ToolError:
    return ToolError(
        phrase("The folder `{folder}` cannot be granted: {why}.", folder=folder[:200], why=why),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Grant a folder that holds only what the plugin needs."),
    )


class _Judge:
    """What there is to protect on this machine, looked up once for many folders."""

    def __init__(self, workspace: Path | None) -> None:
        self._workspace = workspace
        self._root = os.path.realpath(workspace) if workspace is not None else ""
        homes = [os.path.expanduser("~"), "/root", "/var/root"]  # noqa: PTH111 - text
        for folder in _HOMES:
            with suppress(OSError):
                homes += [entry.path for entry in os.scandir(folder) if entry.is_dir()]
        real = (os.path.realpath(one) for one in homes if os.path.isdir(one))  # noqa: PTH112 - text
        self._homes = [*dict.fromkeys(one for one in real if one != "/")]
        self.own = _both((*own_places(), "/etc/ferrule"))
        named = filter(os.path.isabs, (os.environ.get(name, "") for name in _SETTINGS_FOLDERS))
        self._settings = [
            one for one in map(os.path.realpath, named) if not any(_in(home, one) for home in self._homes)
        ]
        self.shells = self._of_homes(_SHELLS)
        self.secrets = self._of_homes(SECRETS_OF_HOME) | {*system_places().hidden}
        hidden = [path for home in self._homes for path in _entries(home) if Path(path).name.startswith(".")]
        self.hidden = frozenset((*hidden, *self._settings))
        """What a home is shown without."""
        led_to = {path for home in self._homes for path in led_to_from_home(home)}
        led_to = {one for one in led_to if not any(_in(home, one) for home in self._homes)}
        self._run_by_others = self._of_homes(_RUN_BY_OTHERS) | {*self._settings} | led_to

    def _of_homes(self, names: Sequence[str]) -> frozenset[str]:
        """By their names in homes, and in the folders that hold settings instead."""
        elsewhere = [f"{folder}/{name.removeprefix('.config/')}" for folder in self._settings for name in names]
        return _both([*(f"{home}/{name}" for home in self._homes for name in names), *elsewhere])

    def granted(self, folder: str) -> str:
        """Where it really is; raises `ToolError` where no plugin gets it, or where it is not what it says."""
        named, real = self._located(folder)
        why = self._refusal(folder, named, real)
        if why is None and named != real and self._danger(real) is not None and self._danger(named) is None:
            why = phrase("it leads to `{real}`", real=real)  # which is not what the user saw
        if why is not None:
            raise _refused(folder, why)
        return real

    def danger(self, folder: str) -> FolderDanger | None:
        try:
            named, real = self._located(folder)
        except ToolError as error:
            return FolderDanger(folder, error.message.rstrip("."), 0)
        if (why := self._refusal(folder, named, real)) is not None:
            return FolderDanger(folder, phrase("no plugin gets this folder: {why}", why=why), 0)
        found = self._danger(real) or self._danger(named)
        return (
            FolderDanger(folder, found[1], 2 * found[0] - folder.endswith(FOR_WRITING)) if found is not None else None
        )

    def _located(self, folder: str) -> tuple[str, str]:
        """By its name and as it really is."""
        written = folder.removesuffix(FOR_WRITING)
        if (wrong := wrong_text(folder)) is not None:
            raise _refused(ascii(folder)[1:-1], phrase("its name {wrong}", wrong=wrong))
        try:
            named = Path(written).expanduser()
            if not named.is_absolute() and self._workspace is None:
                return str(named), str(named)  # in some workspace
            real = os.path.realpath(Path(self._root, named))
        except (ValueError, RuntimeError, OSError) as error:
            raise _refused(folder, str(error).rstrip(".")) from None
        if not written or (not named.is_absolute() and not is_within(real, self._root)):
            raise ToolError(
                phrase("The folder `{folder}` leads outside of the workspace.", folder=folder),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Name the whole path of a folder that lies elsewhere."),
            )
        return os.path.normpath(Path(self._root, named)), real

    def _refusal(self, folder: str, *paths: str) -> str | None:
        """Why no plugin gets this folder."""
        writes = folder.endswith(FOR_WRITING)

        def is_kept(places: Iterable[str], *, read: bool = True) -> bool:
            return any(
                (read or writes) and (_in(path, one) or (writes and _in(one, path))) for path in paths for one in places
            )

        if "/" in paths:
            return phrase("it is the whole machine")
        if any(_in(path, one) for path in paths for one in _NEVER if not any(map(partial(_in, path), _MEDIA))):
            return phrase("it belongs to the system itself")
        if is_kept(self.own):
            return phrase("Ferrule's own files are there")
        if is_kept(self.shells):
            return phrase("files that your shell runs are there")
        if is_kept(self._run_by_others, read=False) or (writes and any(map(self._is_obeyed, paths))):
            return phrase("files that other programs run or obey are there")
        return None

    def _is_obeyed(self, path: str) -> bool:
        """Whether it is or lies in a git directory or guarded settings, or is or holds what is hidden in a home."""
        folded = _folded(path)
        if is_setting(path) or is_setting(folded) or ".git" in folded.split("/"):
            return True
        above = (path, *map(str, Path(path).parents))
        if any(all(os.path.lexists(f"{one}/{name}") for name in GIT_FOLDER_HAS) for one in above):
            return True
        for home in self._homes:
            inside = folded[len(_folded(home)) + 1 :] if _in(path, home) else ""
            if _in(home, path) or (inside.startswith(".") and not inside.startswith(_HIDDEN_DATA)):
                return True
        return False

    def _danger(self, path: str) -> tuple[int, str] | None:
        """How bad it is, and why."""
        if any(_in(home, path) for home in self._homes):
            return 1, phrase("it is a home folder or holds one")
        if any(_in(path, one) for one in self.secrets):
            return 1, phrase("passwords, keys or tokens are kept there")
        if _in(path, "/etc"):
            return 2, phrase("the settings of the whole system are there")
        if self._root and path != self._root and is_within(self._root, path):
            return 2, phrase("it holds the workspace and whatever lies beside it")
        if path.count("/") == 1 and path.startswith("/") and path != self._root:
            return 2, phrase("it is a whole part of the system")
        if any(_in(path, one) for one in self._settings):
            return 3, phrase("programs keep their settings there, and often tokens")
        for home in self._homes:
            if _in(path, home) and path[len(home) + 1 :].startswith("."):
                return 3, phrase("programs keep their settings there, and often tokens")
            if _in(path, home) and home != self._homes[0]:
                return 3, phrase("it is in the home folder of another user")
        return None


def _entries(folder: str) -> list[str]:
    with suppress(OSError):
        return [entry.path for entry in os.scandir(folder)]
    return []


def _in(path: str, folder: str) -> bool:
    """In any spelling: not every file system tells them apart."""
    return is_within(_folded(path), _folded(folder))


@lru_cache(maxsize=8_192)
def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _both(paths: Iterable[str | Path]) -> frozenset[str]:
    """By their names and as they really are: each may be a link, or lie behind one."""
    found: set[str] = set()
    parents: dict[str, str] = {}
    for path in paths:
        named = os.path.abspath(path)  # noqa: PTH100 - not what it leads to
        folder, _, name = named.rpartition("/")
        if folder not in parents:
            parents[folder] = os.path.realpath(folder or "/").rstrip("/")
        behind = f"{parents[folder]}/{name}"
        found |= {named, behind, os.path.realpath(behind) if os.path.islink(behind) else behind}  # noqa: PTH114 - text
    return frozenset(found)
