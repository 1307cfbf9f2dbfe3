"""Names of files as a model reads them: one line each, and never bytes that no encoder takes."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def decoded(name: bytes) -> str:
    """The name as text. Bytes that are not UTF-8 become U+FFFD."""
    return name.decode(errors="replace")


def one_line(name: str) -> str:
    """The name as it is shown in a list: in quotes, as JSON writes it, where it would break the line."""
    if name.isprintable() or not any(unicodedata.category(one) in ("Cc", "Zl", "Zp") for one in name):
        return name
    return json.dumps(name, ensure_ascii=False)


def about_names(names: Iterable[str]) -> list[str]:
    """What must be said of names that are not shown as they are."""
    strange = sum("\ufffd" in name for name in names)
    if not strange:
        return []
    noun, verb = ("name", "is") if strange == 1 else ("names", "are")
    return [f"{strange} {noun} {verb} not UTF-8: � stands for the bytes that cannot be shown."]


# How many of something, in words.


def amount(number: int, what: str) -> str:
    """`1 line`, `1,200 lines`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
