"""What an edit comes to: pieces of the text and what takes their place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Rung(StrEnum):
    """How far the text in the file may differ from the text that was asked for, from not at all downwards."""

    EXACT = "exact"
    LINE_ENDS = "line endings or trailing space"
    INDENTATION = "indentation"
    TYPOGRAPHY = "typography"
    LINE_NUMBERS = "line numbers"
    ESCAPED = "escaped"


@dataclass(slots=True, frozen=True)
class Span:
    """Characters `start` to `end` give way to `replacement`."""

    start: int
    end: int
    replacement: str


@dataclass(slots=True, frozen=True)
class Found:
    """Where an edit goes, which rung of the ladder found it, and what to tell about that (empty when exact)."""

    spans: list[Span]
    rung: Rung
    note: str = ""


def apply_spans(text: str, spans: Iterable[Span]) -> str:
    """The text with every span replaced; spans are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], span.replacement)
        at = span.end
    parts.append(text[at:])
    return "".join(parts)
