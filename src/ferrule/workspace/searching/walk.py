"""Lists folders: what is in them that is not ignored, without following a link or leaving the workspace."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathProblem, failed
from ferrule.workspace.searching.ignore_files import Ignored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ferrule.workspace.paths import Paths

EntryKind = Literal["file", "directory", "link", "other"]


@dataclass(slots=True, frozen=True)
class Entry:
    """Something in a folder."""

    path: Path
    kind: EntryKind
    size: int
    changed: int
    """When its content changed last, in nanoseconds."""


class Walk:
    """Goes through a folder and those below it."""

    def __init__(self, paths: Paths, start: Place, leave_out: Callable[[Path], bool] | None = None) -> None:
        self._paths = paths
        self._start = start
        self._ignored = Ignored(start.root.path)
        self._leave_out = leave_out
        self.ignored = 0
        self.held_back = 0
        self.denied = 0

    def folder(self, path: Path) -> list[Entry]:
        """What is in one folder: folders first, each sort in order of name."""
        place = Place(self._start.root, path, str(path))
        opened = self._paths.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        entries: list[Entry] = []
        try:
            for name in os.listdir(opened):  # noqa: PTH208 - of an open folder
                found = _stat(name, opened)
                if found is None:
                    continue
                entry = Entry(path / name, _kind(found.st_mode), found.st_size, found.st_mtime_ns)
                if self._skips(entry):
                    self.ignored += 1
                elif self._paths.kept.hides and self._paths.kept.hidden(entry.path):
                    self.held_back += 1
                else:
                    entries.append(entry)
        finally:
            os.close(opened)
        return sorted(entries, key=lambda entry: (entry.kind != "directory", os.fsencode(entry.path)))

    def all(self, depth: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Every entry with its depth from 0 on, a folder before what is in it."""
        try:
            waiting = [(0, entry) for entry in reversed(self.folder(self._start.path))]
        except OSError as error:
            raise failed(str(self._start), error) from None
        while waiting:
            level, entry = waiting.pop()
            yield level, entry
            if entry.kind == "directory" and (depth is None or level + 1 < depth):
                try:
                    inside = self.folder(entry.path)
                except (OSError, PathProblem):
                    self.denied += 1
                    continue
                waiting += [(level + 1, one) for one in reversed(inside)]

    def _skips(self, entry: Entry) -> bool:
        if self._ignored(entry.path, is_folder=entry.kind == "directory"):
            return True
        return self._leave_out is not None and self._leave_out(entry.path)


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"
