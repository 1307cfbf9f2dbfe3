"""Text cut into rows that fit the terminal, by the cells that characters take there and not by their number."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Words of a model or a tool, made safe for a terminal: what would steer it, hide or turn the text is shown instead.


# Joiners that emoji and several scripts are written with; they move nothing.
_JOINERS = "\u200c\u200d\u00ad"
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_LINE_ENDS = re.compile(r"\r+\n")


def visible(text: str) -> str:
    """The text with control characters, marks that turn its order, and lone surrogates as visible escapes."""
    if text.isprintable():
        return text
    return "".join(map(_shown, _LINE_ENDS.sub("\n", text)))


def one_line(text: str) -> str:
    """The same on one line: line ends are shown, tabs are spaces."""
    return visible(text.strip()).replace("\n", "⏎").replace("\t", " ")


@cache
def _shown(character: str) -> str:
    if character in "\n\t" or character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


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
    from wcwidth import iter_graphemes
    from wcwidth import width as cells

    if cells(text) <= width:
        return text
    row, used = "", 1
    for one in iter_graphemes(text):
        used += cells(one)
        if used > width:
            break
        row += one
    return f"{row}…"


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
    "good": "32",
    "bad": "31",
    "warned": "33",
    "code": "36",
    "title": "1;4",
    "place": "36",
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
