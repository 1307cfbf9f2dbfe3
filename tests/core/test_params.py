"""Parameters declared as types (T3, P3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from ferrule import InvalidParamsError
from ferrule.core.params import ModelParams


class Search(BaseModel, extra="forbid"):
    """Ignored: the tool's own description counts."""

    pattern: str
    limit: int | None = 10
    ignore_case: bool = Field(False, alias="-i")


class Tree(BaseModel):
    children: list[Tree] = []
    by_name: dict[str, int] = {}


SEARCH, TREE = ModelParams(Search), ModelParams(Tree)


def test_the_schema_shows_what_a_model_needs_and_no_titles() -> None:
    assert SEARCH.schema == {
        "additionalProperties": False,
        "type": "object",
        "required": ["pattern"],
        "properties": {
            "pattern": {"type": "string"},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 10},
            "-i": {"type": "boolean", "default": False},
        },
    }
    assert SEARCH.schema is SEARCH.schema


def test_text_becomes_a_typed_value_with_defaults() -> None:
    params = SEARCH.load('{"pattern": "x", "-i": true}')
    assert params == Search.model_validate({"pattern": "x", "-i": True})
    assert params.limit == 10


@pytest.mark.parametrize("text", ['{"pattern": 5}', '{"pattern": "x", "limit": "5"}', '{"pattern": "x", "-i": 1}'])
def test_what_only_fits_after_conversion_does_not_fit(text: str) -> None:
    with pytest.raises(InvalidParamsError):
        SEARCH.load(text)


def test_equal_arguments_give_equal_bytes() -> None:
    first = SEARCH.dump(SEARCH.load('{"pattern": "x", "limit": 10}'))
    second = SEARCH.dump(SEARCH.load(b'{"limit": 10, "-i": false, "pattern": "x"}'))
    assert first == second == b'{"pattern":"x","limit":10,"-i":false}'


@given(st.text(), st.none() | st.integers(-(2**62), 2**62), st.booleans())
def test_what_is_written_is_read_back(pattern: str, limit: int | None, ignore: bool) -> None:
    params = Search.model_validate({"pattern": pattern, "limit": limit, "-i": ignore})
    assert SEARCH.load(SEARCH.dump(params)) == params


def test_the_size_of_flat_arguments_is_the_number_of_keys_given() -> None:
    assert SEARCH.flat_size(SEARCH.load('{"pattern": "x", "limit": null}')) == 2
    assert TREE.flat_size(TREE.load("{}")) is None


def test_every_problem_is_found_at_once() -> None:
    with pytest.raises(InvalidParamsError) as invalid:
        SEARCH.load('{"limit": "x", "other": 1}')
    assert [problem.code for problem in invalid.value.problems] == ["missing", "type", "unknown"]
    assert invalid.value.value == {"limit": "x", "other": 1}


def test_a_model_without_fields_takes_no_arguments() -> None:
    class Nothing(BaseModel, extra="forbid"):
        pass

    params = ModelParams(Nothing)
    assert params.schema["properties"] == {}
    assert params.load("{}") == Nothing()
    assert params.flat_size(params.load("{}")) == 0


def test_a_model_that_holds_itself_shows_its_fields_and_not_a_reference() -> None:
    assert list(TREE.schema["properties"]) == ["children", "by_name"]
    assert TREE.schema["type"] == "object"
    assert TREE.schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert "Tree" in TREE.schema["$defs"]


def test_trees_are_read_as_deep_as_they_go() -> None:
    value: Any = TREE.load('{"children": [{"children": [{}], "by_name": {"a": 1}}]}')
    assert value.children[0].by_name == {"a": 1}
