"""Where the conversation is written: rows that are finished are written once, and never touched again.

`PlainScreen` is for pipes, dumb terminals, screen readers and whoever asked for plain text: it has no tail and writes
no escape code. `LiveScreen` (live_screen.py) keeps a tail below the finished rows that it replaces in place.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TextIO

from ferrule.cli.chatting.text_rows import NARROWEST, Paint, cut, rows_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Screen(Protocol):
    """What is written to, whatever it is."""

    @property
    def live(self) -> bool:
        """Whether it has a tail; where it has none, what would be in it is said in rows of its own."""
        ...

    @property
    def width(self) -> int:
        """Columns to lay text out for."""
        ...

    @property
    def height(self) -> int: ...

    @property
    def paint(self) -> Paint: ...

    def write(self, rows: Sequence[str]) -> None:
        """Finished rows, once and for ever."""
        ...

    def show(self, rows: Sequence[str]) -> None:
        """What the tail is from now on, as plain rows; an empty one is taken away."""
        ...


class PlainScreen:
    """Whole lines, one after the other. The terminal, if it is one, wraps them itself."""

    live = False
    width = 10_000
    height = 24

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.paint = Paint(False)

    def write(self, rows: Sequence[str]) -> None:
        self._stream.write("".join(f"{row}\n" for row in rows))
        self._stream.flush()

    def show(self, rows: Sequence[str]) -> None:
        """There is no tail."""


def wants_plain(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to write no escape codes: no terminal, a dumb one, or a person who said so."""
    return (
        not stream.isatty()
        or environment.get("TERM", "dumb") in ("", "dumb", "unknown")
        or bool(environment.get("NO_COLOR"))
    )


def terminal_size() -> os.terminal_size:
    """Columns and rows as they are now."""
    try:
        return os.get_terminal_size(1)
    except OSError:
        return shutil.get_terminal_size()


# A terminal that is only ever added to, but for a short tail at its end that is replaced in place.


_WRAPS_AGAIN = re.compile(r"(xterm-|tmux|foot|alacritty|wezterm|konsole|vte|gnome|rio)")


class LiveScreen:
    """Finished rows, and below them a tail."""

    live = True

    def __init__(
        self,
        stream: TextIO,
        *,
        wraps_again: bool = False,
        size: Callable[[], os.terminal_size] = terminal_size,
    ) -> None:
        self._stream = stream
        self._wraps_again = wraps_again
        self._size = size
        self._tail: list[str] = []
        self._drawn_rows: list[str] = []
        self._columns = 0
        self._gone = False
        self.paint = Paint(True)

    @property
    def width(self) -> int:
        return max(NARROWEST, self._size().columns - 1)

    @property
    def height(self) -> int:
        return max(4, self._size().lines)

    def write(self, rows: Sequence[str]) -> None:
        """Finished rows go where the tail is, and the tail goes below them."""
        if rows:
            tail = self._tail
            self._put(self._erased() + "".join(f"{row}\n" for row in rows) + self._drawn(tail))

    def show(self, rows: Sequence[str]) -> None:
        if list(rows) != self._tail or (self._tail and self._columns != self._size().columns):
            self._put(self._erased() + self._drawn(rows))

    def _erased(self) -> str:
        """What takes the tail away, and leaves the writer where it began."""
        if not self._tail:
            return ""
        above = len(self._drawn_rows) - 1
        columns = self._size().columns
        if columns < self._columns and self._wraps_again:
            above = sum(rows_taken(row, columns) for row in self._drawn_rows) - 1
        return "\r" + (f"\x1b[{above}A" if above else "") + "\x1b[J"

    def _drawn(self, rows: Sequence[str]) -> str:
        width = self.width
        self._tail = list(rows)[-(self.height - 1) :]
        shown = [_fitted(row, width) for row in self._tail]
        self._drawn_rows = shown
        self._columns = self._size().columns
        return "\n".join(shown)

    def _put(self, text: str) -> None:
        if self._gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal was closed; what still has to be ended is ended without it
            self._gone = True
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _fitted(row: str, width: int) -> str:
    if "\x1b" not in row:
        return cut(row, width)
    from wcwidth import clip

    return clip(row, 0, width)


def wraps_again(environment: Mapping[str, str]) -> bool:
    """Whether the terminal wraps old rows anew when it becomes narrower. Where nobody knows, it is taken not to: then
    a row of the tail may stay behind, while the other mistake would erase finished ones.
    """
    if environment.get("TMUX"):
        return True
    if environment.get("XTERM_VERSION") or environment.get("STY"):
        return False
    return _WRAPS_AGAIN.match(environment.get("TERM", "")) is not None
