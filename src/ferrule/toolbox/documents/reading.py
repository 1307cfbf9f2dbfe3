"""Reads a document in the child process: opens it by what it is, chooses the part, and gives a page of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

from ferrule.extension import cut_counted, nearest, phrase
from ferrule.toolbox.documents.blocks import Document, DocumentBlock
from ferrule.toolbox.documents.formats import SPREADSHEETS, Package, library, no_such_part, recognise

MOST_CHARACTERS = 100_000
_LONGEST_LINE = 40_000
_AROUND = 200
_READERS = {
    "pdf": ("pdf", "PdfFile"), "html": ("web_pages", "WebPage"), "epub": ("web_pages", "Book"),
    "pptx": ("slides", "Presentation"), "docx": ("word", "WordDocument"),
}  # fmt: skip
"""Imported when one of its kind is opened."""


def open_document(file: BinaryIO, name: str, engine: str = "") -> tuple[str, Document]:
    """What it is, and its reader."""
    kind = recognise(file, name)
    if kind == "csv" or kind in SPREADSHEETS:
        from ferrule.toolbox.documents.sheets import open_workbook

        return kind, open_workbook(file, name, kind, engine)
    module, reader = _READERS[kind]
    make = getattr(library(f"ferrule.toolbox.documents.{module}"), reader)
    return kind, make(file, name) if kind in ("pdf", "html") else make(Package(file, name))


def read(order: dict[str, Any], file: BinaryIO) -> dict[str, Any]:
    """Runs in the child. `order`: name, part, view, find, offset, limit, engine, most."""
    kind, document = open_document(file, order["name"], order.get("engine", ""))
    found: dict[str, Any] = {"format": kind, "unit": document.unit, "parts": document.count()}
    match order["view"]:
        case "info":
            blocks: Iterable[DocumentBlock] = [DocumentBlock("text", f"{key}: {value}", follows=True)
                                       for key, value in document.info().items()]  # fmt: skip
        case "outline":
            entries = ((one, one.where and f" ({one.where})") for one in document.outline())
            lines = (f"{'  ' * (one.level - 1)}- {one.text}{where}" for one, where in entries)
            blocks = [DocumentBlock("text", line, follows=True) for line in lines]
        case "tables":
            blocks = (
                one if one.kind == "table" else replace(one, kind="table", text="", level=0, follows=True)
                for one in chosen(document, order["part"])
                if one.kind == "table" or one.resume
            )
        case _:
            blocks = chosen(document, order["part"])
    if order["find"]:
        blocks = matches(blocks, order["find"])
    to_the_end = document.counts_lines or bool(order["find"]) or order["view"] in ("info", "outline")
    page = ShownPart(order["offset"], order["limit"], to_the_end=to_the_end, most=order.get("most", MOST_CHARACTERS))
    page.fill(blocks)
    return {**found, **page.told(), "notes": document.notes}


def chosen(document: Document, part: str) -> Iterator[DocumentBlock]:
    """The blocks of a part: a number where the document has pages and the like, else a heading."""
    text = part.strip()
    is_heading = text and (not document.unit or (document.unit == "chapter" and not re.search(r"\d", text)))
    if not is_heading:
        yield from document.blocks(text)
        return
    wanted = " ".join(text.lstrip("#").split()).casefold()
    found = 0
    headings: list[str] = []
    for block in document.blocks(""):
        if block.kind == "heading":
            headings.append(block.text)
            if found and block.level <= found:
                return
            if not found and block.text.casefold() == wanted:
                found = block.level
        if found:
            yield block
    if not found:
        close = nearest(text, headings)
        listed = ", ".join(f"`{one}`" for one in headings[:20]) or phrase("there are none")
        hint = phrase("Did you mean `{name}`? ", name=close[0]) if close else ""
        raise no_such_part(
            phrase("There is no heading `{part}`.", part=part),
            hint + phrase("Headings: {listed}.", listed=listed),
        )


def matches(blocks: Iterable[DocumentBlock], find: str) -> Iterator[DocumentBlock]:
    """The lines that hold a text, whatever the case and the spaces, each with where it stands."""
    wanted = re.compile(r"\s+".join(map(re.escape, find.split())) or re.escape(find), re.IGNORECASE)
    section = ""
    number = 0
    for block in blocks:
        if block.kind == "heading":
            section = block.text
        lines = block.text.split("\n")
        # A text that goes on in the next line of a page is found as well.
        if len(lines) > 1 and not any(map(wanted.search, lines)):
            lines = [" ".join(block.text.split())]
        for line in lines:
            number += 1
            if hit := wanted.search(line):
                start, end = max(0, hit.start() - _AROUND), hit.end() + _AROUND
                shown = ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
                where = block.where or (f"under `{section}`" if section else f"line {number}")
                yield DocumentBlock("text", f"{where}: {shown}", follows=True)


class ShownPart:
    """Lines of blocks from an offset on, up to a limit; it stops at the end of a page, slide or row where it can."""

    def __init__(self, offset: int, limit: int, *, to_the_end: bool, most: int = MOST_CHARACTERS) -> None:
        self.offset, self.limit, self.to_the_end, self.most = offset, limit, to_the_end, most
        self.lines: list[str] = []
        self.seen = 0
        self.characters = 0
        self.stopped = False
        self.ended = False
        self.resume, self.kept = "", 0
        """With which part reading goes on, and how many lines stand before that."""

    def fill(self, blocks: Iterable[DocumentBlock]) -> None:
        for block in blocks:
            for line in self._lines(block):
                self._take(line)
            if self.stopped and not self.to_the_end:
                return
            if block.resume and not self.stopped:
                self.resume, self.kept = block.resume, len(self.lines)
        self.ended = True

    def _lines(self, block: DocumentBlock) -> list[str]:
        text = f"{'#' * block.level} {block.text}" if block.kind == "heading" else block.text
        if not text:
            return []
        return [*([""] if self.seen and not block.follows else []), *text.split("\n")]

    def _take(self, line: str) -> None:
        self.seen += 1
        if self.seen <= self.offset or self.stopped:
            return
        if len(line) > max(_LONGEST_LINE, self.most - MOST_CHARACTERS):
            line = cut_counted(line, _LONGEST_LINE)
        if len(self.lines) == self.limit or (self.lines and self.characters + len(line) > self.most):
            self.stopped = True
            return
        self.lines.append(line)
        self.characters += len(line) + 1

    def told(self) -> dict[str, Any]:
        lines = self.lines
        at_part = self.stopped and bool(self.resume) and self.kept > 0
        if at_part:
            lines = lines[: self.kept]
        following = self.offset + len(lines)
        while lines and not lines[0]:
            lines = lines[1:]
        return {
            "content": "\n".join(lines),
            "lines": len(lines),
            "total": self.seen if self.ended else None,
            "next_part": self.resume if at_part else None,
            "next_offset": following if self.stopped and not at_part else None,
        }
