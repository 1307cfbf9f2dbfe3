"""Reading arguments by a JSON Schema: parsing, defaults, canonical form, and bad schemas (T3, T4, P2)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.core.errors import DefinitionError
from ferrule.core.problems import InvalidParams
from ferrule.core.schema_params import SchemaParams


def load(schema: Any, text: str | bytes, **resources: Any) -> Any:
    return SchemaParams("do_it", schema, resources or None).load(text)


def refusal(schema: Any, text: str | bytes) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidParams) as caught:
        load(schema, text)
    return [(problem.where, problem.code, problem.message) for problem in caught.value.problems]


# Parsing


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", '{"a": NaN}', "[Infinity]", '"\\ud800"', b'"\xff"', "{} {}"])
def test_what_is_not_json_is_said_to_be_none(text: str | bytes):
    """P2: arguments that are not JSON."""
    assert [code for _, code, _ in refusal(True, text)] == ["json"]


def test_numbers_that_nothing_can_hold_are_refused():
    """P2: 1e400 would silently become infinity, which is not JSON."""
    assert refusal(True, '{"a": [1, 1e400], "b": -1e999, "c": 1' + "0" * 500 + "}") == snapshot(
        [
            ("a[1]", "limit", "a number too large for JSON; the largest is about 1.8e308"),
            ("b", "limit", "a number too large for JSON; the largest is about 1.8e308"),
            ("c", "limit", "a number of more than 400 digits"),
        ]
    )
    assert refusal(True, "1" * 5000)[0][1] == "limit"
    assert load(True, "1" + "0" * 399) == 10**399
    assert load(True, "1.7976931348623157e308") == 1.7976931348623157e308


def test_nesting_without_end_is_refused():
    assert refusal(True, "[" * 300 + "]" * 300)[0][1] == "limit"
    assert load(True, "[" * 150 + "]" * 150)


@pytest.mark.parametrize("text", ["1", "null", "[]", '"x"'])
def test_arguments_may_be_any_value_the_schema_accepts(text: str):
    assert load(True, text) == json.loads(text)


# Defaults

OPTIONS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "default": 10},
        "where": {
            "type": "object",
            "properties": {"city": {"type": "string", "default": "Oslo"}, "zip": {"type": "string"}},
        },
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
    },
    "$defs": {"Row": {"type": "object", "properties": {"height": {"type": "number", "default": 1.5}}}},
}


def test_defaults_are_filled_in_at_every_depth():
    """T3: defaults live in the schema and are filled in."""
    assert load(OPTIONS, "{}") == {"limit": 10}
    assert load(OPTIONS, '{"where": {}, "rows": [{}, {"height": 2}]}') == {
        "where": {"city": "Oslo"},
        "rows": [{"height": 1.5}, {"height": 2}],
        "limit": 10,
    }
    assert load(OPTIONS, '{"limit": 3}') == {"limit": 3}


def test_a_filled_in_default_belongs_to_one_call_alone():
    params = SchemaParams("do_it", {"properties": {"tags": {"default": []}}})
    params.load("{}")["tags"].append("x")
    assert params.load("{}") == {"tags": []}


def test_an_object_that_is_filled_in_gets_its_own_defaults():
    schema = {"properties": {"page": {"default": {}, "properties": {"size": {"default": 20}}}}}
    assert load(schema, "{}") == {"page": {"size": 20}}


def test_a_default_that_the_schema_does_not_accept_is_left_out():
    """T3: `{"type": "string", "default": null}` is common; a handler must not see that null."""
    schema = {"properties": {"a": {"type": "string", "default": None}, "b": {"type": "integer", "default": 1}}}
    assert load(schema, "{}") == {"b": 1}


def test_defaults_never_make_good_arguments_bad():
    schema = {"properties": {"a": {"default": 1}, "b": {"default": 2}}, "maxProperties": 1}
    assert load(schema, "{}") == {}
    assert load(schema, '{"c": 1}') == {"c": 1}


def test_a_default_below_a_combinator_is_left_alone():
    schema = {
        "anyOf": [{"properties": {"a": {"default": 1}}}],
        "if": True,
        "then": {"properties": {"b": {"default": 2}}},
    }
    assert load(schema, "{}") == {}


def test_two_parts_that_disagree_on_a_default_give_none():
    schema = {
        "$ref": "#/$defs/other",
        "properties": {"a": {"default": 1}, "b": {"default": 5}},
        "$defs": {"other": {"properties": {"a": {"default": 2}, "b": {"default": 5}}}},
    }
    assert load(schema, "{}") == {"b": 5}


def test_a_default_that_contains_itself_ends():
    assert load({"properties": {"a": {"$ref": "#", "default": {}}}}, "{}") == {"a": {}}


def test_a_missing_required_field_is_missing_although_it_has_a_default():
    schema = {"properties": {"a": {"default": 1}}, "required": ["a"]}
    assert refusal(schema, "{}") == [("a", "missing", "required, but missing")]


def test_defaults_cannot_blow_arguments_up():
    schema = {"items": {"properties": {"a": {"default": list(range(1000))}}}}
    assert refusal(schema, json.dumps([{}] * 1000))[0][:2] == ("arguments", "limit")


# Canonical form

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ANYTHING = SchemaParams("do_it", True)


@given(JSON)
def test_equal_arguments_give_equal_bytes(value: Any):
    """P7: a cache and a permission rule rely on one form for the same arguments."""
    text = json.dumps(value)
    turned = json.dumps(turn_round(value))
    dumped = ANYTHING.dump(ANYTHING.load(text))
    assert dumped == ANYTHING.dump(ANYTHING.load(turned))
    assert ANYTHING.load(dumped) == ANYTHING.load(text)


def turn_round(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: turn_round(value[key]) for key in reversed(value)}
    return [turn_round(item) for item in value] if isinstance(value, list) else value


def test_flat_size_counts_the_keys_only_where_that_is_certain():
    plain = SchemaParams("do_it", True)
    assert plain.flat_size(plain.load('{"a": 1, "b": "x"}')) == 2
    assert plain.flat_size(plain.load('{"a": {"b": 1}}')) is None
    assert plain.flat_size(plain.load("[1]")) is None
    defaulted = SchemaParams("do_it", {"properties": {"a": {"default": 1}}})
    assert defaulted.flat_size(defaulted.load("{}")) is None


# Schemas that cannot work


@pytest.mark.parametrize(
    "schema", [[], "string", None, {"enum": {1}}, {"const": float("nan")}, {"x": "\ud800"}, {1: object()}]
)
def test_what_could_be_no_schema_is_refused_at_definition(schema: Any):
    """T4: what costs nothing to see is said at once."""
    with pytest.raises(DefinitionError, match="do_it"):
        SchemaParams("do_it", schema)


def test_a_schema_in_a_circle_too_deep_or_too_large_is_refused_at_definition():
    circle: dict[str, Any] = {}
    circle["not"] = circle
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"not": deep}
    for schema in (circle, deep, {"enum": ["x" * 100] * 30_000}):
        with pytest.raises(DefinitionError):
            SchemaParams("do_it", schema)


def broken(schema: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        SchemaParams("do_it", schema).compile()
    return str(caught.value)


def test_what_only_compiling_shows_is_said_in_words():
    """T4: the author learns what is wrong, and where."""
    assert [
        broken({"properties": {"a": {"type": "strin"}}}),
        broken({"properties": {"a": {"pattern": "(("}}}),
        broken({"properties": {"a": {"$ref": "#/$defs/b"}}}),
        broken({"$schema": "https://example.org/mine"}),
        broken({"required": "a"}),
        broken({"allOf": [{"$ref": "#"}]}),
    ] == snapshot(
        [
            '`do_it`: its schema is not a valid JSON Schema. properties.a.type: must be "array", "boolean", "integer", "null", "number", "object" or "string"; got string "strin".',
            '`do_it`: its schema is not a valid JSON Schema. properties.a.pattern: should be a valid regex; got string "((".',
            "`do_it`: its schema refers to '#/$defs/b', which is not there.",
            "`do_it`: its `$schema` is 'https://example.org/mine', which is not known. Hand that document over in `resources`.",
            '`do_it`: its schema is not a valid JSON Schema. required: expected array, got string "a".',
            "`do_it`: a part of the schema refers to itself without going deeper into the value",
        ]
    )


def test_a_document_from_elsewhere_is_used_only_when_handed_over():
    schema = {"properties": {"city": {"$ref": "https://example.org/city"}}}
    assert "never fetched" in broken(schema)
    params = SchemaParams("do_it", schema, {"https://example.org/city": {"type": "string"}})
    assert params.load('{"city": "Oslo"}') == {"city": "Oslo"}
    with pytest.raises(InvalidParams, match="expected string"):
        params.load('{"city": 1}')


def test_an_older_draft_is_read_by_its_own_rules():
    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
    }
    assert load(old, "2") == 2
    assert refusal(old, "1")[0][1] == "range"
    tuples = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert refusal(tuples, '["a", 1]') == [("arguments", "length", "should have at most 1 item, not 2")]


def test_format_is_a_note_not_a_rule():
    """Draft 2020-12 makes `format` an annotation; the tool itself knows best what it takes."""
    for draft in ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"):
        assert load({"$schema": draft, "format": "email"}, '"x"') == "x"
