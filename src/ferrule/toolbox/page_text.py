"""What a web page says, as Markdown or plain text. Runs in a child: pages are written by strangers."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def readable_page(order: dict[str, Any], data: bytes = b"") -> dict[str, str]:
    """The page's title and text: `format` is "markdown" or "text", `url` is what its links start from."""
    html: Any = import_module("lxml.html")
    parser = html.HTMLParser(encoding=_charset(order["charset"], data), remove_comments=True, huge_tree=False)
    try:
        tree: Any = html.document_fromstring(data, parser=parser)
    except (import_module("lxml.etree").LxmlError, ValueError):  # nothing in it
        return {"title": "", "text": ""}
    title = " ".join((tree.findtext(".//title") or "").split())
    text = _markdown(tree, order["url"]) if order["format"] == "markdown" else ""
    return {"title": title, "text": text or _plain(tree)}


def _charset(declared: str, data: bytes) -> str | None:
    """The server's word, else the page's own, else UTF-8 where it fits: without a word libxml2 takes Latin-1."""
    import codecs
    import re

    found = re.search(rb"<meta[^>]{0,200}charset=[\"']?([A-Za-z0-9_:.-]{1,40})", data[:4096], re.IGNORECASE)
    for name in (declared, found[1].decode() if found else "", "utf-8"):
        try:
            known = codecs.lookup(name).name if name else ""
            if known:
                data[:100_000].decode(known, "ignore" if known != "utf-8" or name != "utf-8" else "strict")
                return known
        except (LookupError, UnicodeDecodeError):
            continue
    return None


def _markdown(tree: Any, url: str) -> str:
    """The part of the page that is meant to be read; empty where none can be told from the rest."""
    from copy import deepcopy

    found: str | None = import_module("trafilatura").extract(
        deepcopy(tree), url=url, output_format="markdown", include_links=True, include_formatting=True,
        include_tables=True, include_comments=False, favor_recall=True,
    )  # fmt: skip
    return found or ""


_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figure", "footer", "form",
    "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section",
    "table", "td", "th", "tr", "ul",
})  # fmt: skip
_SILENT = ("script", "style", "noscript", "template", "svg", "head")


def _plain(tree: Any) -> str:
    """All text of the page, a line for each block."""
    for node in list(tree.iter(*_SILENT)):
        if node.getparent() is not None:
            node.drop_tree()
    for node in tree.iter(*_BLOCKS):
        node.text = f"\n{node.text or ''}"
        node.tail = f"\n{node.tail or ''}"
    lines = (" ".join(line.split()) for line in tree.text_content().split("\n"))
    return "\n".join(line for line in lines if line)
