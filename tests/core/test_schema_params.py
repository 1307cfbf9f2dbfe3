"""Reading arguments by a JSON Schema: parsing, defaults, canonical form (T3, P2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_params import SchemaParams


def load(schema: Any, text: str | bytes, **resources: Any) -> Any:
    return SchemaParams("do_it", schema, resources or None).load(text)


def refusal(schema: Any, text: str | bytes) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidParamsError) as caught:
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


def test_a_default_that_the_schema_does_not_accept_is_left_out():
    """T3: `{"type": "string", "default": null}` is common; a handler must not see that null."""
    schema = {"properties": {"a": {"type": "string", "default": None}, "b": {"type": "integer", "default": 1}}}
    assert load(schema, "{}") == {"b": 1}


def test_defaults_never_make_good_arguments_bad():
    schema = {"properties": {"a": {"default": 1}, "b": {"default": 2}}, "maxProperties": 1}
    assert load(schema, "{}") == {}
    assert load(schema, '{"c": 1}') == {"c": 1}


def test_a_missing_required_field_is_missing_although_it_has_a_default():
    schema = {"properties": {"a": {"default": 1}}, "required": ["a"]}
    assert refusal(schema, "{}") == [("a", "missing", "required, but missing")]


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


def test_format_is_a_note_not_a_rule():
    """Draft 2020-12 makes `format` an annotation; the tool itself knows best what it takes."""
    for draft in ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"):
        assert load({"$schema": draft, "format": "email"}, '"x"') == "x"
