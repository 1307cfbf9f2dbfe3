"""Room kept on the disk, so that what has happened can be written down when the disk is full.

A file takes that room while there is plenty. When a write finds the disk full, the file gives its room up, the write is
tried again, and the file takes back what is left.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

RESERVE = 1 << 20
"""Bytes: hundreds of rows, and what SQLite needs beside them."""
_PLENTY = 4
"""A disk with so many times the reserve free has room for it."""
_NEXT_TO_NOTHING = 64 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# SQLite reports a full disk as one of these where it was not writing a page: making a file beside the database, say.
_UNCLEAR = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


def is_full(error: BaseException, folder: Path) -> bool:
    """Whether something failed because the disk that `folder` is on has no room."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code == sqlite3.SQLITE_FULL or (code in _UNCLEAR and free_bytes(folder) < _NEXT_TO_NOTHING)
    return error.__cause__ is not None and is_full(error.__cause__, folder)


def free_bytes(folder: Path) -> int:
    """What may still be written to the disk that a folder is on; 0 where nobody knows."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


class Reserve:
    """One file, shared by all who write beside it. Nothing here raises: without a reserve a full disk is just full."""

    def __init__(self, path: Path, size: int = RESERVE) -> None:
        self._path, self._size = path, size

    @property
    def held(self) -> int:
        """Bytes that would be free without it."""
        try:
            return self._path.stat().st_blocks * 512
        except OSError:
            return 0

    def keep(self) -> None:
        """Take the room, unless it is taken already or there is not plenty of it."""
        if self.held < self._size and free_bytes(self._path.parent) >= _PLENTY * self._size:
            self._take(self._size)

    def give_up(self) -> bool:
        """Free the room for a write that found none; False where there was none to free."""
        held = self.held
        with suppress(OSError):
            self._path.unlink()
            return held > 0
        return False

    def take_back(self) -> None:
        """Keep what a write has left, for the next one."""
        left = min(self._size, self.held + free_bytes(self._path.parent) - _NEXT_TO_NOTHING)
        if self.held < left:
            self._take(left)

    def _take(self, size: int) -> None:
        with suppress(OSError):
            opened = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(opened, 0, size)
                else:
                    os.pwrite(opened, bytes(size), 0)
            finally:
                os.close(opened)
