"""Finds the places of a workspace that make programs outside the sandbox do things: git's hooks and configuration in
every repository, the folder that `core.hooksPath` names, and the settings of Ferrule, editors, agents and shells in
every folder but those of dependencies.

The whole tree is looked at once. Afterwards only folders that changed are listed again: a new name in a folder
changes its `ctime`, which no program can set back.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.core.access import OF_GIT, settings_among
from ferrule.process.sandbox.places import hooks_of_person, hooks_paths
from ferrule.process.sandbox.sweep import opened, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ferrule.process.profile import Forbidden

_GIT_FOLDER_HAS = frozenset({"HEAD", "objects", "refs"})
_WALKED_OF_GIT = frozenset({"modules", "worktrees", "info"})
_MOST_FOLDERS, _MOST_INSIDE, _MOST_REMEMBERED = 100_000, 2_000, 8
_CLOCK_STEP = 20_000_000  # of the coarsest clock a file system uses, in nanoseconds


@dataclass(slots=True, frozen=True)
class Mark:
    """What is at a guarded place: its kind and number, and the last change of it and of everything inside."""

    kind: int
    number: int
    changes: tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True, frozen=True)
class Found:
    """The guarded places of one look, by path below the folder."""

    marks: dict[str, Mark]
    repositories: frozenset[str]
    """Folders that have a `.git`."""
    folders: frozenset[str]
    """All that were looked at."""
    git_folders: tuple[str, ...]
    """Folders that git keeps its own files in."""
    complete: bool
    """Whether every folder was looked at."""


@dataclass(slots=True)
class _Folder:
    number: int
    changed: int
    below: tuple[str, ...]
    guarded: tuple[str, ...]
    is_repository: bool
    is_git: bool


# What was seen of each folder by the same rules, so that the next sandbox of a workspace need not list it all again.
_remembered: dict[str, tuple[Forbidden | None, dict[str, _Folder]]] = {}


class GuardedTree:
    """One folder and the guarded places below it. `named` are further ones, by path below the folder, and so is what
    is `forbidden`.
    """

    def __init__(self, root: str, named: frozenset[str] = frozenset(), forbidden: Forbidden | None = None) -> None:
        self.root = root
        self.named = named
        self._forbidden = forbidden
        self.locked: frozenset[str] = frozenset()
        """Places that cannot be changed from inside: what is in them need not be looked at."""
        self.descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        rules, folders = _remembered.get(root, (None, {}))
        self._folders = folders if rules == forbidden else {}

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.descriptor)

    def look(self, *, deep: bool = True) -> Found:
        """Every guarded place that is there now; not `deep`, without what is inside of them."""
        marks: dict[str, Mark] = {}
        repositories: set[str] = set()
        git_folders: list[str] = []
        folders: dict[str, _Folder] = {}
        waiting = [""]
        while waiting and len(folders) < _MOST_FOLDERS:
            path = waiting.pop()
            folder = self._folder(path)
            if folder is None:
                continue
            folders[path] = folder
            start = f"{path}/" if path else ""
            waiting += [start + name for name in folder.below]
            if folder.is_repository:
                repositories.add(path)
            if folder.is_git:
                git_folders.append(path)
            for name in folder.guarded:
                self._mark(start + name, marks, deep=deep)
        for path in (*self.named, *self._hooks(git_folders)):
            self._mark(path, marks, deep=deep)
        self._folders = folders
        _remembered[self.root] = self._forbidden, folders
        while len(_remembered) > _MOST_REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        return Found(marks, frozenset(repositories), frozenset(folders), tuple(git_folders), not waiting)

    def deepen(self, found: Found) -> None:
        """Take in what is inside of those that are not locked, after a look that did not."""
        for path in found.marks.keys() - self.locked:
            self._mark(path, found.marks, deep=True)

    def forbids(self, folder: str, names: Iterable[str]) -> set[str]:
        """Of the names in a folder those that a rule says may not be written."""
        if self._forbidden is None:
            return set()
        listed = list(names)
        start = f"{self.root}/{folder}/" if folder else f"{self.root}/"
        concerned = self._forbidden.concerns([start + name for name in listed])
        return {name for name, may_not in zip(listed, concerned, strict=True) if may_not}

    def _hooks(self, git_folders: list[str]) -> Iterator[str]:
        """The folders below this one that git takes hooks from because a configuration says so."""
        of_person = hooks_of_person()
        for path in git_folders:
            values = list(of_person)
            for name in ("config", "config.worktree"):
                if (read := read_plain(self.descriptor, f"{path}/{name}" if path else name)) is not None:
                    values += hooks_paths(read[0].decode(errors="replace"))
            above, _, last = path.rpartition("/")
            top = f"{self.root}/{above if last == '.git' else path}"
            for value in values:
                target = os.path.normpath(os.path.join(top, value))  # noqa: PTH118 - no links are to be followed
                if target.startswith(self.root + "/"):
                    yield target[len(self.root) + 1 :]

    def _folder(self, path: str) -> _Folder | None:
        try:
            now = os.stat(path or ".", dir_fd=self.descriptor, follow_symlinks=False)
            known = self._folders.get(path)
            if known is not None and known.number == now.st_ino and known.changed == now.st_ctime_ns:
                return known
            return self._list(path)
        except OSError:
            return None  # gone meanwhile, or a link now, or not ours to read

    def _list(self, path: str) -> _Folder:
        with opened(self.descriptor, path) as folder:
            began = time.time_ns()
            state = os.fstat(folder)
            with os.scandir(folder) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        # What changes within one step of the clock cannot be told by it: such a folder is listed again next time.
        changed = state.st_ctime_ns if state.st_ctime_ns < began - _CLOCK_STEP else -1
        folders = [name for name, is_folder in names.items() if is_folder]
        if _is_of_git(path):
            below = tuple(name for name in folders if name in _WALKED_OF_GIT)
            return _Folder(state.st_ino, changed, below, tuple(OF_GIT & names.keys()), False, True)
        guarded = settings_among(path, names) | self.forbids(path, names)
        if "attributes" in names and self._is_info(path):
            guarded.add("attributes")
        if names.get(".git") is False:
            guarded.add(".git")  # a file or a link that says where the repository is
        bare = names.keys() >= _GIT_FOLDER_HAS  # git takes such a folder for a repository, whatever else is in it
        if bare:
            guarded |= OF_GIT & names.keys()
        below = tuple(name for name in folders if name not in guarded)
        return _Folder(state.st_ino, changed, below, tuple(guarded), ".git" in names, bare)

    def _is_info(self, path: str) -> bool:
        """Whether it is the folder of a repository in which git looks for attributes."""
        above, _, name = path.rpartition("/")
        if name != "info":
            return False
        try:
            os.stat(f"{above}/HEAD" if above else "HEAD", dir_fd=self.descriptor, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _mark(self, path: str, marks: dict[str, Mark], *, deep: bool) -> None:
        try:
            state = os.stat(path, dir_fd=self.descriptor, follow_symlinks=False)
            changes = [("", state.st_ino, state.st_ctime_ns, state.st_size)]
            if deep and path not in self.locked and stat.S_ISDIR(state.st_mode):
                with opened(self.descriptor, path) as folder:
                    changes += _changes(folder, "", _MOST_INSIDE)
            marks[path] = Mark(stat.S_IFMT(state.st_mode), state.st_ino, tuple(sorted(changes)))
        except OSError:
            return  # not there, which is the best it can be


def _is_of_git(path: str) -> bool:
    """Whether git made the folder for itself, and only a few folders below it can matter."""
    parts = path.split("/")
    if parts[-1] == ".git":
        return True
    return len(parts) > 2 and parts[-2] == "worktrees" and ".git" in parts[:-2]


def _changes(folder: int, start: str, room: int) -> Iterator[tuple[str, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            state = entry.stat(follow_symlinks=False)
            yield start + entry.name, state.st_ino, state.st_ctime_ns, state.st_size
            room -= 1
            if room <= 0:
                return
            if stat.S_ISDIR(state.st_mode):
                with opened(folder, entry.name) as below:
                    for change in _changes(below, f"{start}{entry.name}/", room):
                        yield change
                        room -= 1
