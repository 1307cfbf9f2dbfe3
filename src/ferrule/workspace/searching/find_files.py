"""Finds files: by name with ripgrep, newest first, or folder by folder for a listing.

ripgrep walks with all cores and gives the names in any order; their dates are looked up while it goes on.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import compress
from typing import TYPE_CHECKING, Literal

from ferrule.core.errors import ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.files import paths_of
from ferrule.workspace.ignore_files import Ignored
from ferrule.workspace.names import one_line
from ferrule.workspace.paths import Place, require_folder
from ferrule.workspace.problems import PathError, failed
from ferrule.workspace.restrictions import held_back_note
from ferrule.workspace.searching.globs import glob_below, select
from ferrule.workspace.searching.ripgrep import find_ripgrep, ripgrep, understand
from ferrule.workspace.searching.search import SECONDS, Names, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from ferrule.core.context import ToolContext
    from ferrule.workspace.paths import Paths, Root


_FEW = 500  # these are looked up in about a millisecond, less than handing them to a thread may take


@dataclass(slots=True)
class FoundFiles:
    """Files found: the newest of them, and how many there are. Names are below the root of the searched place."""

    names: list[bytes] = field(default_factory=list[bytes])
    total: int = 0
    notes: list[str] = field(default_factory=list[str])


_Dated = tuple[int, bytes]


async def find_files(
    paths: Paths, place: Place, globs: Sequence[str], most: int, show: Callable[[list[bytes]], None]
) -> FoundFiles:
    """Every file below `place` that the globs choose; `show` gets names as they come."""
    program = find_ripgrep(paths)
    rest, dated, notes, held = b"", list[_Dated](), list[str](), 0
    chosen = select(globs)
    async with ripgrep(program, place, ("--files", *chosen.flags), None) as running:
        try:
            async for piece in until(running.output(), SECONDS):
                *names, rest = (rest + piece).split(b"\0")
                if chosen.fit is not None:
                    names = list(compress(names, chosen.fit(names)))
                if paths.kept.hides:
                    listed = len(names)
                    names = [
                        name
                        for name in names
                        if not paths.kept.hidden(place.root.path / os.fsdecode(name.removeprefix(b"./")))
                    ]
                    held += listed - len(names)
                if names:
                    show(names)
                if len(names) <= _FEW:
                    dated += _with_dates(place.root, names)
                else:  # beside the loop, so that what was shown is seen at once
                    import asyncio

                    running.leave_a_core()
                    dated += await asyncio.to_thread(_with_dates, place.root, names)
        except TimeoutError:
            notes.append(f"The search was stopped after {SECONDS:g} s; there may be more. Narrow it.")
        else:
            code = await running.ended()
            if code not in (0, 1):
                notes += understand(running.complaints, "").notes()
                if code != 2:
                    raise ToolError(phrase("The search was cut short: ripgrep ended with code {code}.", code=code))
    # The newest first; those of one moment in order of name.
    first = sorted(dated)[:most] if len(dated) <= 4 * most else nsmallest(most, dated)
    return FoundFiles([name for _, name in first], len(dated), [*notes, *held_back_note(held)])


def _with_dates(root: Root, names: list[bytes]) -> list[_Dated]:
    dated: list[_Dated] = []
    stat, folder = os.lstat, root.descriptor
    for name in names:
        try:
            dated.append((-stat(name, dir_fd=folder).st_mtime_ns, name))
        except OSError:
            continue  # gone meanwhile
    return dated


# A search by name as a tool makes it: a glob below a folder, and names shown as they come.


MOST = 1000
"""Files that are listed."""


async def search_by_name(
    context: ToolContext, pattern: str, folder: str, parameter: str
) -> tuple[Place, Names, FoundFiles]:
    """The newest files that fit, at any depth unless the pattern begins with `./` or `/`; `parameter` is what the tool
    calls the folder.
    """
    paths = paths_of(context.session)
    place = paths.find(folder)
    require_folder(paths, place, phrase("Give a folder as `{parameter}`.", parameter=parameter))
    names = Names(paths, place)
    left = MOST

    def show(found: list[bytes]) -> None:
        nonlocal left
        if left > 0 and context.watched:
            context.partial("\n".join(one_line(names.show(name)) for name in found[:left]))
            left -= len(found)

    glob = glob_below(pattern, place, any_depth=True)
    return place, names, await find_files(paths, place, (glob,), MOST, show)


# Lists folders: what is in them that is not ignored, without following a link or leaving the workspace.


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
                try:
                    found = os.stat(name, dir_fd=opened, follow_symlinks=False)
                except OSError:
                    continue
                entry = Entry(path / name, _kind(found.st_mode), found.st_size, found.st_mtime_ns)
                if self._ignored(entry.path, is_folder=entry.kind == "directory") or (
                    self._leave_out is not None and self._leave_out(entry.path)
                ):
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
                except (OSError, PathError):
                    self.denied += 1
                    continue
                waiting += [(level + 1, one) for one in reversed(inside)]


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"
