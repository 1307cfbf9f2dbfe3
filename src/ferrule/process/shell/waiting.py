"""Tells a command that waits for someone to type from one that is quietly at work.

The kernel knows: a process in the middle of reading from the terminal waits for input, whatever it printed. A program
that asks the kernel about several things at once (an editor, a prompt of Node or Python) waits if one of them is the
terminal, it has been silent for a while, and its last line is unfinished, as prompts are.

Without a terminal there is nothing to read, and that is the end of most programs that ask. But some, as `vim` does,
take their standard error for the terminal then: they wait to read from a pipe that nobody can type into.
"""

from __future__ import annotations

import os
import platform
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.process.shell.output_reader import OutputReader

_READS = {"x86_64": {0}, "aarch64": {63}}
_WAITS_FOR_SEVERAL = {"x86_64": {7, 23, 232, 270, 271, 281, 441}, "aarch64": {22, 72, 73, 441}}
_TERMINAL_PLACES = frozenset({b"n_tty_read", b"wait_woken"})
_SECONDS_SILENT_FOR_SEVERAL = 2.0
_LOOKS = 2
_OWN_TERMINAL = os.makedev(5, 0)  # `/dev/tty`, whichever that is for a process


class InputWatch:
    """Looks at a command's processes now and then; `waits` becomes true when it is sure."""

    def __init__(self, processes: Callable[[], list[int]], reader: OutputReader, device: int = 0) -> None:
        """`device` is the number of the terminal that the command runs on; 0 without one."""
        self._processes = processes
        self._reader = reader
        self._terminals = {device, _OWN_TERMINAL} if device else set[int]()
        self._pipes = frozenset[tuple[int, int]]() if device else reader.pipe_files()
        self._machine = platform.machine()
        self._seen = 0
        self._written = -1
        self._silent_since = monotonic()

    def waits(self) -> bool:
        """Whether it has been waiting for input at this look and at the one before."""
        written = self._reader.record.total
        if written != self._written:
            self._written, self._silent_since, self._seen = written, monotonic(), 0
            return False
        if self._pipes and monotonic() - self._silent_since < _SECONDS_SILENT_FOR_SEVERAL:
            return False
        waits = any(self._process_waits(pid) for pid in self._processes())
        self._seen = self._seen + 1 if waits else 0
        return self._seen >= _LOOKS

    def _process_waits(self, pid: int) -> bool:
        for thread in _listed(f"/proc/{pid}/task"):
            words = _content(f"/proc/{pid}/task/{thread}/syscall").split()
            if words and words[0].isdigit():
                if self._call_waits(pid, int(words[0]), int(words[1], 16)):
                    return True
            elif not words and self._terminals and _content(f"/proc/{pid}/task/{thread}/wchan") in _TERMINAL_PLACES:
                return self._is_terminal(pid, 0)  # a kernel that does not tell which call it is
        return False

    def _call_waits(self, pid: int, call: int, descriptor: int) -> bool:
        if self._pipes:
            reads = call in _READS.get(self._machine, ()) and descriptor == 0
            return (reads or call in _WAITS_FOR_SEVERAL.get(self._machine, ())) and self._is_own_output(pid, 0)
        if call in _READS.get(self._machine, ()):
            return self._is_terminal(pid, descriptor)
        if call not in _WAITS_FOR_SEVERAL.get(self._machine, ()) or not self._is_terminal(pid, 0):
            return False
        if monotonic() - self._silent_since < _SECONDS_SILENT_FOR_SEVERAL:
            return False
        shown = self._reader.record.text("stdout")
        return bool(shown) and not shown.endswith("\n")

    def _is_own_output(self, pid: int, descriptor: int) -> bool:
        try:
            found = os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116 - not a path
        except OSError:
            return False
        return (found.st_dev, found.st_ino) in self._pipes

    def _is_terminal(self, pid: int, descriptor: int) -> bool:
        try:
            return os.stat(f"/proc/{pid}/fd/{descriptor}").st_rdev in self._terminals  # noqa: PTH116 - not a path
        except OSError:
            return False


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - asked for often
            return file.read(256)
    except OSError:
        return b""
