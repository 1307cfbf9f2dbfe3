"""Defaults are filled in where it is clear that they are meant (T3)."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core import schema_params as schema_defaults
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_params import MAX_FILLED, Defaults, SchemaParams, TooManyDefaults


def load(schema: Any, text: str) -> Any:
    return SchemaParams("do_it", schema).load(text)


def refusal(schema: Any, text: str) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidParamsError) as caught:
        load(schema, text)
    return [(problem.where, problem.code, problem.message) for problem in caught.value.problems]


def fill(schema: Any, value: Any) -> Any:
    return Defaults(schema).fill(value)[0]


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


def test_defaults_cannot_blow_arguments_up():
    schema = {"items": {"properties": {"a": {"default": list(range(1000))}}}}
    assert refusal(schema, json.dumps([{}] * 1000))[0][:2] == ("arguments", "limit")


def test_it_says_where_it_filled_in() -> None:
    schema = {"properties": {"a": {"default": 1}, "rows": {"items": {"properties": {"b": {"default": {"c": 2}}}}}}}
    value = {"rows": [{}, {"b": 0}]}
    filled, places = Defaults(schema).fill(value)
    assert filled == {"a": 1, "rows": [{"b": {"c": 2}}, {"b": 0}]}
    assert sorted(places, key=str) == [("a",), ("rows", 0, "b")]


def test_a_place_that_is_to_be_left_stays_empty() -> None:
    schema = {"properties": {"a": {"default": 1}, "b": {"default": 2}}}
    assert Defaults(schema, frozenset({("a",)})).fill({}) == ({"b": 2}, [("b",)])


def test_where_nothing_is_missing_the_value_itself_comes_back() -> None:
    schema = {"properties": {"a": {"default": 1}, "rows": {"items": {"properties": {"b": {"default": 2}}}}}}
    value = {"a": None, "rows": [{"b": 1}, 5, []]}
    assert fill(schema, value) is value


@pytest.mark.parametrize("value", [None, 1, "x", [], [{}], True])
def test_what_is_no_object_has_no_fields_to_fill(value: Any) -> None:
    assert fill({"properties": {"a": {"default": 1}}}, value) is value


@pytest.mark.parametrize(
    ("ref", "filled"),
    [
        ("#/$defs/Row", True),
        ("#/$defs/a~1b", True),
        ("#/$defs/a%20b", True),
        ("#/$defs/t~0t", True),
        ("#/$defs/gone", False),
        ("#/$defs/Row/properties/x/gone", False),
        ("https://example.org/Row", False),
        ("#anchor", False),
        (5, False),
    ],
)
def test_only_local_references_are_followed(ref: Any, filled: bool) -> None:
    row = {"properties": {"x": {"default": 1}}}
    schema = {"$ref": ref, "$defs": {"Row": row, "a/b": row, "a b": row, "t~t": row}}
    assert fill(schema, {}) == ({"x": 1} if filled else {})


def test_a_reference_does_not_reach_into_a_document_of_its_own() -> None:
    """An `$id` inside moves the root that `#` means."""
    inner = {"properties": {"x": {"default": 1}}}
    schema = {"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$id": "x", "$defs": {"b": inner}}}}
    assert fill(schema, {}) == {}


@pytest.mark.parametrize(
    "keyword", ["anyOf", "oneOf", "allOf", "if", "then", "else", "not", "dependentSchemas", "contains"]
)
def test_what_applies_only_sometimes_fills_in_nothing(keyword: str) -> None:
    inner = {"properties": {"x": {"default": 1}}}
    parts: Any = [inner] if keyword.endswith("Of") else {"x": inner} if keyword == "dependentSchemas" else inner
    assert fill({keyword: parts}, {}) == {}


def test_fields_beside_the_listed_ones_have_defaults_too() -> None:
    schema = {"properties": {"a": {}}, "additionalProperties": {"properties": {"x": {"default": 1}}}}
    assert fill(schema, {"a": {}, "b": {}}) == {"a": {}, "b": {"x": 1}}


def test_the_items_of_a_tuple_are_not_those_of_a_list() -> None:
    row = {"properties": {"x": {"default": 1}}}
    assert fill({"prefixItems": [{}], "items": row}, [{}, {}]) == [{}, {}]
    assert fill({"items": row}, [{}, {}]) == [{"x": 1}, {"x": 1}]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 5},
        {"properties": {"a": True, "b": 5, "c": None}},
        {"items": [{"properties": {"x": {"default": 1}}}]},
        {"$ref": "#"},
        {"$ref": "#/properties", "properties": {"$ref": "#"}},
        {"additionalProperties": False},
        True,
        None,
    ],
)
def test_a_strange_schema_fills_in_nothing_and_breaks_nothing(schema: Any) -> None:
    value = {"a": {}, "rows": [{}]}
    assert fill(schema, value) is value


def test_a_default_may_not_multiply_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: two fields that each hold two more, to any depth."""
    monkeypatch.setattr(schema_defaults, "MAX_FILLED", 1_000)
    steps: dict[str, Any] = {
        f"s{n}": {"properties": {key: {"$ref": f"#/$defs/s{n + 1}", "default": {}} for key in "ab"}} for n in range(40)
    }
    schema = {"$ref": "#/$defs/s0", "$defs": {**steps, "s40": {}}}
    with pytest.raises(TooManyDefaults):
        fill(schema, {})
    assert refusal(schema, "{}") == [
        ("arguments", "limit", "too many defaults would have to be filled in. Send less at once")
    ]


