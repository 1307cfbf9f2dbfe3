"""Problems and how values are shown in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import InvalidParams, Problem
from ferrule.core.problems import format_path, got, json_type, not_json, show


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "arguments"),
        (("a",), "a"),
        (("items", 2, "price"), "items[2].price"),
        ((0, 1), "[0][1]"),
        (("a", "b", 0), "a.b[0]"),
    ],
)
def test_a_place_is_written_as_a_model_would_write_it(path: tuple[Any, ...], text: str) -> None:
    assert format_path(path) == text
    assert Problem(path, "type", "x").where == text


@pytest.mark.parametrize(
    ("value", "shown", "said"),
    [
        ("x", '"x"', 'string "x"'),
        ('a"b\\c\nd', '"a\\"b\\\\c\\nd"', 'string "a\\"b\\\\c\\nd"'),
        (5, "5", "integer 5"),
        (1.5, "1.5", "number 1.5"),
        (True, "true", "true"),
        (None, "null", "null"),
        ({}, "an empty object", "an empty object"),
        ({"a": 1}, "an object", "an object"),
        ([], "an empty array", "an empty array"),
        ([1], "an array", "an array"),
        (10**100, "a number of more than 60 digits", "integer a number of more than 60 digits"),
        (object(), "object", "object object"),
    ],
)
def test_values_are_shown_in_json_words(value: Any, shown: str, said: str) -> None:
    assert show(value) == shown
    assert got(value) == said


@given(st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_nothing_shown_is_ever_long(value: Any) -> None:
    assert len(show(value)) <= 130
    assert "\n" not in show(value)


def test_types_have_their_json_names() -> None:
    names = [json_type(value) for value in ("", True, 1, 1.0, {}, [], None, set())]
    assert names == ["string", "boolean", "integer", "number", "object", "array", "null", "set"]


def test_invalid_params_carry_everything_and_read_as_one_line() -> None:
    invalid = InvalidParams([Problem(("a",), "type", "bad"), Problem((), "value", "worse")], {"a": 1})
    assert str(invalid) == "a: bad; arguments: worse"
    assert invalid.value == {"a": 1}


def test_half_a_surrogate_pair_is_explained() -> None:
    assert "half of a surrogate pair?" in not_json("unexpected end of hex escape").message
    assert not_json("EOF").message == "they are not valid JSON: EOF"
