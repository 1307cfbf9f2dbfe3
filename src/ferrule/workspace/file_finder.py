"""Finds the files of a workspace that rules are about, for a box to hide or lock, without listing the tree each time.

A folder is listed once, and again only when it has changed: a new name in it changes its `ctime`, which no program can
set back. So it costs one look at each folder, and not one at each file.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Concerns = Callable[[Sequence[str]], Sequence[bool]]
    """Of each of many real paths whether the rules are about it."""

_CLOCK_STEP = 20_000_000  # of the coarsest clock a file system uses, in nanoseconds
_GIT_KEEPS = frozenset({"objects", "refs", "logs", "lfs"})


class _SeenFolder(NamedTuple):
    number: int
    changed: int
    below: tuple[str, ...]
    found: tuple[str, ...]


class FileFinder:
    """Remembers what it saw of each folder. `rules` names what `concerns` goes by: when that changes, all is looked at
    anew.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _SeenFolder] = {}
        self._rules: object = None

    def find(self, roots: Iterable[str], concerns: Concerns, rules: object) -> tuple[str, ...]:
        """Every file and folder that they are about; what lies in such a folder is not named."""
        if rules != self._rules:
            self._seen, self._rules = {}, rules
        found: list[str] = []
        seen: dict[str, _SeenFolder] = {}
        waiting = list(dict.fromkeys(roots))
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue  # a root that lies in another
            folder = self._look(path, concerns)
            if folder is not None:
                seen[path] = folder
                found += folder.found
                waiting += folder.below
        self._seen = seen
        return tuple(sorted(found))

    def _look(self, path: str, concerns: Concerns) -> _SeenFolder | None:
        try:
            state = os.lstat(path)
            if not stat.S_ISDIR(state.st_mode):
                return None
            known = self._seen.get(path)
            if known is not None and (known.number, known.changed) == (state.st_ino, state.st_ctime_ns):
                return known
            began = time.time_ns()
            with os.scandir(path) as entries:
                listed = {entry.path: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            return None  # gone meanwhile, or not ours to read: no command of ours reads it either
        names = list(listed)
        found = {name for name, is_found in zip(names, concerns(names), strict=True) if is_found}
        folders = [name for name, is_folder in listed.items() if is_folder and name not in found]
        if path.endswith("/.git"):  # nothing in there is found by its name
            folders = [name for name in folders if name.rpartition("/")[2] not in _GIT_KEEPS]
        # What changes within one step of the clock cannot be told by it: such a folder is listed again next time.
        changed = state.st_ctime_ns if state.st_ctime_ns < began - _CLOCK_STEP else -1
        return _SeenFolder(state.st_ino, changed, tuple(folders), tuple(found))
