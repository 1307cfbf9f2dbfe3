"""Strict mode, on where it can be and off with a reason where it cannot (T2, T10)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.dialects import dialect
from tests.dialects.raw import RawTool, objects, parameters

openai, anthropic = dialect("openai"), dialect("anthropic")
CLOSED = {"additionalProperties": False}


def test_optional_fields_take_null_and_all_are_required() -> None:
    schema = {
        **objects(
            path={"type": "string", "maxLength": 9},
            mode={"enum": ["r", "w"], "default": "r"},
            at={"anyOf": [{"type": "integer"}, {**objects(n={"type": "number"}), **CLOSED}]},
        ),
        **CLOSED,
        "required": ["path"],
    }
    exported = openai.export(RawTool(schema, strict=True))
    assert exported.definition["function"]["strict"] is True
    assert parameters(exported.definition) == snapshot(
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "At most 9 characters."},
                "mode": {
                    "enum": ["r", "w", None],
                    "type": ["string", "null"],
                    "description": 'Default: "r".',
                },
                "at": {
                    "anyOf": [
                        {"type": "integer"},
                        {
                            "type": "object",
                            "properties": {"n": {"type": ["number", "null"]}},
                            "additionalProperties": False,
                            "required": ["n"],
                        },
                        {"type": "null"},
                    ]
                },
            },
            "additionalProperties": False,
            "required": ["path", "mode", "at"],
        }
    )
    assert [str(loss) for loss in exported.losses] == snapshot(
        [
            "probe: maxLength at #/properties/path: moved into the description",
            "probe: default at #/properties/mode: moved into the description",
            "probe: required at #/properties/mode: optional; null means left out",
            "probe: required at #/properties/at/anyOf/1/properties/n: optional; null means left out",
            "probe: required at #/properties/at: optional; null means left out",
        ]
    )


def test_an_open_object_is_closed_and_reported() -> None:
    exported = openai.export(RawTool(objects(), strict=True))
    assert parameters(exported.definition) == {**objects(), **CLOSED, "required": []}
    assert [loss.keyword for loss in exported.losses] == ["additionalProperties"]


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {**objects(a=schema), **CLOSED, "required": ["a"]}
    return schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (objects(a={"type": "object"}), "this object may have fields that are not listed"),
        (
            objects(a={**objects(), "additionalProperties": {"type": "string"}}),
            "this object may have fields that are not listed",
        ),
        (objects(a={}), "any value is accepted here"),
        (objects(a={"type": "array"}), "the items of this array may be anything"),
        (objects(a={"enum": list(range(1001))}), "there are more than 1000 enum values"),
        (objects(**{f"p{i}": {"type": "string"} for i in range(5001)}), "there are more than 5000 fields"),
        (_nested(12), "objects and arrays are nested more than 10 deep"),
    ],
)
def test_what_cannot_be_strict_is_not_and_says_why(schema: dict[str, Any], why: str) -> None:
    exported = openai.export(RawTool(schema, strict=True))
    assert exported.definition["function"]["strict"] is False
    assert [loss.what for loss in exported.losses if loss.keyword == "strict"] == [f"strict mode is off: {why}"]


def test_anthropic_counts_optional_fields() -> None:
    schema = {**objects(**{f"p{i}": {"type": "string"} for i in range(25)}), **CLOSED}
    exported = anthropic.export(RawTool(schema, strict=True))
    assert "strict" not in exported.definition
    assert exported.losses[-1].what == "strict mode is off: there are more than 24 optional fields"
