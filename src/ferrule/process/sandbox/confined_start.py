"""Runs as a program of its own: confines itself, becomes the command, and stays behind to end what that leaves.

    python -I -S -c SOURCE PARENT RULES FILTER COMMAND…

RULES and FILTER are open descriptors of Landlock rules and of a filter of system calls. It needs only the standard
library. The process that stays is the parent of every orphan below it (a sub-reaper), ends them all when the command
has ended, when it is asked to end, and when Ferrule is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_RESTRICT = 446
_ON_PARENTS_DEATH, _DROP_CAPABILITY, _NO_NEW_PRIVILEGES, _FILTER, _SUB_REAPER = 1, 24, 38, 22, 36
_BY_PROGRAM = 2

libc = ctypes.CDLL(None, use_errno=True)


class Filter(ctypes.Structure):
    """The kernel's `sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def check(outcome: int, what: str) -> None:
    """Nothing runs half confined."""
    if outcome != 0:
        sys.exit(f"The sandbox could not be set up: {what}: {os.strerror(ctypes.get_errno())}.")


def confine(rules: int, program: bytes) -> None:
    """For good: no capabilities, no new ones, the rules for files, the filter of calls."""
    if os.geteuid() == 0:
        for capability in range(64):
            if libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0) != 0:
                break  # past the last one
    check(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")
    check(libc.syscall(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0)), "Landlock")
    os.close(rules)
    filters = Filter(len(program) // 8, program)
    check(libc.prctl(_FILTER, _BY_PROGRAM, ctypes.byref(filters), 0, 0), "seccomp")


def parent_of(process: str) -> int:
    """As the kernel tells it, after a name that may hold anything."""
    with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        return int(file.read().rpartition(")")[2].split()[1])


def descendants() -> set[int]:
    """Everything below this process, orphans included: they became its children."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes longer to import than all this to run
        if name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(name)] = parent_of(name)
    found, below = set[int](), {os.getpid()}
    while below := {child for child, parent in parents.items() if parent in below} - found:
        found |= below
    return found


def end_all() -> None:
    """Halt, then kill: what is halted starts nothing new, and keeps the room that something new would need."""
    while found := descendants():
        halted = set[int]()
        while new := found - halted:
            tell(new, signal.SIGSTOP)
            halted |= new
            found = descendants()
        tell(halted, signal.SIGKILL)
        for child in halted:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def tell(processes: set[int], number: int) -> None:
    """Send a signal to each that is still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def stop(number: int, frame: FrameType | None) -> None:
    """We are asked to end, or Ferrule is gone."""
    end_all()
    os._exit(128 + number)


def main() -> None:
    """Two processes: one confined that becomes the command, one that waits."""
    parent, rules, filters, *command = sys.argv[1:]
    program = os.read(int(filters), 1 << 16)
    os.close(int(filters))
    check(libc.prctl(_SUB_REAPER, 1, 0, 0, 0), "sub-reaper")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    libc.prctl(_ON_PARENTS_DEATH, signal.SIGTERM, 0, 0, 0)
    # Between Ferrule and this there may be one more: the keeper of a shell, which ends with Ferrule too.
    if int(parent) not in (os.getppid(), parent_of(str(os.getppid()))):
        sys.exit("Ferrule is gone.")
    me = os.getpid()
    child = os.fork()
    if child == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        libc.prctl(_ON_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != me:
            os._exit(1)
        os.setsid()  # no terminal to type into
        confine(int(rules), program)
        try:
            os.execvp(command[0], command)  # noqa: S606 - arguments, never a shell line
        except OSError as error:
            sys.exit(f"{command[0]}: {error.strerror}")
    os.close(int(rules))
    while True:
        ended, status = os.wait()
        if ended == child:
            break
    end_all()
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


if __name__ == "__main__":
    main()
