"""The private home and temporary places of one box, and what a command left there, which is not kept.

They are folders of the host rather than memory of the box, so that what was written can be named when the box is gone.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from ferrule.process.owned_folders import OwnedFolder, memory_folder
from ferrule.process.sandbox.denials import Denial
from ferrule.process.sandbox.places import is_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_NAMED, _MOST_FOUND = 10, 1_000
_OF_TOOLS = (".cache", ".npm", ".config/go/telemetry")
"""Of a home: what programs keep for themselves, and a user neither asks for nor misses."""


class Outside:
    """Made before a command; closed, it is gone. `places` are what it is seen as, by real path, each with its mode."""

    def __init__(self, home: str, places: dict[str, int]) -> None:
        self._home = home
        self._owned = OwnedFolder(memory_folder(), prefix="ferrule-box-")
        self.path = str(self._owned.path)
        self._own: dict[str, bytes | None] = {}
        self.folders: dict[str, str] = {}
        """Where each place lies here."""
        for at, (place, mode) in enumerate(sorted(places.items())):
            self.folders[place] = f"{self.path}/{at}"
            os.mkdir(self.folders[place])  # noqa: PTH102 - on every start
            os.chmod(self.folders[place], mode)  # noqa: PTH101

    def close(self) -> None:
        self._owned.close()

    def write(self, path: str, content: bytes) -> None:
        """A file that the box finds there."""
        place = next(one for one in self.folders if is_within(path, one))
        whole = self.folders[place] + path[len(place) :]
        opened = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.write(opened, content)
        finally:
            os.close(opened)
        self._own[path] = content

    def leave_out(self, paths: Iterable[str]) -> None:
        """What is mounted or linked there for the box, and so no command's."""
        self._own |= dict.fromkeys(paths)

    def left(self) -> Denial | None:
        """What was written and is not kept."""
        found: list[str] = []
        above = {path[: at.start()] for path in self._own for at in re.finditer("/", path)}
        skipped = {f"{self._home}/{name}" for name in _OF_TOOLS} | {*filter(None, map(self._of_tool, self._own))}
        for place, folder in self.folders.items():
            found += self._written(folder, place, above, skipped)
        if not found:
            return None
        found.sort()
        shown = [f"`~{path[len(self._home) :]}`" if is_within(path, self._home) else f"`{path}`" for path in found]
        more = f" and {len(shown) - _MOST_NAMED:,} more" if len(shown) > _MOST_NAMED else ""
        return Denial(
            "unkept",
            found[0],
            f"Written outside the workspace and not kept: {', '.join(shown[:_MOST_NAMED])}{more}.",
            "Write to the workspace instead, or ask the user to add the folder to `writable` of `[sandbox]` in their "
            "settings.",
        )

    def _of_tool(self, path: str) -> str:
        """The folder of a home that belongs to a program of which a part is shown."""
        top = path[len(self._home) + 1 :].partition("/")[0] if path.startswith(f"{self._home}/") else ""
        return f"{self._home}/{top}" if top.startswith(".") and top not in (".config", ".local") else ""

    def _written(self, folder: str, place: str, above: set[str], skipped: set[str]) -> Iterator[str]:
        waiting, room = [""], _MOST_FOUND
        while waiting and room > 0:
            inner = waiting.pop()
            with suppress(OSError), os.scandir(folder + inner) as entries:
                listed = list(entries)
                if not listed and inner and place + inner not in above:
                    yield f"{place}{inner}/"
                for entry in listed:
                    path = f"{place}{inner}/{entry.name}"
                    if path in skipped and path not in self._own:
                        continue
                    if path in self._own:
                        content = self._own[path]
                        if content is None or _read(entry.path, len(content) + 1) == content:
                            continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{inner}/{entry.name}")
                    else:
                        room -= 1
                        yield path


def _read(path: str, most: int) -> bytes | None:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(opened, most)
    finally:
        os.close(opened)
