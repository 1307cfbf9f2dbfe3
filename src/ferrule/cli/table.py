"""Plain tables: columns padded by what a terminal really shows, wide characters included."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import click

from ferrule.cli.output import terminal_columns, write_styled

if TYPE_CHECKING:
    from collections.abc import Sequence


def width(text: str) -> int:
    """How many columns a terminal gives a text."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, most: int) -> str:
    """A text of at most so many columns, with `…` where something was cut."""
    if width(text) <= most:
        return text
    kept = ""
    for character in text:
        if width(kept + character) > most - 1:
            break
        kept += character
    return kept + "…"


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout. On a terminal the last column is cut to fit; in a pipe it is whole."""
    table = [[_visible(cell) for cell in row] for row in rows]
    widths = [max([width(header), *(width(row[column]) for row in table)]) for column, header in enumerate(headers)]
    room = terminal_columns()
    for number, row in enumerate([list(headers), *table]):
        *first, last = row
        line = "".join(cell + " " * (widths[column] - width(cell) + 2) for column, cell in enumerate(first))
        if room is not None:
            last = cut(last, max(8, room - width(line)))
        text = (line + last).rstrip()
        write_styled(text if number else click.style(text, bold=True))


def _visible(text: str) -> str:
    """Control characters as visible escapes: what others wrote must not drive the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
