"""A text as lines, each with its place, and with the line ending it really has."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

BLANKS = " \t"


class TextLines:
    """The lines of a text: `contents` without line endings, `starts` their places.

    A carriage return alone ends lines only in a text without any line feed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._newline = "\r" if "\r" in text and "\n" not in text else "\n"
        self._raw = text.split(self._newline)
        self.contents = self._raw
        if self._newline == "\n" and "\r" in text:
            last = len(self._raw) - 1
            self.contents = [
                line[:-1] if index < last and line.endswith("\r") else line for index, line in enumerate(self._raw)
            ]

    def __len__(self) -> int:
        return len(self.contents)

    @cached_property
    def starts(self) -> list[int]:
        return list(accumulate((len(line) + 1 for line in self._raw), initial=0))

    @cached_property
    def trimmed(self) -> list[str]:
        """The lines without trailing blanks."""
        return [line.rstrip(BLANKS) for line in self.contents]

    @cached_property
    def stripped(self) -> list[str]:
        """The lines without the blanks around them."""
        return [line.strip(BLANKS) for line in self.contents]

    @cached_property
    def inner_tabs(self) -> bool:
        """Whether any line has a tab after its first word."""
        return "\t" in self.text and any("\t" in line for line in self.stripped)

    @cached_property
    def clean(self) -> bool:
        """Whether no line with words ends with blanks."""
        return not any(len(line) > len(trimmed) > 0 for line, trimmed in zip(self.contents, self.trimmed, strict=True))

    @cached_property
    def usual_ending(self) -> str:
        if self._newline == "\r":
            return "\r"
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"

    def ending(self, index: int) -> str:
        """What ends a line: nothing for the last."""
        if index >= len(self.contents) - 1:
            return ""
        return "\r\n" if len(self._raw[index]) > len(self.contents[index]) else self._newline

    def style(self, index: int) -> str:
        """The line ending that a line next to this one should have."""
        return self.ending(index) or (self.ending(index - 1) if index else "") or self.usual_ending

    def number_at(self, position: int) -> int:
        """The number, from 1, of the line that a character is on."""
        return self.text.count(self._newline, 0, position) + 1


def as_lines(text: str) -> list[str]:
    """What was given, as lines; an empty last one means that it ends with a line ending."""
    if "\n" not in text:
        return text.split("\r")
    return text.replace("\r\n", "\n").split("\n")


def blanks_before(line: str) -> str:
    """The indentation of a line."""
    return line[: len(line) - len(line.lstrip(BLANKS))]
