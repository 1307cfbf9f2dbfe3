"""What MCP is promised of a tool's results is what every result will keep (T10, O7)."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings

from ferrule.dialects import dialect
from ferrule.dialects.mcp import output_object
from tests.dialects.raw import RawTool, objects
from tests.dialects.strategies import Maker, seeds

mcp = dialect("mcp")


def wrapped(inner: dict[str, Any], **outer: Any) -> dict[str, Any]:
    return {**objects(result=inner), "required": ["result"], **outer}


@pytest.mark.parametrize(
    ("returns", "promised"),
    [
        (objects(), objects()),
        ({"type": "integer"}, {**objects(result={"type": "integer"}), "required": ["result"]}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ({"anyOf": [{"type": "integer"}, objects()]}, None),
        ({}, None),
        (
            {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {}}},
            {
                **objects(result={"type": "array", "items": {"$ref": "#/$defs/A"}}),
                "required": ["result"],
                "$defs": {"A": {}},
            },
        ),
        ({"type": "array", "items": {"$ref": "#"}}, None),
    ],
)
def test_only_what_every_result_will_keep_is_promised(returns: Any, promised: Any) -> None:
    class Typed(RawTool):
        @property
        def output_schema(self) -> Any:
            return returns

    exported = mcp.export(Typed(objects()))
    assert exported.definition.get("outputSchema") == promised
    assert (promised is None) == any(loss.keyword == "outputSchema" for loss in exported.losses)


@pytest.mark.parametrize(
    ("returns", "promised"),
    [
        ({"type": ["string", "integer"]}, wrapped({"type": ["string", "integer"]})),
        ({"type": ["object", "string"]}, None),
        ({"type": "null"}, None),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}, "an object"),
        ({"oneOf": [{"type": "object"}, {"$ref": "#/$defs/A"}], "$defs": {"A": objects()}}, "an object"),
        ({"anyOf": [{"type": "string"}, {}]}, None),
        ({"$ref": "#/$defs/gone"}, None),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, None),
        ({"$ref": "https://example.org/a"}, None),
    ],
)
def test_references_and_unions_are_followed_to_the_types_behind_them(returns: Any, promised: Any) -> None:
    expected = {**returns, "type": "object"} if promised == "an object" else promised
    assert output_object(returns) == expected


def test_what_belongs_to_the_root_stays_at_the_root() -> None:
    """An `$id` inside the wrapper would turn `#/$defs/A` into a reference that leads nowhere."""
    draft = "http://json-schema.org/draft-07/schema#"
    schema = {
        "$schema": draft,
        "$id": "https://example.org/names",
        "type": "array",
        "items": {"$ref": "#/$defs/A"},
        "$defs": {"A": {"type": "string"}},
    }
    promised = output_object(schema)
    assert promised == wrapped(
        {"type": "array", "items": {"$ref": "#/$defs/A"}}, **{"$schema": draft, "$defs": {"A": {"type": "string"}}}
    )
    assert promised is not None
    validator = jsonschema_rs.validator_for(promised)
    assert validator.is_valid({"result": ["a"]})
    assert not validator.is_valid({"result": [1]})


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_a_schema_that_means_itself_by_its_root_is_not_wrapped(keyword: str) -> None:
    assert output_object({"type": "array", "items": {keyword: "#"}}) is None


@pytest.mark.parametrize(
    "junk",
    [
        {"type": [{}]},
        {"type": ["string", 5]},
        {"type": 5},
        {"type": []},
        {"anyOf": 5},
        {"anyOf": [5, None]},
        {"oneOf": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/a", "$defs": []},
        {"$ref": "#/$defs/a", "$defs": {"a": 5}},
        {"$ref": 5},
    ],
)
def test_a_strangers_nonsense_promises_nothing(junk: Any) -> None:
    """T10: never a crash."""
    assert output_object(junk) is None


def test_nesting_without_end_promises_nothing() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5_000):
        schema = {"anyOf": [schema]}
    assert output_object(schema) is None


@settings(max_examples=200, deadline=None)
@given(seed=seeds)
def test_every_result_keeps_what_was_promised(seed: int) -> None:
    """O7: as results are written, objects plain and all else in `result`."""
    maker = Maker(seed)
    schema = {**_as_dict(maker._node(2)), "$defs": maker.schema()["$defs"]}
    promised = output_object(schema)
    if promised is None:
        return
    assert promised["type"] == "object"
    for value in [maker.value(schema, schema) for _ in range(8)]:
        if jsonschema_rs.Draft202012Validator(schema).is_valid(value):
            written = value if isinstance(value, dict) else {"result": value}
            assert jsonschema_rs.Draft202012Validator(promised).is_valid(written)


def _as_dict(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {}
