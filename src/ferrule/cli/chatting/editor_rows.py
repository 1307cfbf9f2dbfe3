"""The text that somebody types, as rows: lines that they began are told from rows that are only wrapped.

The first row has the prompt, a line of their own begins with `… `, and a row that goes on with the line above has
blanks there. Text that needs more rows than there are is shown around the cursor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ferrule.cli.chatting.screen import NARROWEST, Footer
from ferrule.core.shown_text import visible

if TYPE_CHECKING:
    from collections.abc import Callable

_NEW_LINE = "… "
_WRAPPED = "  "
_TAB = "    "


class _Row(NamedTuple):
    """A piece of a line, and at which of the line's characters it begins."""

    text: str
    start: int


@lru_cache(maxsize=10_000)
def _rows_of(line: str, first: int, rest: int) -> tuple[_Row, ...]:
    """One line in rows of so many cells."""
    if line.isascii() and line.isprintable():
        starts = [0, *range(first, len(line), rest)]
        return tuple(_Row(line[at:end], at) for at, end in zip(starts, [*starts[1:], len(line)], strict=True))
    from wcwidth import iter_graphemes
    from wcwidth import width as cells

    rows: list[_Row] = []
    text, start, used, at = "", 0, 0, 0
    for one in iter_graphemes(line):
        shown = _shown(one)
        taken = cells(shown)
        if text and used + taken > (rest if rows else first):
            rows.append(_Row(text, start))
            text, start, used = "", at, 0
        text, used, at = text + shown, used + taken, at + len(one)
    return (*rows, _Row(text, start))


def _shown(grapheme: str) -> str:
    return visible(grapheme).replace("\t", _TAB)


def _cells_before(line: str, start: int, end: int) -> int:
    piece = line[start:end]
    if piece.isascii() and piece.isprintable():
        return len(piece)
    from wcwidth import iter_graphemes
    from wcwidth import width as cells

    return sum(cells(_shown(one)) for one in iter_graphemes(piece))


def typed_rows(
    text: str,
    cursor: int,
    prompt: str,
    width: int,
    most: int | None = None,
    paint: Callable[[str], str] = lambda mark: mark,
) -> Footer:
    """The rows of a text with the cursor before its character number `cursor`; `paint` is for the marks before them.

    Of more than `most` rows those around the cursor are given, and arrows say how many are above and below.
    """
    from wcwidth import width as cells

    head = cells(prompt)
    rest = max(NARROWEST, width) - len(_WRAPPED)
    first = max(1, max(NARROWEST, width) - head)
    pieces: list[tuple[str, str]] = []
    place = (0, head)
    at = 0
    for number, line in enumerate(text.split("\n")):
        rows = _rows_of(line, rest if number else first, rest)
        if at <= cursor <= at + len(line):
            inside = max(index for index, row in enumerate(rows) if row.start <= cursor - at)
            before = _NEW_LINE if number else prompt
            left = cells(before if inside == 0 else _WRAPPED)
            place = (len(pieces) + inside, left + _cells_before(line, rows[inside].start, cursor - at))
        for index, row in enumerate(rows):
            pieces.append((_WRAPPED if index else _NEW_LINE if number else prompt, row.text))
        at += len(line) + 1
    if most is None or len(pieces) <= most:
        return Footer([paint(mark) + piece for mark, piece in pieces], place)
    return _around(pieces, place, max(3, most), paint)


def _around(pieces: list[tuple[str, str]], place: tuple[int, int], most: int, paint: Callable[[str], str]) -> Footer:
    top = min(max(0, place[0] - most // 2), len(pieces) - most)
    rows = [paint(mark) + piece for mark, piece in pieces[top : top + most]]
    at = place[0] - top
    if top and at:
        rows[0] = paint(f"{_WRAPPED}↑ {top + 1:,}")
    if (below := len(pieces) - top - most) and at < most - 1:
        rows[-1] = paint(f"{_WRAPPED}↓ {below + 1:,}")
    return Footer(rows, (at, place[1]))
