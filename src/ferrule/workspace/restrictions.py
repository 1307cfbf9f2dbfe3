"""What rules keep from the file tools, as the tools see it. Whoever wires a session puts it into its configuration.

A tool that names one file is decided by the policy before it runs. These are for what a policy cannot see: the files
that a search finds, and a link that leads elsewhere by the time it is opened.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import advice, phrase
from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from ferrule.core.access import Restrictions
    from ferrule.process.folder_index import FolderListing

    Concerns = Callable[[str, str], Sequence[str]]
    """Of the names in a real folder, each with `/` behind it, those that the rules are about."""


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

    def why_left_alone(self, path: Path, start: Path) -> str:
        """Why a change of a whole folder leaves a path out, where only `start` was decided about; else empty."""
        if self._restrictions is None or path == start:
            return ""
        if rule := self._restrictions.denies_write(str(path), self._roots):
            return f"denied by {rule}"
        if self._restrictions.asks_to_write(str(path), str(start), self._roots) is not None:
            return "what other programs run or obey; to change it, name it as `path`"
        return ""

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

    def may_hold_back(self, start: Path) -> bool:
        """Whether a search may have to leave anything out."""
        return self._restrictions is not None and self._restrictions.may_hold_back(str(start), self._roots)

    def count_held_in(self, folder: Path, listing: str, start: Path) -> int:
        r"""How many of a listing of paths below a folder, each as `./a/b\0`."""
        if self._restrictions is None:
            return 0
        held = self._restrictions.held_in(str(folder), listing, str(start), self._roots)
        return len(held) - held.count(str(start))

    def left_out(self, start: Path) -> Sequence[str]:
        return self._restrictions.left_out(str(start), self._roots) if self._restrictions else ()


def held_back_note(count: int) -> list[str]:
    """What a search says of files that it held back."""
    if not count:
        return []
    files, are = ("1 file", "was") if count == 1 else (f"{count:,} files", "were")
    return [f"{files} {are} held back by a rule. To read such a file, name it."]


def _denied(message: str) -> PathError:
    return PathError(
        "denied",
        message,
        kind=ErrorKind.PERMISSION,
        suggestion=advice(
            "Do not try to reach it another way; go on without it, or ask the user.",
            "`ferrule rules list` shows the rules that are in force.",
        ),
    )


# Finds the files of a workspace that rules are about, for a box to hide or lock, without listing the tree each time.


_GIT_KEEPS = frozenset({"objects", "refs", "logs", "lfs"})


def files_concerned(roots: Iterable[str], concerns: Concerns, rules: object) -> tuple[str, ...]:
    """Every file and folder that rules are about; what lies in such a folder is not named. `rules` says what `concerns`
    goes by: while that is equal, so are the answers.
    """
    from ferrule.process.folder_index import index_of  # only for commands, and a list of names starts without

    found: set[str] = set()
    for root in dict.fromkeys(roots):

        def read(path: str, listing: FolderListing, top: str = root) -> tuple[list[str], tuple[str, ...] | None]:
            folder = f"{top}/{path}" if path else top
            found = concerns(folder, listing.text)
            kept = _GIT_KEEPS if folder.endswith("/.git") else frozenset[str]()  # nothing in there is found by its name
            below = [name for name in listing.folders if name not in found and name not in kept]
            return below, tuple(f"{folder}/{name}" for name in found) or None

        try:
            opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # not there, or not ours to read: no command of ours reads it either
        try:
            found.update(*index_of(root, rules).look(opened, read).found.values())
        finally:
            os.close(opened)
    return tuple(sorted(found))
