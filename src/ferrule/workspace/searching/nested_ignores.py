"""`.ferruleignore` in every folder: ripgrep takes the one at the top of a root, the others are heeded afterwards.

ripgrep knows `.ignore` and `.gitignore` in every folder, but takes a name of ours for one file alone. So what it finds
is gone through once more, and only where a folder on the way has such a file. Looking for them beforehand would mean
walking the tree twice.
"""

from __future__ import annotations

import os
from enum import Enum, auto
from itertools import repeat
from typing import TYPE_CHECKING

from ferrule.workspace.searching.ignore_files import FERRULE_IGNORE, Ignored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ferrule.workspace.paths import Place


_INNER = b"/" + os.fsencode(FERRULE_IGNORE)


class _Folder(Enum):
    PLAIN = auto()
    RULED = auto()
    LEFT_OUT = auto()


class NestedIgnores:
    """Whether a file found below a place stays. Names are those ripgrep gives: from the root on."""

    def __init__(self, place: Place) -> None:
        self._root = place.root
        self._ignored = Ignored(place.root.path)
        self._start = b"" if place.inner == "." else os.fsencode(place.inner)
        above = [b"/".join(self._start.split(b"/")[:depth]) for depth in range(1, self._start.count(b"/") + 2)]
        ruled = any(self._has_rules(folder) for folder in above if folder)
        self._folders = {b"": _Folder.PLAIN, self._start: _Folder.RULED if ruled else _Folder.PLAIN}
        self._plain: set[bytes] = set()  # those of the names so far, as ripgrep writes them

    def of(self, names: list[bytes]) -> list[bytes]:
        """Those of the names that stay."""
        return names if self._all_plain(names) else list(filter(self, names))

    def fit(self, names: Sequence[bytes]) -> Iterable[object]:
        """For each of some names whether it stays."""
        return repeat(True, len(names)) if self._all_plain(names) else map(self, names)

    def _all_plain(self, names: Iterable[bytes]) -> bool:
        folders = {name.rpartition(b"/")[0] for name in names}  # all of them at once: there are far fewer
        for folder in folders - self._plain:
            if self._at(folder) is not _Folder.PLAIN:
                return False
            self._plain.add(folder)
        return True

    def __call__(self, name: bytes) -> bool:
        """Whether one file stays."""
        found = self._at(name[: name.rfind(b"/")])
        if found is _Folder.PLAIN:
            return True
        inner = name.removeprefix(b"./")
        return inner == self._start or (
            found is _Folder.RULED and not self._ignored(self._path(inner), is_folder=False)
        )

    def _at(self, folder: bytes) -> _Folder:
        folder = folder[2:]  # names begin with `./`
        return self._folders.get(folder) or self._look(folder)

    def _look(self, folder: bytes) -> _Folder:
        above = folder.rpartition(b"/")[0]
        found = self._folders.get(above) or self._look(above)
        if found is _Folder.RULED and self._ignored(self._path(folder), is_folder=True):
            found = _Folder.LEFT_OUT
        if found is _Folder.PLAIN and self._has_rules(folder):
            found = _Folder.RULED
        self._folders[folder] = found
        return found

    def _has_rules(self, folder: bytes) -> bool:
        inner, root = folder + _INNER, self._root.descriptor
        return os.access(inner, os.F_OK, dir_fd=root, follow_symlinks=False)

    def _path(self, name: bytes) -> Path:
        return self._root.path / os.fsdecode(name)
