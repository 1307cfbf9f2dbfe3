"""The part of a JSON Schema that describes one place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.schemas import resolve, schema_at

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "map": {"type": "object", "additionalProperties": {"type": "number"}},
        "open": {"type": "object", "additionalProperties": True},
        "loop": {"$ref": "#/$defs/Loop"},
        "gone": {"$ref": "#/$defs/Nowhere"},
    },
    "$defs": {
        "Item": {"type": "object", "properties": {"price": {"type": "number"}}},
        "Loop": {"$ref": "#/$defs/Loop"},
    },
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), "object"),
        (("items",), "array"),
        (("items", 3), "object"),
        (("items", 3, "price"), "number"),
        (("maybe", "price"), "number"),
        (("map", "anything"), "number"),
    ],
)
def test_a_place_is_found(path: tuple[Any, ...], expected: str) -> None:
    assert schema_at(path, SCHEMA)["type"] == expected


@pytest.mark.parametrize(
    "path", [("nothing",), ("items", 0, "nothing"), ("either", "x"), ("open", "x"), ("loop",), ("gone",), (5,)]
)
def test_what_is_not_clear_is_an_empty_schema(path: tuple[Any, ...]) -> None:
    assert schema_at(path, SCHEMA) == {}


def test_a_true_choice_stays_one() -> None:
    assert "anyOf" in schema_at(("either",), SCHEMA)
    assert resolve({"$ref": "#/$defs/Loop"}, SCHEMA) == {}


@pytest.mark.parametrize("schema", [True, False, None, 5, []])
def test_what_is_no_schema_describes_nothing(schema: Any) -> None:
    assert schema_at(("a",), schema) == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "anyOf", "$ref", "additionalProperties", "type", "$defs", "a"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(json_values, st.lists(st.sampled_from(["a", 0, "properties"]), max_size=3))
def test_no_schema_however_broken_makes_it_fail(schema: Any, path: list[Any]) -> None:
    assert isinstance(schema_at(path, schema), dict)
