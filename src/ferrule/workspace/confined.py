"""Opens files below a folder and never outside it, whatever links and mounts do meanwhile.

On Linux the kernel does it in one step (`openat2`). Elsewhere each part of the path is opened on its own, without
following links; a link is read and its target walked the same way.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from enum import Enum
from pathlib import Path
from typing import Any

_OPENAT2 = 437  # the same number on every architecture
_NO_XDEV, _NO_MAGICLINKS, _BENEATH = 0x01, 0x02, 0x08
_MOST_LINKS = 40


class LeadsOut(OSError):  # noqa: N818 - reads as what it says
    """The path leads out of the folder, or over a mount, or through a link that must not be followed."""


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` below the open `folder`; raises `LeadsOut` if any part of it would lead elsewhere."""
    flags |= os.O_CLOEXEC
    if kernel_confines():
        return _openat2(folder, path or ".", flags, mode)
    return _walk(folder, path, flags, mode)


def kernel_confines() -> bool:
    """Whether the kernel itself keeps paths inside (Linux 5.6 and newer)."""
    global _confines
    if _confines is None:
        _confines = _try()
    return _confines


_confines: bool | None = None
_libc: Any = None


def _try() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # always there, as the current folder is not
    try:
        os.close(_openat2(here, ".", os.O_PATH | os.O_CLOEXEC, 0))
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    finally:
        os.close(here)
    return True


def _openat2(folder: int, path: str, flags: int, mode: int) -> int:
    import ctypes  # settings are read without it

    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
    made = mode if flags & (os.O_CREAT | getattr(os, "O_TMPFILE", 0)) else 0
    how = struct.pack("=QQQ", flags, made, _BENEATH | _NO_MAGICLINKS | _NO_XDEV)
    encoded = os.fsencode(path)
    while True:
        opened = _libc.syscall(_OPENAT2, folder, encoded, how, len(how))
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number in (errno.EAGAIN, errno.EINTR):
            continue  # something was renamed while the kernel walked; it says so instead of guessing
        if number in (errno.EXDEV, errno.ELOOP):
            raise LeadsOut(number, os.strerror(number), path)
        raise OSError(number, os.strerror(number), path)


def _walk(folder: int, path: str, flags: int, mode: int) -> int:
    """The same without the kernel's help. `folders` is the way back, so that `..` cannot pass the top."""
    if path.startswith("/"):
        raise LeadsOut(errno.EXDEV, "an absolute path", path)
    folders = [os.dup(folder)]
    parts = [part for part in path.split("/") if part not in ("", ".")][::-1]
    links = 0
    device = os.fstat(folder).st_dev
    try:
        while parts:
            part = parts.pop()
            if part == "..":
                if len(folders) == 1:
                    raise LeadsOut(errno.EXDEV, "the path leads out", path)
                os.close(folders.pop())
                continue
            try:
                found = os.stat(part, dir_fd=folders[-1], follow_symlinks=False)
            except FileNotFoundError:
                if parts or not flags & os.O_CREAT:
                    raise
                return os.open(part, flags | os.O_NOFOLLOW | os.O_EXCL, mode, dir_fd=folders[-1])
            if stat.S_ISLNK(found.st_mode):
                links += 1
                target = os.readlink(part, dir_fd=folders[-1])
                if links > _MOST_LINKS:
                    raise LeadsOut(errno.ELOOP, "the links lead in a circle", path)
                if target.startswith("/"):
                    raise LeadsOut(errno.EXDEV, "the path leads out", path)
                parts += [one for one in target.split("/") if one not in ("", ".")][::-1]
                continue
            if found.st_dev != device:
                raise LeadsOut(errno.EXDEV, "the path leads over a mount", path)
            if parts:
                folders.append(
                    os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folders[-1])
                )
                continue
            return os.open(part, flags | os.O_NOFOLLOW, mode, dir_fd=folders[-1])
        return os.open(".", flags, mode, dir_fd=folders[-1])
    finally:
        for opened in folders:
            os.close(opened)


# Small files that a workspace brings along and that are read without a question: settings, servers. Whoever made the
# workspace chose what they are. A pipe would be waited for, and a device read without end.


MOST = 1 << 20


def read_given(file: Path, most: int = MOST) -> bytes:
    """What an ordinary file of a reasonable size holds, links followed; raises `OSError`, whose `strerror` completes
    "could not be read: …".
    """
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as opened:  # noqa: PTH123 - a descriptor
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        found = opened.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(file))
    return found


# Which walls keep file tools inside the workspace on this machine: each is tried, not asked for.


class PathWall(Enum):
    """What stops a path from leading out."""

    KERNEL = "openat2"
    WALK = "walk"
    NONE = "none"


def path_wall() -> PathWall:
    """Try to leave a folder through a link; what stops it is what stops every file tool."""
    import tempfile  # only `ferrule doctor` asks

    with tempfile.TemporaryDirectory() as name:
        inside, outside = Path(name, "inside"), Path(name, "outside")
        inside.mkdir()
        outside.touch()
        (inside / "file").touch()
        (inside / "link").symlink_to("../outside")
        (inside / "inner").symlink_to("file")
        folder = os.open(inside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(open_beneath(folder, "inner", os.O_RDONLY))
            os.close(open_beneath(folder, "link", os.O_RDONLY))
        except LeadsOut:
            return PathWall.KERNEL if kernel_confines() else PathWall.WALK
        finally:
            os.close(folder)
    return PathWall.NONE


def search_wall() -> bool:
    """Whether the kernel (Landlock) keeps a search to its folder: a thread is bound to one, and tries to leave it."""
    import tempfile
    import threading

    from ferrule.process.landlock import Confinement, confine_thread

    stopped: list[bool] = []
    with tempfile.TemporaryDirectory() as name:
        inside, outside = Path(name, "inside"), Path(name, "outside")
        inside.mkdir()
        outside.touch()
        (inside / "file").touch()
        folder = os.open(inside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

        def leave() -> None:
            bound = confine_thread(Confinement((), (folder,)))
            stopped.append(bound and _opens(inside / "file") and not _opens(outside))

        try:
            thread = threading.Thread(target=leave, name="ferrule-landlock-trial")  # the rules bind it for good
            thread.start()
            thread.join()
        finally:
            os.close(folder)
    return stopped == [True]


def _opens(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    return True
