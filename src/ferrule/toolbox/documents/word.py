"""Reads Word documents by walking over their XML, since that is where all of the text is.

Body first, in the order in which it stands: paragraphs, tables, content controls, text boxes, inserted text. Deleted
text is left out. Notes, comments, headers and footers follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ferrule.toolbox.documents.blocks import Counted, DocumentBlock, OutlineEntry, heading, table, tidy
from ferrule.toolbox.documents.formats import Package, local_name

_SKIPPED = frozenset({"del", "moveFrom", "Fallback", "instrText", "delText", "delInstrText", "rPr", "pPr", "sectPr",
                      "tblPr", "tblGrid", "trPr", "tcPr", "sdtPr", "sdtEndPr", "fldData", "posOffset", "pctWidth",
                      "pctHeight", "binData"})  # fmt: skip
_ROOMS = ("txbxContent", "textbox")
_TEXTS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": "", "ptab": "\t"}


class WordDocument(Counted):
    """A docx: one part, made of headings, paragraphs and tables."""

    counts_lines = True

    def __init__(self, package: Package) -> None:
        super().__init__(package.name, "")
        self.package = package
        self.main = package.main_part() if package.main_part() in package.names else "word/document.xml"
        self.lists: set[str] = set()
        self._was_item = False
        self.levels = self._heading_levels()

    def count(self) -> int:
        return 1

    def blocks(self, part: str) -> Iterator[DocumentBlock]:
        del part
        yield from self._of(self.main)
        for kind, title in (("footnotes", "Footnotes"), ("endnotes", "Endnotes"), ("comments", "Comments")):
            yield from self._notes(kind, title)
        for kind, title in (("header", "Header"), ("footer", "Footer")):
            said: set[str] = set()
            for member in self.package.related(self.main, kind):
                for block in self._of(member):
                    if block.text not in said:
                        said.add(block.text)
                        yield DocumentBlock("text", f"{title}: {block.text}" if block.kind != "table" else block.text,
                                    where=title.lower())  # fmt: skip

    def outline(self) -> list[OutlineEntry]:
        return [OutlineEntry(one.level, one.text) for one in self._of(self.main) if one.kind == "heading"]

    def info(self) -> dict[str, str]:
        words = sum(len(one.text.split()) for one in self._of(self.main))
        return {**self.package.properties(), "words": f"{words:,}"}

    def _of(self, member: str) -> Iterator[DocumentBlock]:
        # The elements directly in the body (or the header, or the footer), one at a time.
        for element in self.package.children(member, 2 if member == self.main else 1):
            yield from self._block(element)

    def _notes(self, kind: str, title: str) -> Iterator[DocumentBlock]:
        first = True
        for member in self.package.related(self.main, kind):
            for note in self.package.children(member, 1):
                if _attribute(note, "type") in ("separator", "continuationSeparator", "continuationNotice"):
                    continue
                text = " ".join(one.text for one in self._inside(note) if one.text)
                if not text:
                    continue
                if first:
                    yield heading(title, 2, kind)
                    first = False
                mark = _attribute(note, "id") or "?"
                who = f" {author}:" if (author := _attribute(note, "author")) else ""
                yield DocumentBlock("text", f"[^{mark}]:{who} {text}", where=f"{kind[:-1]} {mark}")

    def _block(self, element: Any) -> Iterator[DocumentBlock]:
        name = local_name(element)
        if name == "p":
            yield from self._paragraph(element)
        elif name == "tbl":
            yield from self._table(element)
        elif name not in _SKIPPED:
            yield from self._inside(element)

    def _inside(self, element: Any) -> Iterator[DocumentBlock]:
        """The blocks in a content control, a cell, a text box or a note; text that stands in none of them too."""
        loose: list[str] = []
        for child in element:
            name = local_name(child)
            if name in ("p", "tbl"):
                yield from self._block(child)
            elif name == "t":
                loose.append(child.text or "")
            elif name not in _SKIPPED:
                yield from self._inside(child)
        if text := tidy("".join(loose)):
            yield DocumentBlock("text", text)

    def _paragraph(self, element: Any) -> Iterator[DocumentBlock]:
        boxes: list[Any] = []
        text = tidy(self._text(element, boxes))
        level = self._level(element)
        if text and level:
            self._was_item = False
            yield heading(text, level)
        elif text:
            indent = self._list_level(element)
            follows = self._was_item and indent is not None
            self._was_item = indent is not None
            yield DocumentBlock("text", text if indent is None else f"{'  ' * indent}- {text}", follows=follows)
        for box in boxes:
            yield from self._inside(box)

    def _text(self, element: Any, boxes: list[Any]) -> str:
        pieces: list[str] = []
        todo = [iter(element)]
        while todo:
            child = next(todo[-1], None)
            if child is None:
                todo.pop()
                continue
            name = local_name(child)
            if name == "t":
                pieces.append(child.text or "")
            elif name in _TEXTS:
                pieces.append(_TEXTS[name])
            elif name in _ROOMS:
                boxes.append(child)
            elif name == "sym" and re.fullmatch("[0-9A-Fa-f]{1,6}", code := _attribute(child, "char") or ""):
                # A character of a symbol font; those of its private area stand 0xF000 above the plain ones.
                pieces.append(chr(int(code, 16)) if 31 < int(code, 16) < 0xE000 else "")
            elif name in ("footnoteReference", "endnoteReference", "commentReference"):
                pieces.append(f"[^{_attribute(child, 'id')}]")
            elif name not in _SKIPPED and name:
                todo.append(iter(child))
        return "".join(pieces)

    def _table(self, element: Any) -> Iterator[DocumentBlock]:
        rows: list[list[str]] = []
        for line in _each(element, "tr"):
            if any(local_name(one) == "del" for part in line if local_name(part) == "trPr" for one in part):
                continue
            cells: list[str] = []
            for one in _each(line, "tc"):
                cells.append("\n".join(block.text for block in self._inside(one)))
                cells += [""] * (_span(one) - 1)
            rows.append(cells)
        if text := table(rows):
            yield DocumentBlock("table", text)

    # Headings and lists

    def _heading_levels(self) -> dict[str, int]:
        """Style id to level: by the outline level that a style or what it is based on has, or by its name."""
        found: dict[str, int] = {}
        based: dict[str, str] = {}
        for member in self.package.related(self.main, "styles"):
            for style in self.package.root(member):
                if local_name(style) != "style" or _attribute(style, "type") != "paragraph":
                    continue
                key = _attribute(style, "styleId") or ""
                for part in style.iter():
                    value = _attribute(part, "val") or ""
                    match local_name(part):
                        case "name" if value.lower() == "title":
                            found[key] = 1
                        case "name" if named := re.fullmatch(r"heading (\d)", value.lower()):
                            found[key] = int(named[1])
                        case "outlineLvl" if value.isdigit() and int(value) < 9:
                            found.setdefault(key, int(value) + 1)
                        case "basedOn":
                            based[key] = value
                        case "numPr":
                            self.lists.add(key)
                        case _:
                            pass
        for key in based:
            above, seen = key, set[str]()
            while above not in found and above in based and above not in seen:
                seen.add(above)
                above = based[above]
            if above in found:
                found[key] = found[above]
        return found

    def _level(self, paragraph: Any) -> int:
        for part in _properties(paragraph):
            value = _attribute(part, "val") or ""
            if local_name(part) == "outlineLvl" and value.isdigit() and int(value) < 9:
                return int(value) + 1
            if local_name(part) == "pStyle" and value in self.levels:
                return self.levels[value]
        return 0

    def _list_level(self, paragraph: Any) -> int | None:
        for part in _properties(paragraph):
            if local_name(part) == "numPr":
                levels = [_attribute(one, "val") or "0" for one in part if local_name(one) == "ilvl"]
                return min(int(levels[0]), 9) if levels and levels[0].isdigit() else 0
            if local_name(part) == "pStyle" and (style := _attribute(part, "val") or "") in self.lists:
                return int(style[-1]) - 1 if style[-1] in "2345" else 0
        return None


def _properties(paragraph: Any) -> list[Any]:
    first = next(iter(paragraph), None)
    return list(first) if first is not None and local_name(first) == "pPr" else []


def _attribute(element: Any, name: str) -> str | None:
    """An attribute whatever its namespace: transitional and strict files differ in it."""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), None)


def _each(element: Any, name: str) -> Iterator[Any]:
    """The rows or cells, also those in content controls and in inserted text."""
    for child in element:
        if local_name(child) == name:
            yield child
        elif local_name(child) not in _SKIPPED and local_name(child) not in ("p", "tbl"):
            yield from _each(child, name)


def _span(cell: Any) -> int:
    for part in (one for properties in cell if local_name(properties) == "tcPr" for one in properties):
        value = _attribute(part, "val") or ""
        if local_name(part) == "gridSpan" and value.isdigit():
            return min(max(int(value), 1), 64)
    return 1
