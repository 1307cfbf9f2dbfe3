"""A Markdown table for the terminal: columns in line where they fit, and a list of cells where they do not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.cli.chatting.inline_marks import inline
from ferrule.cli.chatting.text_rows import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.cli.chatting.paint import Paint

_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")
_GAP = "  "


def table_rows(lines: Sequence[str], width: int, paint: Paint) -> list[str]:
    """The rows of a table whose lines are `| a | b |`."""
    from wcwidth import ljust
    from wcwidth import width as cells

    table = [[inline(cell.strip(), paint) for cell in _BAR.split(line.strip()[1:-1])] for line in lines]
    ruled = len(table) > 1 and all(_RULE.fullmatch(cell) for cell in table[1] if cell)
    if ruled:
        del table[1]
    columns = max(len(row) for row in table)
    table = [row + [""] * (columns - len(row)) for row in table]
    widths = [max(cells(row[at]) for row in table) for at in range(columns)]
    if sum(widths) + len(_GAP) * (columns - 1) > width:
        return _as_list(table, width) if ruled else [row for line in table for row in wrapped(" | ".join(line), width)]
    rows = [_GAP.join(ljust(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in table]
    if ruled:
        rows[0] = _GAP.join(
            ljust(paint("strong", cell), size) for cell, size in zip(table[0], widths, strict=True)
        ).rstrip()
        rows.insert(1, paint("faint", _GAP.join("─" * size for size in widths)))
    return rows


def _as_list(table: list[list[str]], width: int) -> list[str]:
    """Each row as `head: cell` lines, which fit any width."""
    head, *body = table
    rows: list[str] = []
    for row in body or [head]:
        for position, (title, cell) in enumerate(zip(head, row, strict=True)):
            before = "• " if position == 0 else "  "
            rows += wrapped(f"{title}: {cell}" if title and body else cell, width, before, "    ")
    return rows
