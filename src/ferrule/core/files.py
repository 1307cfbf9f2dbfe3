"""Writes a file whole or not at all, and locks a file or folder for as long as its process lives."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if sys.platform != "win32":
    import fcntl

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_PREFIX = ".ferrule-"
UNFINISHED = lazy_pattern(r"\.ferrule-[0-9a-f]{16}")
"""The name of a file that is being written, until it takes its place."""
_CHUNK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
NOT_ALLOWED = (errno.EPERM, errno.ENOTSUP, errno.EACCES)
"""Why an extended attribute may not be set; the file is written without it."""


def write_atomically(
    path: Path, data: bytes | tuple[bytes, ...], *, mode: int | None = None, durable: bool = True
) -> None:
    """Replace a file with `data` in one step: a crash leaves the old file or the new one, and so does a power cut if
    `durable`. A link at `path` is replaced, not followed; resolve it first if that is not what you want.

    The file keeps its mode, its extended attributes and, as far as this user may set it, its owner. With a `mode` it
    gets that mode less the umask instead, from the moment it exists.
    """
    before = None
    if mode is None and sys.platform != "win32":
        with suppress(FileNotFoundError):
            found = path.lstat()
            before = Attributes.of(path, found) if stat.S_ISREG(found.st_mode) else None

    def finish(opened: int) -> None:
        if before is not None:
            before.give(opened, same_owner=False)

    temporary = path.with_name(unfinished_name())
    private = mode if mode is not None else 0o666 if before is None else 0o600
    write_new(temporary, data, private, finish=finish, durable=durable)
    take_place(temporary, path, durable=durable)


def unfinished_name() -> str:
    """The name of what is being made, before it takes the place of something else."""
    return f"{_PREFIX}{os.urandom(8).hex()}"


def unfinished_in(folder: Path) -> list[Path]:
    """What is being written in a folder, or was when its writer was killed."""
    return [path for path in folder.glob(f"{_PREFIX}*") if UNFINISHED.fullmatch(path.name)]


def write_new(
    path: str | Path,
    data: bytes | tuple[bytes, ...] | BinaryIO,
    mode: int,
    *,
    folder: int | None = None,
    finish: Callable[[int], None] = lambda opened: None,
    durable: bool = True,
) -> None:
    """Write a file that must not exist yet, and remove it if that fails. `folder` is an open one that the path is
    relative to; `finish` gets the descriptor before the file is closed.
    """
    opened = os.open(path, _NEW, mode, dir_fd=folder)
    try:
        _fill(opened, data)
        finish(opened)
        if durable:
            os.fsync(opened)
    except BaseException:
        discard(path, folder)
        raise
    finally:
        os.close(opened)


def take_place(temporary: str | Path, path: str | Path, *, folder: int | None = None, durable: bool = True) -> None:
    """Let a finished file take the place of whatever file is at `path`; it is removed if that fails."""
    try:
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        discard(temporary, folder)
        raise
    if durable and folder is not None:
        os.fsync(folder)
    elif durable and sys.platform != "win32":
        with suppress(OSError):  # a folder that may not be read: the file is in its place all the same
            sync_path(Path(path).parent)


def discard(path: str | Path, folder: int | None = None) -> None:
    """Remove a file that may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(path, dir_fd=folder)


def sync_path(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_all(opened: int, data: bytes) -> None:
    """Write all of `data` to a descriptor, however little it takes at once."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(opened, rest) :]
        except BlockingIOError:  # a pipe whose other end made it one that does not wait
            import select

            select.select([], [opened], [])


def private_file() -> int:
    """A descriptor of an empty file that has no name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ferrule", os.MFD_CLOEXEC)
    import tempfile

    opened, path = tempfile.mkstemp()
    discard(path)
    return opened


def _fill(opened: int, data: bytes | tuple[bytes, ...] | BinaryIO) -> None:
    if isinstance(data, (bytes, tuple)):
        for part in data if isinstance(data, tuple) else (data,):
            write_all(opened, part)
        return
    while piece := data.read(_CHUNK):
        write_all(opened, piece)


@dataclass(slots=True, frozen=True)
class Attributes:
    """What a file is besides its content; carried over when the content changes."""

    mode: int
    owner: int
    group: int
    extended: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, path: str | Path, found: os.stat_result, folder: int | None = None) -> Attributes:
        """Those of a regular file, whose stat result this is."""
        known = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
        try:
            # Without waiting: what is a pipe by now would wait for its other end.
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError:
            return cls(*known)
        try:
            return cls(*known, extended_attributes(opened))
        finally:
            os.close(opened)

    def give(self, opened: int, mode: int | None = None, *, same_owner: bool = True) -> None:
        """Give them to an open file; with `same_owner` raises `PermissionError` if this user may not set the owner."""
        made = os.fstat(opened)  # a folder may hand down a group of its own
        if (self.owner, self.group) != (made.st_uid, made.st_gid):
            try:
                os.fchown(opened, self.owner, self.group)  # which takes rights away from a program, so it comes first
            except PermissionError:
                if same_owner:
                    raise
        os.fchmod(opened, self.mode if mode is None else mode)
        for key, value in self.extended:
            try:
                os.setxattr(opened, key, value)
            except OSError as error:
                if error.errno not in NOT_ALLOWED:
                    raise


def extended_attributes(opened: int) -> tuple[tuple[str, bytes], ...]:
    """The extended attributes of an open file; none where the system or the disk knows none."""
    if not hasattr(os, "listxattr"):
        return ()
    try:
        return tuple((key, os.getxattr(opened, key)) for key in os.listxattr(opened))
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENODATA):
            return ()
        raise


# Reading what may be anything


def without_waiting(path: str, flags: int) -> int:
    """For `open(…, opener=…)`: a pipe that nobody writes to holds up nobody, and a folder leaves nothing open."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def start_of(file: str, most: int) -> bytes:
    """So many bytes of a file; none where there is none. A pipe in its place is not waited for."""
    try:
        with open(file, "rb", opener=without_waiting) as opened:
            return opened.read(most)
    except OSError:
        return b""


# Locks


def lock(opened: int, seconds: float = inf) -> bool:
    """Lock an open file or folder against other processes until it is closed or this process ends, however it ends.

    Waits so many seconds for another that holds it; False if that was not long enough.
    """
    if sys.platform == "win32":  # nothing there keeps two processes apart
        return True
    if seconds == inf:
        fcntl.flock(opened, fcntl.LOCK_EX)
        return True
    end, pause = time.monotonic() + seconds, 0.0005
    while True:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.01)
        else:
            return True


def unlock(opened: int) -> None:
    """Let others lock a file that stays open."""
    if sys.platform != "win32":
        fcntl.flock(opened, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path, seconds: float = inf) -> Generator[bool]:
    """Hold the lock of a folder, or of a file, which is made where there is none; gives whether it is held."""
    if sys.platform == "win32":
        yield True
        return
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield lock(opened, seconds)
    finally:
        os.close(opened)
