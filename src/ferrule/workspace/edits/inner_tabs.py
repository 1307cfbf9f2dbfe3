"""Tabs within lines that a copy shows as spaces: what is kept stays, what is new must not need a guess."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule.workspace.edits.text_lines import TextLines

_WIDTHS = (4, 8, 2)
_GAPS = re.compile(r"([ \t]+)")


class RespaceTabs:
    """Gives new lines the file's tabs where they repeat the line they replace; elsewhere wide gaps are a guess."""

    def __init__(self, pairs: Sequence[tuple[str, str]], *, width: int, doubtful: bool) -> None:
        self._pairs = pairs
        self._width = width
        self._doubtful = doubtful

    @classmethod
    def none(cls, lines: TextLines) -> RespaceTabs:
        """No tabs within the lines of this place, but perhaps elsewhere in the file."""
        return cls((), width=0, doubtful=lines.inner_tabs)

    def line(self, before: str, rest: str, partner: int | None) -> str:
        """The words of a line after its indentation."""
        mine = _GAPS.split(rest)
        if partner is None or partner >= len(self._pairs):
            old: list[str] = []
            file: list[str] = []
        else:
            old, file = (_GAPS.split(line.strip(BLANKS)) for line in self._pairs[partner])
        front = _common(mine, old)
        back = _common(mine[front:][::-1], old[front:][::-1])
        middle = mine[front : len(mine) - back]
        column = len(before) + sum(len(part) for part in mine[:front])
        for index, part in enumerate(middle):
            column += len(part)
            if (front + index) % 2 and self._is_guess(part, column):
                raise Unclear(phrase("whether the gaps in its new lines are tabs or spaces cannot be told from it"))
        return "".join(file[:front]) + "".join(middle) + "".join(file[len(file) - back :] if back else [])

    def _is_guess(self, gap: str, column: int) -> bool:
        if not self._doubtful or "\t" in gap:
            return False
        return len(gap) > 1 or bool(self._width and column % self._width == 0)


def tab_readings(old: Sequence[str], file: Sequence[str]) -> RespaceTabs | None:
    """How the file's tabs became the copy's spaces, when one width explains every line and there is such a tab."""
    for width in _WIDTHS:
        for reading in (_expanded(width), _replaced(width)):
            if all(
                reading(mine).strip(BLANKS) == reading(theirs).strip(BLANKS)
                for mine, theirs in zip(old, file, strict=True)
            ):
                inner = any(mine.strip(BLANKS) != theirs.strip(BLANKS) for mine, theirs in zip(old, file, strict=True))
                if not inner:
                    return None
                return RespaceTabs(list(zip(old, file, strict=True)), width=width, doubtful=True)
    return None


def _expanded(width: int) -> Callable[[str], str]:
    return lambda line: line.expandtabs(width)


def _replaced(width: int) -> Callable[[str], str]:
    return lambda line: line.replace("\t", " " * width)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
