"""Every descriptor of a guard: which are Ferrule's, which the guard's, which the keeper holds until they are needed.

A session that nobody uses much would otherwise take dozens of Ferrule's own descriptors, of which a process often may
have only 1,024.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import termios

from ferrule.process.shell.bash_lines import Numbers, Place

OUTPUT_PAIRS = 12
"""How many commands of one guard can have output at once: the one in front, and those behind it."""
SHELLS = 3
"""How many shells there can be: the one in front, and those that went to the background in the middle of a command."""
_SEALABLE = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
_IN_MEMORY = ("text", "saved", "library", "epilogue")


class Descriptors:
    """Made all together, so that their numbers differ, also from those of the sandbox."""

    def __init__(self, terminal_size: tuple[int, int] | None = None) -> None:
        self.master, slave = os.openpty() if terminal_size else (-1, -1)
        self.device = os.fstat(slave).st_rdev if terminal_size else 0
        """The number of the terminal, by which processes that read from it are known."""
        orders, reports = os.pipe(), os.pipe()
        self.orders, self.reports = orders[1], reports[0]
        lines = [os.pipe() for _ in range(SHELLS)]
        places = [
            Place(reading, *(os.memfd_create(f"ferrule-{name}", _SEALABLE) for name in _IN_MEMORY))
            for reading, _ in lines
        ]
        self.line_ends = [writing for _, writing in lines]
        outputs = [(os.pipe(), os.pipe()) for _ in range(OUTPUT_PAIRS)]
        self.reading = [(out[0], err[0]) for out, err in outputs]
        self.numbers = Numbers(
            orders=orders[0],
            reports=reports[1],
            places=tuple(places),
            outputs=tuple((out[1], err[1]) for out, err in outputs),
            terminal=slave,
        )
        self.of_guard = self.numbers.all()
        self.of_keeper = [number for pair in self.reading for number in pair]
        kept = {number for place in places for number in (place.lines, place.text, place.saved)}
        self._ours: set[int] = {self.orders, self.reports, *self.line_ends, *kept} | (
            {self.master} if terminal_size else set[int]()
        )
        self._handed_over: set[int] = {*self.of_guard, *self.of_keeper} - kept
        os.set_blocking(self.reports, False)
        if terminal_size:
            os.set_blocking(self.master, False)
            self.resize(terminal_size)

    def resize(self, size: tuple[int, int]) -> None:
        """The terminal's columns and rows."""
        columns, rows = size
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def has_foreground(self) -> bool:
        """Whether the terminal rules any processes, so that Ctrl-C typed into it reaches them."""
        try:
            return os.tcgetpgrp(self.master) > 0
        except OSError:
            return False

    @staticmethod
    def write(memory: int, text: str | bytes) -> None:
        """Make this the whole content of a file in memory."""
        view = memoryview(text.encode() if isinstance(text, str) else text)
        os.ftruncate(memory, 0)
        place = 0
        while place < len(view):
            place += os.pwrite(memory, view[place:], place)

    @classmethod
    def write_for_good(cls, memory: int, text: str) -> None:
        """The same, and nobody can change it any more, whoever finds a way to it."""
        cls.write(memory, text)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)

    @staticmethod
    def unread(pipe: int) -> int:
        """Bytes that wait in a pipe."""
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)

    def close_handed_over(self) -> None:
        """Those that others have now."""
        handed_over, self._handed_over = self._handed_over, set[int]()
        for number in handed_over:
            os.close(number)

    def close(self) -> None:
        """All of ours, once."""
        ours, self._ours = self._ours | self._handed_over, set[int]()
        self._handed_over = set[int]()
        self.reports = self.master = -1
        for number in ours:
            with contextlib.suppress(OSError):
                os.close(number)
