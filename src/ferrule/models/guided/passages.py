"""Answers taken from a result word for word: a model too small to be trusted with facts picks the lines, no more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from ferrule.models.guided.grammar import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.core.result import ToolResult

_NUMBERED = re.compile(r"^\s*\d+\t")
_MOST_LINE = 200


def lines_of(result: ToolResult, most_chars: int) -> list[str]:
    """The lines of a result that a model is shown; fields of a JSON document become lines too."""
    if result.error is not None:
        text = [result.error.message, *([result.error.suggestion] if result.error.suggestion else [])]
        return [line for part in text for line in part.splitlines() if line.strip()]
    try:
        document = json.loads(result.llm_content)
    except ValueError:
        document = None
    if isinstance(document, dict):
        found = list(_fields(cast("dict[str, Any]", document)))
    else:
        found = [_NUMBERED.sub("", line).rstrip() for line in result.llm_content.splitlines()]
    return _bounded([line[:_MOST_LINE] for line in found if line.strip()], most_chars)


def passage_grammar(lines: list[str]) -> str:
    """A grammar for some lines in a row, as they stand."""
    rules = [
        f"p{at} ::= {literal(line)}" + (f' ( "\\n" p{at + 1} )?' if at + 1 < len(lines) else "")
        for at, line in enumerate(lines)
    ]
    return f'root ::= ( {" | ".join(f"p{at}" for at in range(len(lines)))} ) "\\n\\n"\n' + "\n".join(rules) + "\n"


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
