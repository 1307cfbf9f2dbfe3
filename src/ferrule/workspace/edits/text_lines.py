"""A text as lines, each with its place, and with the line ending it really has."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from ferrule.workspace.texts.text import newline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

BLANKS = " \t"


_OFTEN = 0.25


class TextLines:
    """The lines of a text, worked out when asked for: an exact edit of a large file needs few of them.

    A carriage return alone ends lines only in a text without any line feed.
    """

    def __init__(self, source: str | bytes, without_any: str = "\n", skipped: int = 0) -> None:
        """A text, or its bytes in UTF-8. `without_any` is the line ending for lines that a text without any gets;
        `skipped` lines of the file are before the text, and count where a line is named.
        """
        self.source, self.skipped = source, skipped
        self._without_any = without_any
        self.newline = "\r" if not self.has("\n") and self.has("\r") else "\n"

    @cached_property
    def text(self) -> str:
        """All of it. Of bytes, up to four times as large: most edits of a large file do without."""
        return self.source if isinstance(self.source, str) else self.source.decode()

    def has(self, part: str) -> bool:
        """Whether a text is part of this one."""
        return part in self.source if isinstance(self.source, str) else in_utf_8(part) in self.source

    def matches(self, pattern: str) -> bool:
        """Whether a regular expression, which takes bytes beyond ASCII for characters, is found."""
        return bool(
            re.search(pattern, self.source)
            if isinstance(self.source, str)
            else re.search(pattern.encode(), self.source)
        )

    def __len__(self) -> int:
        return len(self.contents)

    @cached_property
    def _raw(self) -> list[str]:
        """The lines as split, perhaps with half of their line ending."""
        return self.text.split(self.newline)

    @cached_property
    def contents(self) -> list[str]:
        """The lines without line endings."""
        text = self.text
        if self.newline == "\r" or "\r\n" not in text:
            return self._raw
        pairs = text.count("\r\n")
        if pairs == text.count("\n"):
            return text.split("\r\n")
        last = len(self._raw) - 1
        return [line[:-1] if index < last and line.endswith("\r") else line for index, line in enumerate(self._raw)]

    @cached_property
    def often_blank(self) -> bool:
        """Whether lines without words are often indented in this text."""
        blank = sum(1 for line in self.contents if line and not line.strip(BLANKS))
        return blank > 0 and blank >= _OFTEN * (blank + self.contents.count(""))

    @cached_property
    def starts(self) -> list[int]:
        """Where each line starts, and the end."""
        return list(accumulate((len(line) + 1 for line in self._raw), initial=0))

    @cached_property
    def trimmed(self) -> list[str]:
        """The lines without trailing blanks."""
        text = self.text
        if "\r" not in text and " \n" not in text and "\t\n" not in text and not text.endswith((" ", "\t")):
            return self.contents
        return [line.rstrip(BLANKS) for line in self.contents]

    @cached_property
    def stripped(self) -> list[str]:
        """The lines without the blanks around them."""
        return [line.lstrip(BLANKS) for line in self.trimmed]

    @cached_property
    def inner_tabs(self) -> bool:
        """Whether any line has a tab after its first word."""
        return "\t" in self.text and any("\t" in line for line in self.stripped)

    @cached_property
    def only_style(self) -> str | None:
        """The line ending of all lines, also of new ones; None where they end differently."""
        found = newline_of(self.text)
        return None if found == "mixed" else found or self._without_any

    def style(self, index: int) -> str:
        """The line ending that a line next to this one should have."""
        return self.style_at(self.starts[index])

    def ending_at(self, position: int) -> str:
        """What ends the line that a character is on."""
        at = self.text.find(self.newline, position)
        if at < 0:
            return ""
        return "\r\n" if at and self.text[at - 1 : at + 1] == "\r\n" else self.newline

    def style_at(self, position: int) -> str:
        """The line ending for lines near a character: that of its own line, or else of the one before."""
        own = self.ending_at(position)
        if own:
            return own
        before = self.text.rfind(self.newline, 0, position)
        return self._without_any if before < 0 else self.ending_at(before)

    def number_at(self, position: int) -> int:
        """The number, from 1, of the line that a character is on."""
        return self.text.count(self.newline, 0, position) + 1

    def numbers_at(self, positions: Sequence[int]) -> list[int]:
        """The same for many, which are in order: the text is gone through once."""
        counts = (self.text.count(self.newline, *pair) for pair in pairwise((0, *positions)))
        return list(accumulate(counts, initial=1))[1:]

    def before(self, position: int) -> str:
        """What stands before a character on its line."""
        return self.text[self.text.rfind(self.newline, 0, position) + 1 : position]

    def after(self, position: int) -> str | None:
        """What stands on a character's line from there on, without the line ending; None where the text just ends."""
        at = self.text.find(self.newline, position)
        if at < 0:
            rest = self.text[position:]
            return rest or None
        rest = self.text[position:at]
        return rest[:-1] if rest.endswith("\r") else rest

    def next_with_words(self, position: int) -> str | None:
        """The next line with words after the one that a character is on, or that line if the character starts it."""
        if position and self.text[position - 1] not in "\r\n":
            position = self.text.find(self.newline, position) + 1 or len(self.text)
        while position < len(self.text):
            end = self.text.find(self.newline, position)
            line = self.text[position : end if end >= 0 else None].rstrip("\r")
            if line.strip(BLANKS):
                return line
            position = end + 1 or len(self.text)
        return None


def in_utf_8(text: str) -> bytes:
    """Its bytes; half a character, which no file has, becomes some that none has either."""
    return text.encode("utf-8", "surrogatepass")


def as_lines(text: str) -> list[str]:
    """What was given, as lines; an empty last one means that it ends with a line ending."""
    if "\n" not in text:
        return text.split("\r")
    return text.replace("\r\n", "\n").split("\n")


def blanks_before(line: str) -> str:
    """The indentation of a line."""
    return line[: len(line) - len(line.lstrip(BLANKS))]


def blanks_after(line: str) -> str:
    """The blanks at the end of a line."""
    return line[len(line.rstrip(BLANKS)) :]
