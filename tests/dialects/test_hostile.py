"""Schemas from strangers: exported quickly, or not at all, but never with a crash (T10)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ferrule.dialects import KNOWN, dialect
from tests.dialects.raw import RawTool, objects


def _deep(levels: int, keyword: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {
            "type": "object",
            keyword: {"a": schema} if keyword == "properties" else [schema, {"type": "object"}],
        }
    return schema


_CLOSED = {"additionalProperties": False}
HOSTILE: dict[str, Any] = {
    "deep": _deep(2000, "properties"),
    "deep anyOf": _deep(2000, "anyOf"),
    "deep allOf": _deep(2000, "allOf"),
    "wide": objects(**{f"p{i}": {"type": "string", "minLength": 1} for i in range(5000)}),
    "many forms": {"anyOf": [objects(**{f"p{i}_{j}": {"type": "string"} for j in range(50)}) for i in range(200)]},
    "one field, many forms": {"oneOf": [{**objects(kind={"const": i}), **_CLOSED} for i in range(3000)]},
    "a bomb": {
        "$ref": "#/$defs/L0",
        "$defs": {
            **{f"L{i}": objects(**{k: {"$ref": f"#/$defs/L{i + 1}"} for k in "abcdefgh"}) for i in range(20)},
            "L20": {"type": "string"},
        },
    },
    "itself": {"$ref": "#"},
    "itself twice": {
        "type": "object",
        "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}},
        "allOf": [{"$ref": "#"}],
    },
    "junk": {
        "type": [5],
        "required": "a",
        "properties": {
            "a": {"enum": 5, "format": [], "pattern": 7, "minItems": "x"},
            "b": {"type": {}, "items": []},
        },
        "anyOf": [{"required": [1]}, 5, None],
        "description": 9,
    },
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", [name for name in KNOWN if name != "mcp"])
def test_a_hostile_schema_is_quick_and_never_a_crash(name: str, kind: str) -> None:
    for strict in (False, True):
        started = time.process_time()
        exported = dialect(name).export(RawTool(HOSTILE[kind], strict=strict))
        assert time.process_time() - started < 2.0
        assert len(json.dumps(exported.definition)) < 3_000_000
        assert exported.losses or kind == "wide"
