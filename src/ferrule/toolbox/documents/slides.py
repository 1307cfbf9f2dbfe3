"""Reads PowerPoint presentations by walking over the XML of each slide: shapes, groups, tables, diagrams, notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ferrule.toolbox.documents.blocks import Counted, DocumentBlock, OutlineEntry, heading, table, tidy
from ferrule.toolbox.documents.formats import Package, damaged, local_name

_DRAWING = ("{http://schemas.openxmlformats.org/drawingml/2006/main}", "{http://purl.oclc.org/ooxml/drawingml/main}")
_TITLES = ("title", "ctrTitle")
_NOT_READ = ("sldNum", "sldImg")


class Presentation(Counted):
    """A pptx, slide by slide in the order in which they are shown."""

    counts_lines = False

    def __init__(self, package: Package) -> None:
        super().__init__(package.name, "slide")
        self.package = package
        self.main = package.main_part() or "ppt/presentation.xml"
        if self.main not in package.names:
            raise damaged(self.name, f"its part `{self.main}` is missing")
        targets = package.relations(self.main)
        self.slides: list[str] = []
        for one in package.root(self.main).iter():
            if local_name(one) == "sldId":
                key = next((value for key, value in one.attrib.items() if key.endswith("}id")), "")
                if key in targets and targets[key][1] in package.names:
                    self.slides.append(targets[key][1])

    def count(self) -> int:
        return len(self.slides)

    def blocks(self, part: str) -> Iterator[DocumentBlock]:
        numbers = self.numbers(part, len(self.slides)) if self.slides or part else range(0)
        for number in numbers:
            where = f"slide {number}"
            member = self.slides[number - 1]
            root = self.package.root(member)
            hidden = " (hidden)" if root.get("show") in ("0", "false") else ""
            title = _title(root)
            yield heading(f"Slide {number}{hidden}{': ' + title if title else ''}", 2, where)
            yield from self._read(member, root, where)
            for note in self.package.related(member, "notesSlide"):
                for block in _shapes(self.package.root(note), where):
                    yield DocumentBlock("text", f"Notes: {block.text}", where=where)
            for kind in ("comments", "threadedComment"):
                for comment in self.package.related(member, kind):
                    texts = [text for one in self.package.root(comment).iter() if local_name(one) in ("text", "t")
                             and (text := (one.text or "").strip())]  # fmt: skip
                    yield from (DocumentBlock("text", f"Comment: {text}", where=where) for text in texts)
            yield DocumentBlock("text", "", where=where, resume=self.after(number, numbers))

    def outline(self) -> list[OutlineEntry]:
        return [
            OutlineEntry(1, _title(self.package.root(member)) or "(no title)", f"slide {number}")
            for number, member in enumerate(self.slides, 1)
        ]

    def info(self) -> dict[str, str]:
        return {**self.package.properties(), "slides": f"{len(self.slides):,}"}

    def _read(self, member: str, root: Any, where: str) -> Iterator[DocumentBlock]:
        yield from _shapes(root, where, without_title=True)
        for kind in ("diagramData", "chart", "chartEx"):
            for inner in self.package.related(member, kind):
                if kind == "diagramData":
                    yield from _texts(self.package.root(inner), where)
                else:
                    yield from _chart(self.package.root(inner), where)


def _shapes(root: Any, where: str, *, without_title: bool = False) -> Iterator[DocumentBlock]:
    """The text of each shape in the order of the file, groups and tables included."""
    for child in root:
        name = local_name(child)
        if name in ("sp", "cxnSp"):
            kind = _placeholder(child)
            if kind in _NOT_READ or (without_title and kind in _TITLES):
                continue
            yield from _texts(child, where)
        elif name == "tbl":
            lines = (line for line in child if local_name(line) == "tr")
            if text := table([[_text_of(cell) for cell in line if local_name(cell) == "tc"] for line in lines]):
                yield DocumentBlock("table", text, where=where)
        elif name and name != "Fallback":
            yield from _shapes(child, where, without_title=without_title)


def _texts(shape: Any, where: str) -> Iterator[DocumentBlock]:
    for paragraph in shape.iter(*(f"{one}p" for one in _DRAWING)):
        if text := tidy(_paragraph(paragraph)):
            level = next((one.get("lvl", "") for one in paragraph if local_name(one) == "pPr"), "")
            indent = "  " * min(int(level), 8) if level.isdigit() else ""
            yield DocumentBlock("text", f"{indent}- {text}" if indent else text, where=where)


def _paragraph(paragraph: Any) -> str:
    stands_for = {"br": "\n", "tab": "\t"}
    names = ((one, local_name(one)) for one in paragraph.iter())
    return "".join((one.text or "") if name == "t" else stands_for.get(name, "") for one, name in names)


def _chart(root: Any, where: str) -> Iterator[DocumentBlock]:
    """A chart's titles, and its series as far as the file keeps their values."""
    yield from _texts(root, where)
    for series in (one for one in root.iter() if local_name(one) == "ser"):
        values = {local_name(part): [point.text or "" for point in part.iter() if local_name(point) == "v"]
                  for part in series if local_name(part) in ("tx", "cat", "val", "xVal", "yVal")}  # fmt: skip
        title = " ".join(values.get("tx", ())) or "series"
        numbers = values.get("val") or values.get("yVal") or []
        names = values.get("cat") or values.get("xVal") or [""] * len(numbers)
        if numbers:
            pairs = (f"{name}: {value}" if name else value for name, value in zip(names, numbers, strict=False))
            yield DocumentBlock("text", f"Chart, {title}: {', '.join(pairs)}", where=where)


def _title(root: Any) -> str:
    for shape in root.iter():
        if local_name(shape) == "sp" and _placeholder(shape) in _TITLES:
            return " ".join(_text_of(shape).split())
    return ""


def _text_of(element: Any) -> str:
    return "\n".join(_paragraph(one) for one in element.iter(*(f"{one}p" for one in _DRAWING)))


def _placeholder(shape: Any) -> str:
    inner = (one for part in shape if local_name(part) == "nvSpPr" for one in part.iter())
    return next((one.get("type", "body") for one in inner if local_name(one) == "ph"), "")
