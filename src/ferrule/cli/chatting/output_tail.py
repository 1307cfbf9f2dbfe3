"""What a running command writes, kept small: its first lines, its last lines, and how many there were."""

from __future__ import annotations

from collections import deque

from ferrule.cli.chatting.visible_text import visible
from ferrule.process.terminal_escapes import StreamCleaner

_FIRST = 4
_LAST = 6
_LONGEST = 2000


class OutputTail:
    """Takes output in pieces, escape sequences and all, and gives safe lines."""

    def __init__(self) -> None:
        self._cleaner = StreamCleaner()
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=_LAST)
        self._line = ""
        self._count = 0
        self.dropped = 0

    def feed(self, text: str) -> None:
        *lines, self._line = (self._line + self._cleaner.feed(text)).split("\n")
        for line in lines:
            self._add(line)
        if len(self._line) > _LONGEST:  # a line without end is no reason to keep all of it
            self._line = self._line[-_LONGEST:]

    def _add(self, line: str) -> None:
        self._count += 1
        kept = visible(line[:_LONGEST]).rstrip()
        if len(self._first) < _FIRST:
            self._first.append(kept)
        else:
            self._last.append(kept)

    def live(self, most: int) -> list[str]:
        """The last lines, the unfinished one too."""
        lines = [*self._first, *self._last, *([visible(self._line)] if self._line.strip() else [])]
        return lines[-most:] if most > 0 else []

    def whole(self) -> tuple[list[str], int, list[str]]:
        """When it is over: the first lines, how many were left out after them, and the last ones."""
        self._line += self._cleaner.rest()
        if self._line:
            self._add(self._line)
            self._line = ""
        return list(self._first), self._count - len(self._first) - len(self._last), list(self._last)
