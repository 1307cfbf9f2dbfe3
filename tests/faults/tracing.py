"""Follows the system calls of processes, to kill one at a chosen call or to make the disk slow.

A kill between two chosen system calls is a kill at a chosen moment: what the program told the kernel by then is done,
and nothing else. This also reaches what SQLite writes, which no hook in Python sees. Programs that a process starts are
not followed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SEIZE, _SYSCALL, _INTERRUPT, _GET_SYSCALL_INFO = 0x4206, 24, 0x4207, 0x420E
_GOOD_SYSCALLS, _THREADS, _EXIT_KILL = 0x01, 0x08, 0x100000
_AT_SYSCALL = signal.SIGTRAP | 0x80
_EVERY_CHILD = 0x40000000  # __WALL: threads too
_ENTRY = 1
_SECONDS_TO_END = 300

_NUMBERS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "fsync": 74, "fdatasync": 75, "sync": 162, "ftruncate": 77, "openat": 257,
        "open": 2, "rename": 82, "renameat": 264, "renameat2": 316, "unlink": 87, "unlinkat": 263, "rmdir": 84,
        "mkdir": 83, "mkdirat": 258, "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchown": 93, "linkat": 265,
        "symlinkat": 266, "symlink": 88, "utimensat": 280, "flock": 73, "clone": 56, "vfork": 58, "fallocate": 285,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "fsync": 82, "fdatasync": 83, "sync": 81, "ftruncate": 46, "openat": 56,
        "renameat": 38, "renameat2": 276, "unlinkat": 35, "mkdirat": 34, "fchmod": 52, "fchmodat": 53, "fchown": 55,
        "linkat": 37, "symlinkat": 36, "utimensat": 88, "flock": 32, "clone": 220, "fallocate": 47,
    },
}  # fmt: skip
_HERE = _NUMBERS.get({"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine(), platform.machine()), {})
_CHANGES = frozenset(_HERE.values())
_TO_DISK = frozenset(_HERE[name] for name in ("fsync", "fdatasync", "sync") if name in _HERE)

_libc = ctypes.CDLL(None, use_errno=True)


class NotHere(Exception):
    """What a test needs of this machine, and it does not have."""


@dataclass(frozen=True)
class Fate:
    """What becomes of a process: killed as it begins its n-th system call that changes something, or so many seconds
    after it began, or both never; and how many seconds longer each of its waits for the disk takes.
    """

    at_call: int | None = None
    after: float | None = None
    slow_disk: float = 0


@dataclass
class Followed:
    """How a process ended: after how many system calls that change something, and with which code (-9: killed)."""

    calls: int = 0
    waits: int = 0
    code: int | None = None


def follow(fates: Mapping[int, Fate], begin: Callable[[], None]) -> tuple[dict[int, Followed], dict[int, int]]:
    """Follow children to their ends. `begin` lets them go, once each is held.

    Also gives the codes of other children that ended meanwhile: there is no waiting for some of them alone.
    """
    return _Following(fates).run(begin)


class _Following:
    def __init__(self, fates: Mapping[int, Fate]) -> None:
        self._fates = fates
        self._found = {process: Followed() for process in fates}
        self._others: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._held: list[tuple[float, int]] = []

    def run(self, begin: Callable[[], None]) -> tuple[dict[int, Followed], dict[int, int]]:
        if not _HERE:
            raise NotHere("a machine whose system calls are known (x86_64, aarch64)")
        try:
            for process in self._fates:
                self._seize(process)
        except PermissionError:
            raise NotHere("the right to follow system calls (ptrace)") from None
        begin()
        began = time.monotonic()
        due = [(began + fate.after, process) for process, fate in self._fates.items() if fate.after is not None]
        while any(one.code is None for one in self._found.values()):
            now = time.monotonic()
            assert now < began + _SECONDS_TO_END, f"processes {sorted(self._fates)} did not end"
            for one in [one for one in due if one[0] <= now]:
                due.remove(one)
                self._kill(one[1])
            for one in [one for one in self._held if one[0] <= now]:
                self._held.remove(one)
                _go_on(one[1])
            thread, status = os.waitpid(-1, _EVERY_CHILD | (os.WNOHANG if due or self._held else 0))
            if thread:
                self._stopped(thread, status)
            else:
                time.sleep(0.0005)
        return self._found, self._others

    def _seize(self, process: int) -> None:
        """Take hold of every thread there is, and of those to come."""
        known: set[int] = set()
        while new := {int(one.name) for one in Path(f"/proc/{process}/task").iterdir()} - known:
            for thread in new:
                with suppress(ProcessLookupError):
                    _ptrace(_SEIZE, thread, _GOOD_SYSCALLS | _THREADS | _EXIT_KILL)
                    _ptrace(_INTERRUPT, thread)
                    self._owners[thread] = process
            known |= new

    def _stopped(self, thread: int, status: int) -> None:
        if not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            if thread in self._found:
                self._found[thread].code = code
            elif thread not in self._owners:
                self._others[thread] = code
            return
        number, event = os.WSTOPSIG(status), status >> 16
        if number == _AT_SYSCALL and self._begins(thread, _call_begun(thread)):
            return
        _go_on(thread, 0 if event or number == _AT_SYSCALL else number)

    def _begins(self, thread: int, call: int) -> bool:
        """A thread is about to make a call; True when it does not go on now."""
        process = self._owner(thread)
        found, fate = self._found[process], self._fates[process]
        if call in _CHANGES:
            found.calls += 1
            if found.calls == fate.at_call:
                self._kill(process)
                return True
        if call in _TO_DISK:
            found.waits += 1
            if fate.slow_disk:
                self._held.append((time.monotonic() + fate.slow_disk, thread))
                return True
        return False

    def _owner(self, thread: int) -> int:
        if thread not in self._owners:
            for line in Path(f"/proc/{thread}/status").read_text().splitlines():
                if line.startswith("Tgid:"):
                    self._owners[thread] = int(line.split()[1])
        return self._owners[thread]

    def _kill(self, process: int) -> None:
        if self._found[process].code is None:
            os.kill(process, signal.SIGKILL)


def _call_begun(thread: int) -> int:
    """The number of the system call that a thread begins; -1 where it ends one."""
    room = ctypes.create_string_buffer(88)
    try:
        _ptrace(_GET_SYSCALL_INFO, thread, ctypes.addressof(room), address=len(room))
    except ProcessLookupError:
        return -1
    return struct.unpack_from("=Q", room, 24)[0] if room[0] == bytes([_ENTRY]) else -1


def _go_on(thread: int, number: int = 0) -> None:
    with suppress(ProcessLookupError):  # killed meanwhile
        _ptrace(_SYSCALL, thread, number)


def _ptrace(request: int, thread: int, data: int = 0, *, address: int = 0) -> None:
    words = (ctypes.c_long(request), ctypes.c_long(thread), ctypes.c_void_p(address), ctypes.c_void_p(data))
    if _libc.ptrace(*words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
