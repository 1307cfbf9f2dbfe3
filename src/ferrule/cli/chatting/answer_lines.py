"""A model's answer while it comes: each line is laid out as soon as it is whole, and is final then.

Only the line that is still being written is kept back, and the rows of a table until its last one, because their
columns depend on each other. Nothing that was given out is ever given out again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.cli.chatting.screen import kept, wrapped
from ferrule.core.shown_text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.cli.chatting.screen import Paint


# Markdown inside a line, as models write it: `code`, **strong**, *slanted*, ~~struck~~, [links](address).


_MARKS = re.compile(
    r"\\(?P<literal>[!-/:-@\[-`{-~])"
    r"|(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|\*\*(?P<strong>\S(?:.*?\S)?)\*\*(?!\*)"
    r"|(?<![\w*])\*(?P<slanted>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|(?<!\w)__(?P<strong_too>\S(?:.*?\S)?)__(?!\w)"
    r"|(?<!\w)_(?P<slanted_too>[^\s_](?:[^_]*[^\s_])?)_(?!\w)"
    r"|~~(?P<struck>\S(?:.*?\S)?)~~"
    r"|!?\[(?P<link>[^\]\n]*)\]\((?P<address>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)"
)
_MOST = 5000  # characters of a line that is looked at; an unclosed mark makes looking slow, and nobody reads so much


def inline(text: str, paint: Paint, style: str = "") -> str:
    """The text with its marks turned into styles. It must be safe already."""
    if len(text) > _MOST:
        return _painted(paint, style, text)
    pieces: list[str] = []
    at = 0
    for found in _MARKS.finditer(text):
        pieces.append(_painted(paint, style, text[at : found.start()]))
        pieces.append(_marked(found, paint, style))
        at = found.end()
    pieces.append(_painted(paint, style, text[at:]))
    return "".join(pieces)


def _marked(found: re.Match[str], paint: Paint, style: str) -> str:
    if (literal := found["literal"]) is not None:
        return _painted(paint, style, literal)
    if (code := found["code"]) is not None:
        return paint("code", code[1:-1] if len(code) > 2 and code[0] == code[-1] == " " and code.strip() else code)
    if (strong := found["strong"] or found["strong_too"]) is not None:
        return inline(strong, paint, "strong")
    if (slanted := found["slanted"] or found["slanted_too"]) is not None:
        return inline(slanted, paint, style or "slanted")
    if (struck := found["struck"]) is not None:
        return inline(struck, paint, "faint")
    words, address = found["link"], found["address"]
    shown = inline(words, paint, style)
    return shown if address in (words, f"mailto:{words}") else f"{shown} ({_painted(paint, 'place', address)})"


def _painted(paint: Paint, style: str, text: str) -> str:
    return paint(style, text) if style else text


# A Markdown table for the terminal: columns in line where they fit, and a list of cells where they do not.


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


_FENCE = re.compile(r"(?P<indent>\s*)(?P<fence>`{3,}|~{3,})\s*(?P<language>[^`]*)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<text>.*?)\s*#*\s*")
_ITEM = re.compile(r"(?P<indent>\s*)(?P<marker>[-*+]|\d{1,9}[.)])\s+(?P<text>.*)")
_RULE_LINE = re.compile(r"\s{0,3}([-*_])\s*(?:\1\s*){2,}")
_QUOTE = re.compile(r"\s{0,3}>\s?(?P<text>.*)")
_TABLE = re.compile(r"\s*\|.*\|\s*")
_DEEPEST = 8
_SHOWN = 6_000
"""Characters of an unfinished line; it is laid out again many times a second."""


class AnswerLines:
    """Takes the answer in pieces and gives rows; `styled` off gives the lines as they are."""

    def __init__(self, paint: Paint, *, styled: bool) -> None:
        self._paint = paint
        self._styled = styled
        self._forget()

    def _forget(self) -> None:
        self._line = ""
        self._fence = ""
        self._table: list[str] = []
        self._blank = False
        self._began = False

    @property
    def unfinished(self) -> str:
        """What is known of the line that is still being written, and of a table, in safe plain text; of a very long
        one its end, from the same place for a while, so that its rows stay where they are.
        """
        line = self._line[max(0, len(self._line) - _SHOWN) // 1_000 * 1_000 :]
        return visible("\n".join([*self._table[-_SHOWN // 100 :], *([line] if line else [])]))

    def feed(self, text: str, width: int) -> list[str]:
        """The rows that are final by now."""
        *lines, self._line = (self._line + text).split("\n")
        return [row for line in lines for row in self._take(line, width)]

    def end(self, width: int) -> list[str]:
        """The rest; what comes after is another answer."""
        rows = self._take(self._line, width) if self._line else []
        rows += self._end_table(width)
        self._forget()
        return rows

    def drop(self) -> bool:
        """Forget what was not given out yet; whether anything was given out before."""
        began = self._began
        self._forget()
        return began

    def _take(self, raw: str, width: int) -> list[str]:
        line = visible(raw).rstrip()
        if self._styled and not self._fence and _TABLE.fullmatch(line):
            self._table.append(line)
            return []
        rows = self._end_table(width)
        if not line and not self._fence:
            self._blank = True
            return rows
        return rows + self._after_blank(self._laid_out(line, width))

    def _end_table(self, width: int) -> list[str]:
        lines, self._table = self._table, []
        return self._after_blank(table_rows(lines, width, self._paint)) if lines else []

    def _after_blank(self, rows: list[str]) -> list[str]:
        """One blank row where there were any, and none at the beginning or the end."""
        if not rows:  # the mark of a code block; the blank row comes with its first line
            return rows
        if self._blank and self._began:
            rows = ["", *rows]
        self._blank, self._began = False, True
        return rows

    def _laid_out(self, line: str, width: int) -> list[str]:
        if not self._styled:
            return [line]
        fence = _FENCE.fullmatch(line)
        if self._fence:
            if fence and fence["fence"].startswith(self._fence) and not fence["language"]:
                self._fence = ""
                return []
            return [self._paint("code", row) for row in kept(line, width, "    ")]
        if fence:
            self._fence = fence["fence"]
            return []
        return self._words(line, width)

    def _words(self, line: str, width: int) -> list[str]:
        paint = self._paint
        if heading := _HEADING.fullmatch(line):
            return wrapped(inline(heading["text"], paint, "title"), width)
        if _RULE_LINE.fullmatch(line):
            return [paint("faint", "─" * min(width, 40))]
        if item := _ITEM.fullmatch(line):
            indent = " " * min(len(item["indent"].expandtabs(4)), _DEEPEST)
            marker = "•" if item["marker"] in "-*+" else item["marker"]
            before = f"{indent}{marker} "
            return wrapped(inline(item["text"], paint), width, before, " " * len(before))
        if quote := _QUOTE.fullmatch(line):
            return wrapped(inline(quote["text"], paint, "faint"), width, "> ")
        indent = " " * min(len(line) - len(line.lstrip()), _DEEPEST)
        return wrapped(inline(line.strip(), paint), width, indent)
