"""A model's answer while it comes: each line is laid out as soon as it is whole, and is final then.

Only the line that is still being written is kept back, and the rows of a table until its last one, because their
columns depend on each other. Nothing that was given out is ever given out again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.cli.chatting.inline_marks import inline
from ferrule.cli.chatting.tables import table_rows
from ferrule.cli.chatting.text_rows import kept, wrapped
from ferrule.cli.chatting.visible_text import visible

if TYPE_CHECKING:
    from ferrule.cli.chatting.paint import Paint

_FENCE = re.compile(r"(?P<indent>\s*)(?P<fence>`{3,}|~{3,})\s*(?P<language>[^`]*)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<text>.*?)\s*#*\s*")
_ITEM = re.compile(r"(?P<indent>\s*)(?P<marker>[-*+]|\d{1,9}[.)])\s+(?P<text>.*)")
_RULE = re.compile(r"\s{0,3}([-*_])\s*(?:\1\s*){2,}")
_QUOTE = re.compile(r"\s{0,3}>\s?(?P<text>.*)")
_TABLE = re.compile(r"\s*\|.*\|\s*")
_DEEPEST = 8


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
        """What is known of the line that is still being written, and of a table, in safe plain text."""
        return visible("\n".join([*self._table, *([self._line] if self._line else [])]))

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
        if self._blank and self._began and rows:
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
            return [self._paint("faint", f"    {fence['language'].strip()}")] if fence["language"].strip() else []
        return self._words(line, width)

    def _words(self, line: str, width: int) -> list[str]:
        paint = self._paint
        if heading := _HEADING.fullmatch(line):
            return wrapped(inline(heading["text"], paint, "title"), width)
        if _RULE.fullmatch(line):
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
