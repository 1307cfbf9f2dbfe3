"""The whole output of a command in a private file, when it is more than anybody wants to read at once."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST_FILE = 4 << 30
_OLDEST_SECONDS = 7 * 24 * 3600
_MOST_FILES = 200


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
        """Remove what is older than a week, and the oldest when there are too many."""
        found: list[tuple[float, Path]] = []
        for path in self.path.glob("output-*.txt"):
            try:
                found.append((path.stat().st_mtime, path))
            except FileNotFoundError:
                continue  # another Ferrule was faster
        found.sort()
        oldest = time.time() - _OLDEST_SECONDS
        surplus = len(found) - _MOST_FILES
        for place, (changed, path) in enumerate(found):
            if changed < oldest or place < surplus:
                path.unlink(missing_ok=True)


def clear_old_folders(above: Path) -> None:
    """Remove the folders of sessions to which nothing was added for a week."""
    oldest = time.time() - _OLDEST_SECONDS
    for folder in above.glob("session-*"):
        try:
            if folder.lstat().st_mtime < oldest:
                shutil.rmtree(folder)
        except FileNotFoundError:
            continue  # another Ferrule was faster


class Spill:
    """One file: written as output comes, readable from any place in it."""

    def __init__(self, folder: Path, largest: int) -> None:
        self.path = folder / f"output-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(6).hex()}.txt"
        self._opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._largest = largest
        self.size = 0
        self.full = ""
        """Why the file does not have everything; empty while it does."""

    def write(self, data: bytes) -> None:
        """Add to it, up to its bound."""
        if self.full:
            return
        if self.size + len(data) > self._largest:
            data = data[: self._largest - self.size]
            self.full = f"it was cut at its bound of {self._largest:,} bytes"
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._opened, view)
                self.size += written
                view = view[written:]
        except OSError as error:
            self.full = f"it could not be written further: {error.strerror}"

    def read(self, start: int, length: int) -> bytes:
        """A part of it; nothing if it was cleared away meanwhile."""
        if self._opened >= 0:
            return os.pread(self._opened, length, start)
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read(length)
        except FileNotFoundError:
            return b""

    def close(self) -> None:
        """Let go of the file; it stays where it is."""
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1
