"""The whole output of a command in a private file, when it is more than anybody wants to read at once.

A command that floods fills no disk: beyond a bound the file keeps the first and the last part of the output, and says
in between how much is missing.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST_FILE = 64 << 20
_OLDEST_SECONDS = 7 * 24 * 3600
_MOST_FILES, _MOST_BYTES = 200, 1 << 30
_PIECE, _SMALLEST = 1 << 20, 200


@dataclass(slots=True, frozen=True)
class SpillFolder:
    """Where such files lie: a folder of Ferrule's own, that only its owner may enter."""

    path: Path
    largest: int = _LARGEST_FILE
    """Bytes that one file may take; never more than half of what the disk has left."""

    def open(self) -> Spill:
        """A new file, and old ones cleared away."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.prune()
        return Spill(self.path, min(self.largest, shutil.disk_usage(self.path).free // 2))

    def prune(self) -> None:
        """Remove what is older than a week, and the oldest when there are too many or they are too large."""
        found: list[tuple[float, int, Path]] = []
        for path in self.path.glob("output-*.txt"):
            try:
                state = path.stat()
            except FileNotFoundError:
                continue  # another Ferrule was faster
            found.append((state.st_mtime, state.st_size, path))
        found.sort(reverse=True)
        oldest, size = time.time() - _OLDEST_SECONDS, 0
        for place, (changed, taken, path) in enumerate(found):
            size += taken
            if changed < oldest or place >= _MOST_FILES or size > _MOST_BYTES:
                path.unlink(missing_ok=True)


class Spill:
    """One file: written as output comes, readable from any place in it.

    Places are those in the output, whatever of it the file still holds: the first quarter of the bound, then from
    `_resumes` on what came last. When the file is full, its last quarter is moved up to the first.
    """

    def __init__(self, folder: Path, largest: int) -> None:
        self.path = folder / f"output-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(6).hex()}.txt"
        self._opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._largest = largest = max(largest, _SMALLEST)
        self._quarter = largest // 4
        self._resumes = self._quarter
        self._after = self._quarter
        """Where in the file it goes on after the first quarter."""
        self.size = 0
        """Bytes of output so far."""
        self.full = ""
        """Why the file does not have everything; empty while it does."""
        self._broken = False

    def write(self, data: bytes) -> None:
        """Add to it; where there is no room left, the middle makes some."""
        if self._broken:
            return
        view = memoryview(data)
        try:
            while view:
                room = self._largest - self._place(self.size)
                if room <= 0:
                    self._drop_middle()
                    continue
                written = os.pwrite(self._opened, view[:room], self._place(self.size))
                self.size += written
                view = view[written:]
        except OSError as error:
            self.full, self._broken = f"it could not be written further: {error.strerror}", True

    def read(self, start: int, length: int) -> bytes:
        """A part of the output, without what was dropped of it; nothing if the file was cleared away meanwhile."""
        end = min(start + length, self.size)
        ranges = [(start, min(end, self._quarter)), (max(start, self._resumes), end)]
        try:
            return b"".join(self._read(self._place(first), last - first) for first, last in ranges if first < last)
        except FileNotFoundError:
            return b""

    def _place(self, at: int) -> int:
        return at if at < self._quarter else self._after + at - self._resumes

    def _drop_middle(self) -> None:
        resumes = self.size - self._quarter
        note = f"\n[… {resumes - self._quarter:,} bytes left out here …]\n".encode()
        os.pwrite(self._opened, note, self._quarter)
        source, target = self._place(resumes), self._quarter + len(note)
        for moved in range(0, self._quarter, _PIECE):
            piece = os.pread(self._opened, min(_PIECE, self._quarter - moved), source + moved)
            os.pwrite(self._opened, piece, target + moved)
        self._resumes, self._after = resumes, target
        os.ftruncate(self._opened, target + self._quarter)
        self.full = f"its middle was dropped, since a file holds at most {self._largest:,} bytes"

    def _read(self, place: int, length: int) -> bytes:
        if self._opened >= 0:
            return os.pread(self._opened, length, place)
        with self.path.open("rb") as file:
            file.seek(place)
            return file.read(length)

    def close(self) -> None:
        """Let go of the file; it stays where it is."""
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1