def test_as_many_as_allowed_are_filled_in() -> None:
    schema = {"properties": {"a": {"default": [0] * (MAX_FILLED - 1)}}}
    assert len(fill(schema, {})["a"]) == MAX_FILLED - 1
    schema["properties"]["a"]["default"].append(0)
    with pytest.raises(TooManyDefaults):
        fill(schema, {})


def test_references_to_one_another_do_not_multiply_at_every_level() -> None:
    """P6: sixteen definitions that each describe the same field would be 16^n parts at level n."""
    steps: dict[str, Any] = {
        f"s{n}": {"$ref": f"#/$defs/s{n + 1}", "properties": {"a": {"$ref": "#/$defs/s0"}}} for n in range(15)
    }
    steps["s15"] = {"properties": {"a": {"$ref": "#/$defs/s0"}, "b": {"default": 1}}}
    value: Any = {"b": 0}
    for _ in range(8):
        value = {"a": value, "b": 0}
    started = time.process_time()
    assert fill({"$ref": "#/$defs/s0", "$defs": steps}, value) is value
    assert time.process_time() - started < 1


KEYS = st.sampled_from(["a", "b", "c"])
SCHEMAS = st.recursive(
    st.sampled_from(
        [{}, {"default": 1}, {"default": {}}, {"default": {"a": {}}}, {"$ref": "#"}, {"$ref": "#", "default": {}}]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"properties": st.dictionaries(KEYS, inner, max_size=3)}),
        st.fixed_dictionaries({"properties": st.dictionaries(KEYS, inner, max_size=3), "default": st.just({})}),
        st.fixed_dictionaries({"additionalProperties": inner}),
        st.fixed_dictionaries({"items": inner}),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.integers(0, 5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def keeps(filled: Any, value: Any) -> bool:
    """Whether everything that was given is still there, in its place."""
    if isinstance(value, dict):
        return isinstance(filled, dict) and all(key in filled and keeps(filled[key], one) for key, one in value.items())
    if isinstance(value, list):
        return isinstance(filled, list) and len(filled) == len(value) and all(map(keeps, filled, value))
    return filled == value


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, VALUES)
def test_what_was_given_is_kept_and_nothing_given_is_changed(schema: Any, value: Any) -> None:
    """T3: a default never takes the place of something a model sent."""
    before, said = deepcopy(value), json.dumps(schema)
    filled, places = Defaults(schema).fill(value)
    assert keeps(filled, before)
    assert value == before
    assert json.dumps(schema) == said
    assert (filled is value) == (not places)
