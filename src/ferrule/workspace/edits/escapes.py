"""Undoes an escaping that a whole text went through on its way, as in JSON or HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES = {"<": "lt", ">": "gt", '"': "quot", "'": "apos", "&": "amp"}


@dataclass(slots=True, frozen=True)
class _Escaping:
    """What stands for what, and everything that looks like one of them."""

    table: Mapping[str, str]
    form: re.Pattern[str]

    def used(self, text: str) -> set[str]:
        return {found for found in self.form.findall(text) if found in self.table}

    def others(self, text: str) -> set[str]:
        """What looks like an escape here, and is none that is undone."""
        return {found for found in self.form.findall(text) if found not in self.table}

    def bare(self, text: str) -> str:
        return self.form.sub("", text)

    def plain(self, text: str) -> str | None:
        """The text unescaped; None when it also has something that the escaping would not have left as it is."""
        if self is _BACKSLASHED and self.others(text):
            return None
        bare = self.bare(text)
        if any(self.table[escape] in bare for escape in self.used(text)):
            return None
        return self.form.sub(lambda match: self.table.get(match[0], match[0]), text)


_BACKSLASHES = re.compile(r"\\[^\n]")
_QUOTES = _Escaping({'\\"': '"', "\\'": "'"}, _BACKSLASHES)
_BACKSLASHED = _Escaping({"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\", **_QUOTES.table}, _BACKSLASHES)
_ENTITIES = _Escaping(
    # By name, and by number as libraries write it: an apostrophe is `&#39;` in one and `&#x27;` in the next.
    {
        f"&{form};": plain
        for plain, name in _NAMES.items()
        for form in (name, f"#{ord(plain)}", f"#0{ord(plain)}", f"#x{ord(plain):x}", f"#x{ord(plain):X}")
    },
    re.compile(r"&(?:[A-Za-z][A-Za-z0-9]*|#[0-9]+|#[xX][0-9A-Fa-f]+);"),
)


def without_escapes(old: str, new: str) -> Iterator[tuple[str, str | None]]:
    """Each way to read both texts as escaped copies; no new text where it is not clear how that one is meant."""
    seen = {old}
    for escaping in (_BACKSLASHED, _QUOTES, _ENTITIES):
        used = escaping.used(old)
        plain = escaping.plain(old) if used else None
        if plain is not None and plain not in seen:
            seen.add(plain)
            yield plain, _new(old, new, escaping, used)


def _new(old: str, new: str, escaping: _Escaping, used: set[str]) -> str | None:
    escapes, bare = escaping.used(new), escaping.bare(new)
    raw = {escape for escape in used if escaping.table[escape] in bare}
    if not escapes:
        return new
    if raw:
        # What the old text has escaped stands bare here, so this text was not escaped, if nothing speaks for it.
        return new if raw - escapes else None
    if escaping is _ENTITIES:
        # Who escapes writes `&nbsp;` as `&amp;nbsp;`, so another one that is new was left as it is, or is meant.
        alike = escapes & used or any(escaping.table[escape] in "<>" for escape in used)
        return escaping.plain(new) if alike and escaping.others(new) <= escaping.others(old) else None
    if escaping is _BACKSLASHED and '"' in bare and '\\"' not in used:
        return None  # a copy as in JSON would have escaped it, and the old text has none to show whether this one did
    if not escapes <= used and "\\n" not in used:
        return None  # the old text does not show that everything was escaped, and not quotes alone
    return escaping.plain(new)
