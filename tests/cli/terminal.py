"""A terminal to look at: runs a program on a PTY and keeps the screen and the scrollback as a person would see them.

The screen is pyte's. It either cuts rows when it becomes narrower, as xterm does, or wraps them anew (`rewraps`), as
most others do.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte
from tests.warm_start import WarmProgram, can_be_warm, start_warm

ESCAPE = "\x1b"
CTRL_C, CTRL_D, ENTER, ALT_ENTER = "\x03", "\x04", "\r", "\x1b\r"
_PATIENCE = 60.0


class _Screen(pyte.HistoryScreen):
    """Keeps what scrolls off the top also when the window becomes lower."""

    def __init__(self, columns: int, lines: int, *, rewraps: bool) -> None:
        super().__init__(columns, lines, history=100_000)
        self._rewraps = rewraps

    def rows(self) -> list[str]:
        """Everything, from the first row ever written."""
        kept = [self._text(line) for line in self.history.top]
        return [*kept, *(self._text(self.buffer[y]) for y in range(self.lines))]

    def _text(self, line: Any) -> str:
        return "".join(line[x].data for x in range(max(line, default=-1) + 1)).rstrip()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        if self._rewraps and columns < self.columns:
            self._wrap_anew(columns)
        while self.cursor.y >= lines:  # pyte itself would take away rows at the top, and keep none
            self._scroll_off()
        for y in [y for y in self.buffer if y >= lines]:
            del self.buffer[y]
        for line in self.buffer.values():
            for x in [x for x in line if x >= columns]:
                del line[x]
        self.lines, self.columns = lines, columns
        at = (self.cursor.y, self.cursor.x)
        self.set_margins()
        self.cursor.y, self.cursor.x = at
        self.cursor.x = min(self.cursor.x, columns - 1)

    def _scroll_off(self) -> None:
        self.history.top.append(self.buffer[0])
        for y in range(self.lines):
            self.buffer[y] = self.buffer[y + 1]
        self.cursor.y -= 1

    def _wrap_anew(self, columns: int) -> None:
        rows: list[dict[int, Any]] = []
        cursor = (0, 0)
        for y in range(self.cursor.y + 1):
            line = self.buffer[y]
            end = self.cursor.x if y == self.cursor.y else 0
            length = max((x + 1 for x in line if line[x].data != " "), default=0)
            rows.append({})
            x = at = 0
            while x < max(length, end):
                wide = 2 if x + 1 in line and line[x + 1].data == "" else 1
                if at + wide > columns:  # a wide character is not cut in two
                    rows.append({})
                    at = 0
                if (y, x) == (self.cursor.y, self.cursor.x):  # it stays on its character
                    cursor = (len(rows) - 1, at)
                rows[-1].update({at + one: line[x + one] for one in range(wide)})
                x, at = x + wide, at + wide
            if y == self.cursor.y and self.cursor.x >= length:
                cursor = (len(rows) - 1, min(at, columns - 1))  # behind a full row it waits at the row's end
        while len(rows) > self.lines:
            row = self.buffer.default_factory()  # type: ignore[misc]
            row.update(rows.pop(0))
            self.history.top.append(row)
            cursor = (cursor[0] - 1, cursor[1])
        for y in range(self.lines):
            self.buffer.pop(y, None)
            if y < len(rows):
                self.buffer[y].update(rows[y])
        self.cursor.y, self.cursor.x = cursor


def _start(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], terminal: int
) -> WarmProgram | subprocess.Popen[bytes]:
    if arguments[0] == sys.executable and can_be_warm(environment):
        return start_warm(arguments[1:], folder, environment, terminal, terminal, terminal, at_a_terminal=True)
    return subprocess.Popen(
        list(arguments), cwd=folder, env=dict(environment), stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip


STARVED = "TERMINALS_STARVE_PROGRAMS"
"""An environment variable: what runs at a terminal gets only what others leave of the processors. The terminal itself
is no part of that: a real one is drawn by another program.
"""


def _starve(process: int) -> None:
    os.sched_setscheduler(process, os.SCHED_IDLE, os.sched_param(0))
    theirs, ours = Path(f"/proc/{process}/autogroup"), Path("/proc/self/autogroup")
    if not ours.exists():
        return
    # Where the kernel shares out by session, what counts is that of the session: theirs, which it must have begun.
    until = time.monotonic() + 30
    while theirs.read_text().split()[:1] == ours.read_text().split()[:1]:
        assert time.monotonic() < until, "the program did not begin a session of its own"
        time.sleep(0.01)
    theirs.write_text("19")


class Terminal:
    """A program at a terminal. `wait` looks until something is there, and fails with the screen when it never is."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        columns: int = 80,
        rows: int = 24,
        rewraps: bool = False,
    ) -> None:
        self.screen = _Screen(columns, rows, rewraps=rewraps)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self._ours, theirs = pty.openpty()
        self._set_size(theirs, columns, rows)
        self.program = _start(arguments, folder, environment, theirs)
        if os.environ.get(STARVED):
            _starve(self.program.pid)
        os.close(theirs)
        self._closed = False

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        self.hang_up()

    # What a person does

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def type(self, text: str) -> None:
        """A line, and Enter."""
        self.press(text)
        self.press(ENTER)

    def resize(self, columns: int, rows: int = 24) -> None:
        self._read_what_is_there()
        self.screen.resize(rows, columns)
        self._set_size(self._ours, columns, rows)
        os.killpg(self.program.pid, signal.SIGWINCH)

    def hang_up(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._ours)

    # What they see

    @property
    def text(self) -> str:
        """All rows since the beginning."""
        return "\n".join(self.screen.rows()).rstrip()

    @property
    def visible(self) -> str:
        return "\n".join(row.rstrip() for row in self.screen.display).rstrip()

    @property
    def flowing(self) -> str:
        """The same without line breaks and spaces, for words that may be wrapped anywhere."""
        return re.sub(r"\s+", "", self.text)

    def wait(self, wanted: str | Callable[[], bool], seconds: float = _PATIENCE) -> None:
        """Until the text is somewhere in the scrollback, wrapped or not, or the condition holds."""
        if isinstance(wanted, str):
            bare = re.sub(r"\s+", "", wanted)
            holds: Callable[[], bool] = lambda: bare in self.flowing  # noqa: E731
        else:
            holds = wanted
        self._until(holds, seconds, wanted)

    def prompt(self, number: int | None = None) -> None:
        """Until the prompt waits for words on the last row; with a number, the prompt that comes after so many."""
        self._until(lambda: self._at_prompt("›", ">", number=number), _PATIENCE, "the prompt")

    def question(self) -> None:
        """Until a question waits for its answer."""
        self._until(lambda: self._at_prompt("?"), _PATIENCE, "a question")

    def _at_prompt(self, *marks: str, number: int | None = None) -> bool:
        rows = self.text.split("\n")
        asked = sum(row.startswith(marks) for row in rows)
        waits = rows[-1] in marks or rows[-1].endswith(" ›")  # behind a mode
        return waits and (number is None or asked + (rows[-1] not in marks) >= number)

    def ended(self, seconds: float = _PATIENCE) -> int:
        """The exit code, once it has ended."""
        self._until(lambda: self.program.poll() is not None, seconds, "the end")
        self._read_what_is_there()
        return self.program.wait()

    def _until(self, holds: Callable[[], bool], seconds: float, wanted: object) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"{wanted!r} never came. The screen:\n{self.text}")
            if not self._read(0.1) and self.program.poll() is not None and not holds():
                raise AssertionError(f"It ended with {self.program.returncode} before {wanted!r}:\n{self.text}")

    def _read_what_is_there(self) -> None:
        while self._read(0):
            pass

    def _read(self, seconds: float) -> bool:
        if self._closed or not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self._ours, 65_536)
        except OSError:
            return False
        self.written += piece
        self._stream.feed(piece)
        return bool(piece)

    @staticmethod
    def _set_size(descriptor: int, columns: int, rows: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
