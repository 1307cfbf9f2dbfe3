"""One tool in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferrule.cli.tools import type_of

if TYPE_CHECKING:
    from .conftest import Command


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"enum": ["a", 1]}, '"a" | 1'),
        ({"const": "a"}, '"a"'),
        ({"type": "array", "items": {"type": "number"}}, "array of number"),
        ({"$ref": "#/$defs/Colour"}, '"red"'),
        ({"$ref": "#/$defs/Point"}, "Point"),
        ({}, "anything"),
    ],
)
def test_a_type_in_a_few_words(described: dict[str, Any], words: str) -> None:
    definitions = {"Colour": {"enum": ["red"]}, "Point": {"type": "object", "properties": {"x": {}}}}
    assert type_of(described, {"$defs": definitions}) == words


def test_an_exact_name_shows_the_tool_and_call_says_so(ferrule: Command) -> None:
    (ferrule.folder / "tools" / "more.py").write_text(TOOL)
    done = ferrule("tools", "paint_wall")
    assert done.out.splitlines()[0] == "paint_wall 2.0.0 (write)"
    assert "Paint a wall." in done.out
    assert "  colour: string, required\n      Which colour.\n" in done.out
    assert "  coats: integer, default 2\n" in done.out
    assert ferrule("tools", "paint").out.splitlines()[0].startswith("NAME")
    assert "takes no parameters" in ferrule("tools", "fail_politely").out
    assert "`ferrule tools TOOL`" in ferrule("call", "--help").out


TOOL = '''
from typing import Annotated
from pydantic import Field
from ferrule import tool

@tool(kind="write", version="2.0.0")
def paint_wall(colour: Annotated[str, Field(description="Which colour.")], coats: int = 2) -> str:
    """Paint a wall. Use this for walls."""
    return colour
'''
