"""What rules keep from the file tools, as the tools see it. Whoever wires a session puts it into its configuration.

A tool that names one file is decided by the policy before it runs. These are for what a policy cannot see: the files
that a search finds, and a link that leads elsewhere by the time it is opened.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ferrule.core.access import Restrictions

    Concerns = Callable[[Sequence[str]], Sequence[bool]]
    """Of each of many real paths whether the rules are about it."""


class KeptBack:
    """The restrictions of one session; of one that has none, nothing is kept back."""

    def __init__(self, restrictions: Restrictions | None, roots: tuple[str, ...]) -> None:
        self._restrictions = restrictions
        self._roots = roots

    def __bool__(self) -> bool:
        return self._restrictions is not None

    @property
    def hides(self) -> bool:
        """Whether listings may have to leave something out."""
        return self._restrictions is not None and self._restrictions.denies_reads

    def require_read(self, path: Path, name: str) -> None:
        """Refuse to open what may not be read, whatever name led there."""
        if self.hides and self._restrictions and (rule := self._restrictions.denies_read(str(path), self._roots)):
            raise _denied(phrase("`{name}` is not read: {rule} denies it.", name=name, rule=rule))

    def require_write(self, path: Path, name: str) -> None:
        """Refuse to change what may not be written."""
        if self._restrictions and (rule := self._restrictions.denies_write(str(path), self._roots)):
            raise _denied(phrase("`{name}` is not written: {rule} denies it.", name=name, rule=rule))

    def asks_to_write(self, path: Path, start: Path) -> bool:
        """Whether a change of a whole folder leaves a path out: writing it asks, and only `start` was asked about."""
        if self._restrictions is None or path == start:
            return False
        return self._restrictions.asks_to_write(str(path), str(start), self._roots) is not None

    def hidden(self, path: Path) -> bool:
        """Whether a listing leaves this path out."""
        return bool(
            self.hides and self._restrictions and self._restrictions.denies_read(str(path), self._roots) is not None
        )

    def held_back(self, path: Path, start: Path) -> bool:
        """Whether a search leaves the content of this path out."""
        if self._restrictions is None or path == start:
            return False
        return self._restrictions.holds_back(str(path), str(start), self._roots) is not None

    def all_held_back(self, paths: Sequence[str], start: Path) -> Sequence[bool]:
        """The same of each of many paths."""
        if self._restrictions is None:
            return [False] * len(paths)
        held = self._restrictions.held_back(paths, str(start), self._roots)
        return [one and path != str(start) for path, one in zip(paths, held, strict=True)] if any(held) else held

    def names(self, start: Path) -> Sequence[str]:
        return self._restrictions.names(str(start), self._roots) if self._restrictions else ()

    def left_out(self, start: Path) -> Sequence[str]:
        return self._restrictions.left_out(str(start), self._roots) if self._restrictions else ()

    def places(self, start: Path) -> Sequence[str]:
        return self._restrictions.places(str(start), self._roots) if self._restrictions else ()


def held_back_note(count: int) -> list[str]:
    """What a search says of files that it held back."""
    if not count:
        return []
    files, are = ("1 file", "was") if count == 1 else (f"{count:,} files", "were")
    return [f"{files} {are} held back by a rule. To read such a file, name it."]


def _denied(message: str) -> PathProblem:
    return PathProblem(
        "denied",
        message,
        kind=ErrorKind.PERMISSION,
        suggestion=phrase("Do not try to reach it another way; go on without it, or ask the user."),
    )


# Finds the files of a workspace that rules are about, for a box to hide or lock, without listing the tree each time.


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
