"""Where the conversation is written: rows that are finished are written once, and never touched again.

`PlainScreen` is for pipes, dumb terminals, screen readers and whoever asked for plain text: it has no tail and writes
no escape code. `LiveScreen` (live_screen.py) keeps a tail below the finished rows that it replaces in place.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Protocol, TextIO

from ferrule.cli.chatting.paint import Paint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
