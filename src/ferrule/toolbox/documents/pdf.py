"""Reads PDF files page by page with pdfium; a page that is not asked for is never loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ctypes import c_double
from typing import Any, BinaryIO

from ferrule.extension import advice, phrase, without_hidden
from ferrule.toolbox.documents.blocks import Counted, DocumentBlock, OutlineEntry
from ferrule.toolbox.documents.formats import damaged, encrypted, library, unsupported

_PASSWORD, _SECURITY = 4, 5
_SPACES, _LINE_ENDS = frozenset({9, 10, 13, 32, 160}), frozenset({10, 13})


class PdfFile(Counted):
    """A PDF. It has no headings and no tables of its own, only pages and perhaps bookmarks."""

    counts_lines = False

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__(name, "page")
        from pathlib import Path

        pypdfium2 = library("pypdfium2")
        try:
            # The same file by a name that pdfium opens itself: asking Python for each piece takes several times longer.
            self.pdf = pypdfium2.PdfDocument(Path(f"/dev/fd/{file.fileno()}"))
        except pypdfium2.PdfiumError as error:
            if error.err_code == _PASSWORD:
                raise encrypted(name) from None
            if error.err_code == _SECURITY:
                raise unsupported(
                    name,
                    "a PDF with protection of an unknown kind",
                    advice("Ask the user for another copy.", "Get another copy."),
                ) from None
            raise damaged(name, phrase("it is not a whole PDF file")) from None

    def count(self) -> int:
        return len(self.pdf)

    def blocks(self, part: str) -> Iterator[DocumentBlock]:
        numbers = self.numbers(part, len(self.pdf))
        empty: list[int] = []
        for number in numbers:
            where = f"page {number}"
            yield DocumentBlock("text", f"[{where}]", where=where)
            text = self.text(number - 1)
            if text is None:
                yield DocumentBlock("text", "[this page is damaged]", where=where, resume=self.after(number, numbers))
                continue
            if not text:
                empty.append(number)
            yield DocumentBlock("text", text, where=where, resume=self.after(number, numbers))
        if len(empty) == len(numbers):
            self.notes.append("No text is on these pages: they are probably scanned images.")

    def text(self, index: int) -> str | None:
        """A page's text; None where the page cannot be loaded."""
        pypdfium2 = library("pypdfium2")
        try:
            page = self.pdf[index]
            raw = pypdfium2.raw
            if raw.FPDFPage_GetAnnotCount(page) and raw.FPDFPage_Flatten(page, 0) == raw.FLATTEN_SUCCESS:
                page.close()  # what fields, stamps and notes show is part of the page now, once it is loaded again
                page = self.pdf[index]
            shown = page.get_textpage()
        except pypdfium2.PdfiumError:
            return None
        text = _in_lines(raw, shown)
        shown.close()
        page.close()
        text = without_hidden(re.sub("\x02\n?", "-\n", text.replace("\ufffe", "\x02")))  # a hyphen at the end of a line
        return re.sub(r"\n{3,}", "\n\n", "\n".join(line.strip() for line in text.split("\n"))).strip()

    def outline(self) -> list[OutlineEntry]:
        found: list[OutlineEntry] = []
        for mark in self.pdf.get_toc(max_depth=6):
            target: Any = mark.get_dest()
            index = target.get_index() if target is not None else None
            found.append(
                OutlineEntry(mark.level + 1, mark.get_title(), f"page {index + 1}" if index is not None else "")
            )
            if len(found) == 5000:
                break
        return found

    def info(self) -> dict[str, str]:
        found = {key.lower(): value for key, value in self.pdf.get_metadata_dict(skip_empty=True).items()}
        width, height = self.pdf.get_page_size(0)
        return {**found, "pages": f"{len(self.pdf):,}", "page size": f"{width:.0f} x {height:.0f} points"}


def _in_lines(raw: Any, shown: Any) -> str:
    """The characters of a page with pdfium's spaces and line ends, and a line end wherever the text goes far up or
    down, or back to the left and to another height, which pdfium alone takes for the same line.
    """
    left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
    pieces: list[str] = []
    before: tuple[float, float, float] | None = None
    for index in range(shown.count_chars()):
        code = raw.FPDFText_GetUnicode(shown, index)
        if raw.FPDFText_IsGenerated(shown, index) == 1 or code in _SPACES:
            pieces.append(chr(code))
            if code in _LINE_ENDS:
                before = None
            continue
        if raw.FPDFText_GetCharBox(shown, index, left, right, bottom, top):
            here = left.value, bottom.value, top.value
            # Letters of turned text also stand above each other, yet never so far, nor so far to the left.
            room = 1.5 * max(here[2] - here[1], right.value - left.value, 1.0)
            apart = max(here[1] - before[2], before[1] - here[2]) if before is not None else 0.0
            if before is not None and (apart > 2 * room or (apart > 0 and here[0] < before[0] - room)):
                pieces.append("\n")
            before = here
        pieces.append(chr(code))
    text = "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    return text.replace("\r\n", "\n").replace("\r", "\n")
