"""Answers taken from a result word for word: a model too small to be trusted with facts picks the lines, no more."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.models.guided.grammar import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.core.result import ToolResult

_NUMBERED = re.compile(r"^\s*\d+\t")
_MOST_LINE = 200
_SHORT = 15  # lines: where it stops is no choice for a model that stops too soon


@dataclass(slots=True, frozen=True)
class Passages:
    """A result as lines to quote. Of a document's fields one line is an answer; of a text, lines in a row."""

    lines: tuple[str, ...]
    is_document: bool = False

    @property
    def grammar(self) -> str:
        """A grammar for what may be quoted. A short text is quoted to its end, and so is what a line announces."""
        rules: list[str] = []
        announced = len(self.lines) <= _SHORT
        for at, line in enumerate(self.lines):
            announced = announced or line.endswith(":")
            has_next = at + 1 < len(self.lines) and not self.is_document
            more = f' ( "\\n" p{at + 1} )' + ("" if announced else "?") if has_next else ""
            rules.append(f"p{at} ::= {literal(line)}{more}")
        starts = " | ".join(f"p{at}" for at in range(len(rules)))
        return f'root ::= ( {starts} ) "\\n\\n"\n' + "\n".join(rules) + "\n"


def passages_of(result: ToolResult, most_chars: int) -> Passages:
    """The lines of a result that a model is shown; an error is one, for half of it is worse than none."""
    if result.error is not None:
        return Passages((" ".join(f"{result.error.message} {result.error.suggestion or ''}".split()),))
    try:
        document = json.loads(result.llm_content)
    except ValueError:
        document = None
    if isinstance(document, dict):
        found = [result.display_content, *_fields(cast("dict[str, Any]", document))]
    else:
        found = [_NUMBERED.sub("", line).rstrip() for line in result.llm_content.splitlines()]
    lines = _bounded([line[:_MOST_LINE] for line in found if line.strip()], most_chars)
    return Passages(tuple(lines) or ("(nothing)",), isinstance(document, dict))


def _bounded(lines: list[str], most_chars: int) -> list[str]:
    kept: list[str] = []
    for at, line in enumerate(lines):
        most_chars -= len(line) + 1
        if most_chars < 0 and kept:
            return [*kept, f"… and {len(lines) - at:,} more lines"]
        kept.append(line)
    return kept


def _fields(document: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in document.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _fields(cast("dict[str, Any]", value), f"{name} ")
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            yield f"{name}: {', '.join(_plain(item) for item in items) or 'none'}"
        else:
            yield f"{name}: {_plain(value)}"


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
