"""Constraints as sentences that a model reads (T10)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.dialects import dialect
from ferrule.dialects.flatten import (
    ANNOTATIONS,
    KEEPS_BOOLEANS,
    ONE_SCHEMA,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    UNSPOKEN,
    brief,
    words,
)
from tests.dialects.raw import RawTool, objects

CONSTRAINTS: dict[str, Any] = {
    "const": "on",
    "default": 3,
    "deprecated": True,
    "dependentRequired": {"card": ["address"]},
    "enum": ["C", "F", None],
    "examples": ["Oslo", {"city": "Bergen"}],
    "exclusiveMaximum": 10,
    "exclusiveMinimum": 0.5,
    "format": "date-time",
    "if": {"type": "string"},
    "maxItems": 3,
    "maxLength": 80,
    "maxProperties": 1,
    "maximum": 1,
    "minItems": 1,
    "minLength": 1,
    "minProperties": 2,
    "minimum": -5,
    "multipleOf": 0.01,
    "not": {"type": "string"},
    "oneOf": [{"type": "string"}, {"type": "integer"}],
    "pattern": "^[A-Z]{3}$",
    "patternProperties": {"^x-": {"type": "string"}},
    "prefixItems": [{"type": "number"}],
    "propertyNames": {"maxLength": 8},
    "uniqueItems": True,
    "minContains": 2,
}


def test_each_constraint_has_its_sentence() -> None:
    assert "\n".join(f"{keyword}: {words(keyword, value)}" for keyword, value in CONSTRAINTS.items()) == snapshot("""\
const: Must be "on".
default: Default: 3.
deprecated: Deprecated.
dependentRequired: Fields that need others with them: {"card": ["address"]}.
enum: One of: "C", "F", null.
examples: Examples: "Oslo", {"city": "Bergen"}.
exclusiveMaximum: Less than 10.
exclusiveMinimum: More than 0.5.
format: Format: `date-time`.
if: If it fits {"type": "string"}, further rules apply.
maxItems: At most 3 items.
maxLength: At most 80 characters.
maxProperties: At most 1 field.
maximum: At most 1.
minItems: At least 1 item.
minLength: At least 1 character.
minProperties: At least 2 fields.
minimum: At least -5.
multipleOf: A multiple of 0.01.
not: Must not fit {"type": "string"}.
oneOf: Must fit exactly one of [{"type": "string"}, {"type": "integer"}].
pattern: Must match the regular expression `^[A-Z]{3}$`.
patternProperties: Fields whose names match a pattern: {"^x-": {"type": "string"}}.
prefixItems: Items in this order: [{"type": "number"}].
propertyNames: Field names must fit {"maxLength": 8}.
uniqueItems: Items must be unique.
minContains: minContains: 2.\
""")


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("default", None),
        ("deprecated", False),
        ("uniqueItems", False),
        ("x-order", 3),
        ("$comment", "for us"),
        ("$anchor", "here"),
        *((keyword, "x") for keyword in sorted(UNSPOKEN)),
    ],
)
def test_what_is_of_no_use_to_a_model_leaves_no_words(keyword: str, value: Any) -> None:
    assert words(keyword, value) == ""


def test_what_may_not_be_there_at_all_is_said_plainly() -> None:
    assert words("not", {}) == "Must be left out."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('a "quoted" \\ word\n', '"a \\"quoted\\" \\\\ word\\n"'),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        ([], "[]"),
        ({"a": [1, {"b": None}]}, '{"a": [1, {"b": null}]}'),
        ({1: (2,)}, '{"1": (tuple)}'),
        ([[[[[[[1]]]]]]], "[[[[[[…]]]]]]"),
        ([10**5000, -(10**300)], "[(a number of more than 300 digits), (a number of more than 300 digits)]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shown_as_short_json(value: Any, text: str) -> None:
    assert brief(value) == text


def test_words_are_short_however_long_the_value() -> None:
    deep: Any = "x" * 1000
    for _ in range(5000):
        deep = [deep, deep]
    assert len(words("enum", [deep] * 50)) < 400
    assert brief({"a": float("inf"), "b": object(), "c": None}) == '{"a": inf, "b": (object), "c": null}'


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
)


@given(st.sampled_from(sorted(CONSTRAINTS)) | st.text(st.characters()), ANYTHING)
def test_no_keyword_and_no_value_is_too_odd_for_words(keyword: str, value: Any) -> None:
    """T10: never a crash, and always one short line."""
    said = words(keyword, value)
    assert len(said) < 700
    assert said == "" or said.endswith(".")


@pytest.mark.parametrize("keyword", ["{x}", "{", "}", "{0.__class__}", "%s"])
def test_a_strangers_keyword_is_text_and_no_template(keyword: str) -> None:
    assert words(keyword, 1) == f"{keyword}: 1."
    definition = dialect("gemini").definition(RawTool(objects(a={"type": "string", keyword: 1})))
    assert definition["parametersJsonSchema"]["properties"]["a"]["description"] == f"{keyword}: 1."


def test_a_wide_value_is_not_written_out_before_it_is_cut() -> None:
    wide: Any = "x"
    for _ in range(6):
        wide = [wide] * 20
    started = time.process_time()
    assert brief(wide).startswith('[[[[[["x", "x"')
    assert time.process_time() - started < 0.5


def test_a_keyword_is_of_one_sort() -> None:
    sorts = [ONE_SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS, ANNOTATIONS]
    assert len(frozenset().union(*sorts)) == sum(map(len, sorts))
    assert KEEPS_BOOLEANS <= ONE_SCHEMA
