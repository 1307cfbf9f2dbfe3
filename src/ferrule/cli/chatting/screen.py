"""Where a conversation is written, and text cut into rows that fit there."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeAlias

from ferrule.core.shown_text import cut_columns
from ferrule.core.standard_streams import discard_output

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

NARROWEST = 8
"""Columns that are counted on; a terminal that says it has fewer is treated as having these."""


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Rows of at most `width` cells; each line of the text begins a new one. `rest` stands before all but the first."""
    from wcwidth import wrap

    rest = first if rest is None else rest
    rows: list[str] = []
    for line in text.split("\n"):
        before = rest if rows else first
        rows += wrap(line, max(NARROWEST, width), initial_indent=before, subsequent_indent=rest) or [before.rstrip()]
    return rows


def kept(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """The same for text whose every space counts, such as code: rows are cut where they are full, and only there."""
    from wcwidth import iter_graphemes
    from wcwidth import width as cells

    rest = first if rest is None else rest
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        row = rest if rows else first
        used = cells(row)
        for one in iter_graphemes(line):
            taken = cells(one)
            if used + taken > max(NARROWEST, width):
                rows.append(row)
                row, used = rest, cells(rest)
            row += one
            used += taken
        rows.append(row.rstrip())
    return rows


def cut(text: str, width: int) -> str:
    """One row of plain text: what does not fit is left out, and a mark says so."""
    from wcwidth import width as cells

    return cut_columns(text, width, cells)


def rows_taken(row: str, columns: int) -> int:
    """How many rows a terminal with so many columns needs for one; a wide character is not cut in two."""
    from wcwidth import iter_graphemes, strip_sequences
    from wcwidth import width as cells

    taken, used = 1, 0
    for one in iter_graphemes(strip_sequences(row)):
        size = cells(one)
        if used + size > columns:
            taken, used = taken + 1, 0
        used += size
    return taken


# Colours, as few as help, in words of meaning; none at all where the person wants plain text.


_CODES = {
    "strong": "1",
    "faint": "2",
    "slanted": "3",
    "thought": "2;3",
    "good": "32",
    "bad": "31",
    "warned": "33",
    "code": "36",
    "title": "1;4",
    "place": "36",
    "prompt": "1;36",
    "chosen": "7",
}


class Paint:
    """Puts a style around words. What is painted must be safe already, and hold no line end."""

    def __init__(self, coloured: bool) -> None:
        self.coloured = coloured

    def __call__(self, style: str, words: str) -> str:
        if not self.coloured or not words:
            return words
        return f"\x1b[{_CODES[style]}m{words}\x1b[0m"

    def diff_line(self, line: str) -> str:
        """One line of a unified diff."""
        if line.startswith(("+++", "---")):
            return self("strong", line)
        style = {"+": "good", "-": "bad", "@": "place", "\\": "faint"}.get(line[:1])
        return self(style, line) if style else line


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


_WRAPS_AGAIN = re.compile(r"(xterm-|tmux|foot|alacritty|wezterm|konsole|vte|gnome|rio)")


class Footer(NamedTuple):
    """Rows at the very end that somebody types in, and where in them the cursor stands: row and column."""

    rows: list[str]
    cursor: tuple[int, int]


class LiveScreen:
    """Finished rows, and below them a tail; below that, where somebody types, a `footer` with the cursor in it."""

    live = True

    def __init__(
        self, stream: TextIO, *, wraps_again: bool = False, size: Callable[[], os.terminal_size] = terminal_size
    ) -> None:
        self._stream = stream
        self._wraps_again = wraps_again
        self._size = size
        self._tail: list[str] = []
        self._drawn_rows: list[str] = []
        self._cursor = (0, 0)
        self._columns = 0
        self._gone = False
        self._held: list[str] | None = None
        self.paint = Paint(True)
        self.footer: Callable[[int, int], Footer] | None = None
        """Gives the rows that are typed in, for so many columns and rows at most."""

    @property
    def width(self) -> int:
        return max(NARROWEST, self._size().columns - 1)

    @property
    def height(self) -> int:
        return max(4, self._size().lines)

    def write(self, rows: Sequence[str]) -> None:
        """Finished rows go where the tail is, and the tail goes below them."""
        if self._held is not None:
            self._held += rows
        elif rows:
            self._put(self._erased() + "".join(f"{row}\n" for row in rows) + self._drawn())

    def show(self, rows: Sequence[str]) -> None:
        self._tail = list(rows)
        self.refresh()

    def refresh(self) -> None:
        """Draw what changed of the tail and the footer."""
        if self._held is not None:
            return
        before = (self._drawn_rows, self._cursor, self._columns)
        erased = self._erased()
        drawn = self._drawn()
        if before != (self._drawn_rows, self._cursor, self._columns):
            self._put(erased + drawn)

    def clear(self) -> None:
        """An empty window; what was there stays in the scrollback, as far as the terminal keeps it."""
        self._put("\x1b[H\x1b[2J")
        self._drawn_rows = []
        self.refresh()

    def pastes(self, marked: bool) -> None:
        """Whether the terminal marks what is pasted, so that its line ends send nothing."""
        self._put("\x1b[?2004h" if marked else "\x1b[?2004l")

    def ring(self, words: str = "") -> None:
        """The bell; with words, a notification of the desktop too, where the terminal knows how to (OSC 9)."""
        self._put((f"\x1b]9;{words}\x1b\\" if words else "") + "\a")

    @contextmanager
    def away(self) -> Generator[None]:
        """Leave the terminal to another program: what is written meanwhile comes when that is over."""
        self._put(self._erased())
        self._drawn_rows, self._cursor, self._held = [], (0, 0), []
        try:
            yield
        finally:
            rows, self._held = self._held or [], None
            self.write(rows)
            self.refresh()

    def _erased(self) -> str:
        """What takes the tail away, and leaves the writer where it began."""
        if not self._drawn_rows:
            return ""
        above, column = self._cursor
        columns = self._size().columns
        if columns < self._columns and self._wraps_again:
            from wcwidth import clip, strip_sequences

            row = self._drawn_rows[above]
            under = strip_sequences(clip(row, column, self._columns)).rstrip()[:1]  # the cursor goes where it goes
            rows = [*self._drawn_rows[:above], clip(row, 0, column) + under]
            above = sum(rows_taken(row, columns) for row in rows) - 1
        return "\r" + (f"\x1b[{above}A" if above else "") + "\x1b[J"

    def _drawn(self) -> str:
        width, height = self.width, self.height
        footer = self.footer(width, height) if self.footer is not None else Footer([], (0, 0))
        room = height - 1 - len(footer.rows)
        shown = [*(_fitted(row, width) for row in self._tail[-room:] if room > 0), *footer.rows]
        self._drawn_rows = shown
        self._columns = self._size().columns
        if not footer.rows:
            from wcwidth import width as cells

            self._cursor = (len(shown) - 1, cells(shown[-1])) if shown else (0, 0)
            return "\n".join(shown)
        below = len(footer.rows) - 1 - footer.cursor[0]
        self._cursor = (len(shown) - 1 - below, footer.cursor[1])
        up = f"\x1b[{below}A" if below else ""
        right = f"\x1b[{footer.cursor[1]}C" if footer.cursor[1] else ""
        return "\n".join(shown) + f"{up}\r{right}"

    def _put(self, text: str) -> None:
        if self._gone or not text:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal was closed; what still has to be ended is ended without it
            self._gone = True
            discard_output(self._stream)


Screen: TypeAlias = PlainScreen | LiveScreen


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
