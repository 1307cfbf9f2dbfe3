"""Undoes an escaping that a whole text went through on its way, as in JSON or HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BACKSLASHED = {
    "\\n": "\n",
    "\\t": "\t",
    "\\r": "\r",
    '\\"': '"',
    "\\'": "'",
    "\\\\": "\\",
}
_QUOTES = {'\\"': '"', "\\'": "'"}
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&apos;": "'", "&amp;": "&"}
_ALL = re.compile(r"\\[^\n]|&(?:lt|gt|quot|amp|apos|#39);")


def without_escapes(old: str, new: str) -> Iterator[tuple[str, str | None]]:
    """Each way to read both texts as escaped copies; no new text where it is not clear how that one is meant."""
    seen = {old}
    for table in (_BACKSLASHED, _QUOTES, _ENTITIES):
        used = _used(old, table)
        plain = _plain(old, table) if used else None
        if plain is not None and plain not in seen:
            seen.add(plain)
            yield plain, _new(new, table, used)


def _used(text: str, table: Mapping[str, str]) -> set[str]:
    return {found for found in _ALL.findall(text) if found in table}


def _plain(text: str, table: Mapping[str, str]) -> str | None:
    """The text unescaped; None when it also has something that the escaping would not have left as it is."""
    if table is _BACKSLASHED and any(found[0] == "\\" and found not in table for found in _ALL.findall(text)):
        return None
    if any(table[escape] in _ALL.sub("", text) for escape in _used(text, table)):
        return None
    return _ALL.sub(lambda match: table.get(match[0], match[0]), text)


def _whole_copy(used: set[str]) -> bool:
    """Whether the old text shows that everything was escaped, and not quotes alone."""
    return bool(used & {"\\n", "&lt;", "&gt;"})


def _new(new: str, table: Mapping[str, str], used: set[str]) -> str | None:
    escapes = _used(new, table)
    bare = _ALL.sub("", new)
    raw = {escape for escape in used if table[escape] in bare}
    if not escapes:
        return new
    if raw:
        # What the old text has escaped stands bare here, so this text was not escaped, if nothing speaks for it.
        return new if raw - escapes else None
    if not escapes <= used and not _whole_copy(used):
        return None
    return _plain(new, table)
