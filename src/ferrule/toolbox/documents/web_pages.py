"""Reads HTML pages and EPUB books as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import unquote

from ferrule.extension import decode, phrase
from ferrule.toolbox.documents.blocks import Counted, DocumentBlock, OutlineEntry, heading, table, tidy
from ferrule.toolbox.documents.formats import Package, damaged, encrypted, harmful, joined, library, local_name

_MOST_HTML = 64 << 20
_SKIPPED = frozenset({"script", "style", "noscript", "template", "head", "svg", "math", "iframe", "object", "select"})
_BLOCKS = frozenset({"p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "ul", "ol", "dl",
                     "dt", "dd", "blockquote", "figure", "figcaption", "form", "fieldset", "address", "details",
                     "summary", "hr", "body", "html", "center", "option", "legend", "caption"})  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_FONTS_ONLY = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


class WebPage(Counted):
    counts_lines = True

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__(name, "")
        data = file.read(_MOST_HTML + 1)
        if len(data) > _MOST_HTML:
            raise harmful(name, phrase("it is an HTML file of more than {most} MB", most=_MOST_HTML >> 20))
        self.root = _parsed(data, name)

    def count(self) -> int:
        return 1

    def blocks(self, part: str) -> Iterator[DocumentBlock]:
        del part
        return html_blocks(self.root)

    def outline(self) -> list[OutlineEntry]:
        return [OutlineEntry(one.level, one.text) for one in html_blocks(self.root) if one.kind == "heading"]

    def info(self) -> dict[str, str]:
        found = {"title": tidy(" ".join(self.root.xpath("//title[1]//text()")))}
        for one in self.root.xpath("//meta[@name and @content]"):
            if one.get("name").lower() in ("author", "description", "keywords", "date"):
                found[one.get("name").lower()] = one.get("content")
        return {key: value for key, value in found.items() if value}


class Book(Counted):
    """An EPUB, by the order in which it is read."""

    counts_lines = True

    def __init__(self, package: Package) -> None:
        super().__init__(package.name, "chapter")
        self.package = package
        if "META-INF/encryption.xml" in package.names:
            methods = {one.get("Algorithm", "") for one in package.root("META-INF/encryption.xml").iter()
                       if isinstance(one.tag, str) and one.tag.endswith("}EncryptionMethod")}  # fmt: skip
            if any(not one.startswith(_FONTS_ONLY) for one in methods):
                raise encrypted(package.name)
        self.properties: dict[str, str] = {}
        self.chapters = self._spine()

    def count(self) -> int:
        return len(self.chapters)

    def blocks(self, part: str) -> Iterator[DocumentBlock]:
        numbers = self.numbers(part, len(self.chapters)) if self.chapters or part else range(0)
        for number in numbers:
            where = f"chapter {number}"
            yield DocumentBlock("text", f"[{where}]", where=where)
            for block in html_blocks(self._chapter(number)):
                block.where = where
                yield block
            yield DocumentBlock("text", "", where=where, resume=self.after(number, numbers))

    def outline(self) -> list[OutlineEntry]:
        found: list[OutlineEntry] = []
        for number in range(1, len(self.chapters) + 1):
            titles = [one for one in html_blocks(self._chapter(number)) if one.kind == "heading"]
            found += [OutlineEntry(one.level, one.text, f"chapter {number}") for one in titles]
        return found

    def info(self) -> dict[str, str]:
        return {**self.properties, "chapters": f"{len(self.chapters):,}"}

    def _chapter(self, number: int) -> Any:
        return _parsed(self.package.read(self.chapters[number - 1], most=_MOST_HTML), self.name)

    def _spine(self) -> list[str]:
        container = self.package.root("META-INF/container.xml")
        paths = [one.get("full-path", "") for one in container.iter() if local_name(one) == "rootfile"]
        if not paths or paths[0] not in self.package.names:
            raise damaged(self.name, phrase("its list of contents is missing"))
        folder = paths[0].rpartition("/")[0]
        items: dict[str, str] = {}
        order: list[str] = []
        etree = library("lxml.etree")
        parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True)
        root: Any = etree.fromstring(self.package.read(paths[0]), parser)
        if root is None:
            raise damaged(self.name, phrase("its list of contents cannot be read"))
        for one in root.iter():
            match local_name(one):
                case "item":
                    items[one.get("id", "")] = joined(folder, unquote(one.get("href", "")))
                case "itemref":
                    order.append(one.get("idref", ""))
                case "title" | "creator" | "language" | "publisher" | "date" if one.text:
                    self.properties.setdefault(local_name(one), one.text.strip())
                case _:
                    pass
        return [items[one] for one in order if items.get(one) in self.package.names]


def _parsed(data: bytes, name: str) -> Any:
    """As a browser would: what it declares, else what it looks like."""
    etree, html = library("lxml.etree"), library("lxml.html")

    declared = _CHARSET.search(data[:2048])
    text = None
    if declared is not None and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        try:
            text = data.decode(declared[1].decode("ascii"))
        except (UnicodeDecodeError, LookupError):
            text = None
    if text is None:
        found = decode(data)
        text = found.text if found is not None else data.decode("utf-8", "replace")
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text.replace("\0", ""))
    try:
        root: Any = html.document_fromstring(text or "<html></html>", parser=html.HTMLParser(no_network=True))
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        if not text.strip():
            return html.document_fromstring("<html><body></body></html>")
        raise damaged(name, error) from None
    return root


def html_blocks(root: Any) -> Iterator[DocumentBlock]:
    """Headings, paragraphs, list items, tables and code, in the order of the page."""
    etree = library("lxml.etree")
    pieces: list[str] = []
    lists: list[str] = []
    prefix = ""
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, element in walk:
        tag = local_name(element).lower()
        if event in ("comment", "pi"):
            pieces.append(_flat(element.tail))
            continue
        if event == "start":
            if tag in _SKIPPED or element.get("hidden") is not None:
                walk.skip_subtree()
            elif tag in ("table", "pre", *_HEADINGS):
                yield from _flush(pieces, prefix)
                prefix = ""
                # A table that holds tables, headings or lists of its own only arranges the page.
                if tag == "table" and any(
                    local_name(one).lower() in ("table", "ul", "ol", "pre", *_HEADINGS)
                    for one in element.iterdescendants()
                ):
                    continue
                yield from _whole(tag, element)
                walk.skip_subtree()
            elif tag in _BLOCKS or tag in ("li", "tr", "td", "th"):
                yield from _flush(pieces, prefix)
                prefix = ""
                if tag in ("ul", "ol"):
                    lists.append(tag)
                elif tag == "li":
                    prefix = "  " * (len(lists) - 1) + ("1. " if lists and lists[-1] == "ol" else "- ")
                pieces.append(_flat(element.text))
            elif tag == "br":
                pieces.append("\n")
            elif tag == "img":
                pieces.append(f"[image: {alt}]" if (alt := (element.get("alt") or "").strip()) else "")
            else:
                pieces.append(("[" if _link(element) else "") + _flat(element.text))
            continue
        if tag in _BLOCKS or tag in ("li", "tr", "td", "th", "table"):
            yield from _flush(pieces, prefix)
            prefix = ""
            if tag in ("ul", "ol") and lists:
                lists.pop()
        elif link := _link(element):
            pieces.append(f"]({link})")
        pieces.append(_flat(element.tail))
    yield from _flush(pieces, prefix)


def _flush(pieces: list[str], prefix: str) -> Iterator[DocumentBlock]:
    text = tidy(re.sub(r"\n{2,}", "\n", "".join(pieces)))
    pieces.clear()
    text = re.sub(r"\[\]\([^)\s]*\)", "", text)
    if text.strip():
        yield DocumentBlock("text", prefix + text, follows=bool(prefix))


def _whole(tag: str, element: Any) -> Iterator[DocumentBlock]:
    if tag == "table":
        rows = [
            [_inner(cell) for cell in line if local_name(cell).lower() in ("td", "th")] for line in element.iter("tr")
        ]
        if text := table([one for one in rows if one]):
            yield DocumentBlock("table", text)
    elif tag == "pre":
        yield DocumentBlock("text", f"```\n{''.join(element.itertext()).strip(chr(10))}\n```")
    elif text := _inner(element):
        yield heading(text, _HEADINGS[tag])


def _inner(element: Any) -> str:
    for one in element.iter("script", "style"):
        one.text = ""
    return tidy(" ".join("".join(element.itertext()).split()))


def _flat(text: str | None) -> str:
    return re.sub(r"[ \t\r\n]+", " ", text or "")


def _link(element: Any) -> str:
    address = element.get("href") or "" if local_name(element).lower() == "a" else ""
    return address.strip() if address.startswith(("http://", "https://", "mailto:")) and " " not in address else ""
