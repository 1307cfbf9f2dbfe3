"""Opens files below a folder and never outside it, whatever links and mounts do meanwhile.

On Linux the kernel does it in one step (`openat2`). Elsewhere each part of the path is opened on its own, without
following links; a link is read and its target walked the same way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from typing import Any

_OPENAT2 = 437  # the same number on every architecture
_NO_XDEV, _NO_MAGICLINKS, _BENEATH = 0x01, 0x02, 0x08
_MOST_LINKS = 40


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


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
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
    how = _How(
        flags, mode if flags & (os.O_CREAT | getattr(os, "O_TMPFILE", 0)) else 0, _BENEATH | _NO_MAGICLINKS | _NO_XDEV
    )
    encoded = os.fsencode(path)
    while True:
        opened = _libc.syscall(_OPENAT2, folder, encoded, ctypes.byref(how), ctypes.sizeof(how))
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


def without_waiting(path: str, flags: int) -> int:
    """For `open(…, opener=…)`: a pipe that nobody writes to holds up nobody, and a folder leaves nothing open."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
