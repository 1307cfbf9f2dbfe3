"""Asks the Linux kernel to keep a program to what it needs: what it may read, and what it may start.

The rules bind the thread that sets them and every process it starts from then on, for good. So a thread is made for
each program, and ends once the program runs.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_NO_NEW_PRIVILEGES = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_RIGHTS_OF_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}
_NEWEST_RIGHTS = 16
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
_ALL_NETWORK, _ALL_SCOPES = 0b11, 0b11
_BENEATH = 1


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scope", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("file", ctypes.c_int32))


@dataclass(slots=True, frozen=True)
class Confinement:
    """What a program may do with files: read `folders` and `files`, start `programs`, and nothing else.

    Without `folders` it may read everything, and only starting programs and writing are taken away.
    """

    programs: tuple[str, ...]
    folders: tuple[int, ...] | None = None
    files: tuple[str, ...] = field(default=())
    may_truncate: bool = False
    """Whether files may be cut short, for a program that opens very many and has no code to do so: while this is
    forbidden, the kernel walks from every file it opens up to the root of the file system, just to make sure."""


@lru_cache(maxsize=1)
def kernel_version() -> int:
    """The kernel's version of these rules; 0 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return max(0, _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))
    except OSError:
        return 0


def confine_thread(confinement: Confinement) -> bool:
    """Bind the calling thread, for good. False where the kernel cannot."""
    version = kernel_version()
    if version < 1:
        return False
    rights = _all_rights(version)
    if confinement.folders is None:
        rights &= ~(_READ_FILE | _READ_FOLDER)
        if version >= 5:
            rights &= ~(1 << 15)  # device controls belong to reading
    if confinement.may_truncate:
        rights &= ~_TRUNCATE
    opened = _create(_Rules(rights))
    if opened < 0:
        return False
    try:
        for folder in confinement.folders or ():
            _allow(opened, folder, (_READ_FILE | _READ_FOLDER) & rights)
        _allow_path(opened, os.devnull, (_READ_FILE | _WRITE_FILE) & rights)
        for path in confinement.files:
            _allow_path(opened, path, _READ_FILE & rights)
        for path in confinement.programs:
            _allow_path(opened, path, (_EXECUTE | _READ_FILE) & rights)
        return _restrict(opened)
    finally:
        os.close(opened)


def confine_process(readable: Iterable[str], writable: Iterable[str], *, network: bool = False) -> bool:
    """Bind a process that has only this thread to `open_rules`, for good. False where the kernel cannot."""
    if kernel_version() < 1:
        return False
    opened = open_rules(readable, writable, network=network)
    try:
        return _restrict(opened)
    finally:
        os.close(opened)


def _restrict(rules: int) -> bool:
    if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return _libc().syscall(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0)) == 0


def open_rules(
    readable: Iterable[str], writable: Iterable[str], listed: Iterable[str] = (), *, network: bool = False
) -> int:
    """Rules for a process to bind itself with, as an open descriptor, which a program may inherit.

    What is `readable` may also be run; in what is `writable` everything is allowed; of folders that are `listed` the
    names are shown. Where the kernel can, TCP is not to be had unless `network` is, and neither signals nor abstract
    sockets reach anyone outside. Raises OSError where it has no rules.
    """
    version = kernel_version()
    rights = _all_rights(version)
    held = 0 if network or version < 4 else _ALL_NETWORK
    opened = _create(_Rules(rights, held, _ALL_SCOPES if version >= 6 else 0))
    if opened < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for path in readable:
        _allow_path(opened, path, _READ & rights)
    for path in writable:
        _allow_path(opened, path, rights)
    for path in listed:
        _allow_path(opened, path, _READ_FOLDER)
    return opened


def _all_rights(version: int) -> int:
    return (1 << _RIGHTS_OF_VERSION.get(version, _NEWEST_RIGHTS)) - 1


def _create(rules: _Rules) -> int:
    """The first version knows rules for files alone, and later ones are told by the size which are meant."""
    size = ctypes.sizeof(rules) if rules.scope else 16 if rules.network else 8
    return _libc().syscall(_CREATE, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))


def _allow_path(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no leave
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= _OF_FILES
        _allow(rules, opened, rights)
    finally:
        os.close(opened)


def _allow(rules: int, opened: int, rights: int) -> None:
    if rights:
        rule = _PathRule(rights, opened)
        _libc().syscall(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))


@lru_cache(maxsize=8)
def needed_by(program: str) -> tuple[str, ...]:
    """The program and, if it is linked dynamically, the loader that the kernel starts for it."""
    try:
        with Path(program).open("rb") as file:
            head = file.read(8192)
        loader = _loader(head)
    except (OSError, ValueError, IndexError):
        loader = None
    return (program, loader) if loader else (program,)


def _loader(head: bytes) -> str | None:
    """The interpreter that a 64-bit ELF file names."""
    if head[:5] != b"\x7fELF\x02":
        return None
    order: Any = "little" if head[5] == 1 else "big"

    def number(at: int, size: int) -> int:
        return int.from_bytes(head[at : at + size], order)

    table, size, count = number(32, 8), number(54, 2), number(56, 2)
    for at in range(table, table + size * count, size):
        if number(at, 4) == 3:
            start, length = number(at + 8, 8), number(at + 32, 8)
            return os.fsdecode(head[start : start + length].rstrip(b"\0")) or None
    return None


@lru_cache(maxsize=1)
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
