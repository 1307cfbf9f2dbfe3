"""Search over names, display names and descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.tool import description_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.tool import Tool

Indexed = list["tuple[Tool[Any], str, str]"]


def index(tools: Iterable[Tool[Any]]) -> Indexed:
    """Each tool with its name and its whole text in lower case."""
    rows: Indexed = []
    for tool in tools:
        name = f"{tool.name} {tool.display_name}".lower()
        text = description_of(tool).text
        rows.append((tool, name, f"{name} {text} {' '.join(tool.tags)} {tool.category}".lower()))
    return rows


def search(rows: Indexed, query: str, most: int) -> list[Tool[Any]]:
    """Tools that hold every word; a name that is the query comes first, then names, then descriptions."""
    words = query.lower().split()
    if not words:
        return []
    scored: list[tuple[int, int, Tool[Any]]] = []
    for position, (tool, name, text) in enumerate(rows):
        if all(word in text for word in words):
            if tool.name.lower() == query.lower().strip():
                score = 0
            elif tool.name.lower().startswith(words[0]):
                score = 1
            else:
                score = 2 + sum(word not in name for word in words)
            scored.append((score, position, tool))
    scored.sort(key=lambda row: row[:2])
    return [tool for _, _, tool in scored[:most]]
