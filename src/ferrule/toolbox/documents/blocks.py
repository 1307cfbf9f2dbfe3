"""What every reader gives: blocks of text in reading order, with where each stands in the document.

A reader is a `Document`: it has parts (pages, slides, sheets, chapters; or just one), and gives the blocks of some of
them without reading the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ferrule.extension import phrase
from ferrule.toolbox.documents.formats import no_such_part

_SPACES = re.compile(r"[ \t\r\f\v\xa0]+")
_RANGE = re.compile(r"(?:pages?|slides?|chapters?|p\.?)?\s*(\d+)?\s*(-|–|\.\.)?\s*(\d+)?", re.IGNORECASE)


@dataclass(slots=True)
class DocumentBlock:
    """A heading, a paragraph, a table or a part of one, as Markdown."""

    kind: Literal["heading", "text", "table"]
    text: str
    level: int = 0
    where: str = ""
    """Where it stands, for a reader: `page 3`, `Sales!A5`."""
    follows: bool = False
    """Whether it goes on from the block before without an empty line."""
    resume: str = ""
    """The part with which reading goes on after this block, where that is a place to stop."""


@dataclass(slots=True)
class OutlineEntry:
    level: int
    text: str
    where: str = ""


class Document(Protocol):
    """An open document. `unit` names its parts, and is empty where it has just one."""

    unit: str
    counts_lines: bool
    """Whether it is read through to the end, so that its lines can be counted."""
    notes: list[str]

    def count(self) -> int: ...

    def blocks(self, part: str) -> Iterator[DocumentBlock]: ...

    def outline(self) -> list[OutlineEntry]: ...

    def info(self) -> dict[str, str]: ...


@dataclass(slots=True)
class Counted:
    """What documents with numbered parts have in common."""

    name: str
    unit: str
    notes: list[str] = field(default_factory=list[str])

    def numbers(self, part: str, count: int) -> range:
        """The parts that `3`, `3-5`, `7-` or nothing names, counted from 1."""
        text = part.strip()
        found = _RANGE.fullmatch(text)
        if not text:
            return range(1, count + 1)
        if found is None or not (found[1] or found[3]):
            raise no_such_part(
                phrase("`{part}` is not a {unit} of `{name}`.", part=part, unit=self.unit, name=self.name),
                phrase("Give a number or a range, such as 3 or 3-5; there are {count}.", count=f"{count:,}"),
            )
        first = int(found[1] or 1)
        last = int(found[3]) if found[3] else count if found[2] else first
        if not 1 <= first <= count or last < first:
            raise no_such_part(
                phrase("`{name}` has no {unit} {part}.", name=self.name, unit=self.unit, part=part),
                phrase("It has {count}, numbered from 1.", count=f"{count:,}"),
            )
        return range(first, min(last, count) + 1)

    @staticmethod
    def after(number: int, numbers: range) -> str:
        """The part that goes on after one of these."""
        return f"{number + 1}-{numbers[-1]}" if number < numbers[-1] else ""


def tidy(text: str) -> str:
    """Runs of spaces as one, lines kept."""
    return "\n".join(_SPACES.sub(" ", line).strip() for line in text.split("\n")).strip("\n")


def cell(text: str) -> str:
    """Text that fits in a cell of a Markdown table."""
    return tidy(text).replace("|", "\\|").replace("\n", "<br>")


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    width = max((len(one) for one in rows), default=0)
    lines = [row([*map(cell, one), *[""] * (width - len(one))]) for one in rows]
    return "\n".join([*lines[:1], row(["---"] * width), *lines[1:]]) if width else ""


def heading(text: str, level: int, where: str = "") -> DocumentBlock:
    return DocumentBlock("heading", " ".join(text.split()), min(max(level, 1), 6), where)
