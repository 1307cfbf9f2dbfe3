"""Text cut into rows that fit the terminal, by the cells that characters take there and not by their number."""

from __future__ import annotations

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
