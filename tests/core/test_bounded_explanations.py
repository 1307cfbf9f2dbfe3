"""Wrong arguments of any size are explained at a bounded cost (P2): the first mistakes in full, the others counted."""

from __future__ import annotations

import json
from contextlib import suppress
from enum import Enum
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from ferrule import InvalidParamsError, RawCall, StoppedError, raw_tool, tool
from ferrule.core import problems as problems_module
from ferrule.core.call import DEFAULT_LIMITS
from ferrule.core.params import ModelParams
from ferrule.core.schema_params import SchemaParams
from ferrule.pipeline.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.tool import Tool

FIELDS = [f"field_number_{number}" for number in range(200)]
TYPED = create_model("Typed", __config__={"extra": "forbid"}, **dict.fromkeys(FIELDS, (int, 0)))  # pyright: ignore[reportCallIssue, reportArgumentType]
RAW = {"type": "object", "properties": {name: {"type": "integer"} for name in FIELDS}, "additionalProperties": False}
CHOICES = [f"value number {number}" for number in range(5_000)]
Choice = Enum("Choice", {f"v{number}": choice for number, choice in enumerate(CHOICES)})


Chosen = create_model("Chosen", some=(list[Choice], ...))  # pyright: ignore[reportInvalidTypeForm, reportCallIssue, reportArgumentType, reportUnknownVariableType]


class Nested(BaseModel, extra="forbid"):
    inner: list[Nested | int] = Field(default_factory=list["Nested | int"])


@tool
def typed(path: str) -> str:
    """Take a path."""
    return path


RAW_TWIN = raw_tool(
    "raw_twin", {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}, print
)


def refused(one: Tool[Any], arguments: Any) -> str:
    with pytest.raises(StoppedError) as stopped:
        validate(one, RawCall(one.name, arguments), DEFAULT_LIMITS)
    return stopped.value.message


@pytest.mark.parametrize("one", [typed, RAW_TWIN], ids=["typed", "raw"])
@pytest.mark.parametrize("as_text", [False, True])
def test_of_twenty_thousand_unknown_names_ten_are_named(one: Tool[Any], as_text: bool) -> None:
    arguments = {"path": "x"} | {f"unknown_name_{number}": 1 for number in range(20_000)}
    said = refused(one, json.dumps(arguments) if as_text else arguments)
    named = [line for line in said.splitlines() if line.startswith("- `unknown_name_")]
    assert named[0] == "- `unknown_name_0`: unknown field. Known fields: `path`"
    assert len(named) == 10
    assert said.endswith(("\n- and 19,990 more", "\n- and 19,991 more"))
    assert len(said) < 2_000


def test_what_is_missing_besides_is_still_said() -> None:
    said = refused(typed, {f"unknown_name_{number}": 1 for number in range(20_000)})
    assert "- `path`: required, but missing (expected string)" in said
    assert "have 20,001 problems" in said


class Item(BaseModel):
    name: str = Field(alias="title")


class Items(BaseModel):
    items: list[Item]


@tool
def take_items(items: list[Item]) -> None:
    """Take items."""


def test_of_twenty_thousand_objects_that_lack_a_field_the_first_are_named() -> None:
    said = refused(take_items, {"items": [{}] * 20_000})
    assert "have 20,000 problems:\n- `items[0].title`: required, but missing (expected string)\n- `items[1]" in said
    assert said.endswith("\n- and 19,980 more")
    given_by_name = refused(take_items, {"items": [{"title": "x"}] * 10_000 + [{}] * 20_000})
    assert "items[0]" not in given_by_name


NEAR = {f"{name}x{number}": 1 for number in range(100) for name in FIELDS}
CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "near names, typed": (lambda: ModelParams(TYPED), NEAR),
    "near names, raw": (lambda: SchemaParams("raw", RAW), NEAR),
    "long names": (lambda: ModelParams(TYPED), {("field_number_" * 15)[:190] + str(n): 1 for n in range(2_000)}),
    "near values, typed": (lambda: ModelParams(Chosen), {"some": [f"value numbre {n}" for n in range(3_000)]}),
    "near values, raw": (
        lambda: SchemaParams("raw", {"properties": {"some": {"items": {"enum": CHOICES}}}}),
        {"some": [f"value numbre {n}" for n in range(3_000)]},
    ),
    "values that fit come first": (
        lambda: ModelParams(Chosen),
        {"some": CHOICES[:100] + [f"value numbre {n}" for n in range(3_000)]},
    ),
    "objects in objects": (lambda: ModelParams(Nested), {"inner": [{"inner": [{"inr": 1, "innr": []}] * 50}] * 200}),
    "a huge text": (lambda: ModelParams(Chosen), {"some": "x" * 5_000_000}),
    "huge names": (lambda: ModelParams(TYPED), {"n" * 400_000 + str(n): 1 for n in range(10)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_size_makes_an_explanation_slow(case: str) -> None:
    """Some of these took minutes. Two runs of a loaded machine differ far less than that."""
    make, value = CASES[case]
    params, text = make(), json.dumps(value)
    with suppress(InvalidParamsError):
        params.load('{"some": 1}')  # compile it
    began = process_time()
    with pytest.raises(InvalidParamsError) as invalid:
        params.load(text)
    assert process_time() - began < 5
    assert 0 < len(invalid.value.problems) <= 1_001


@given(st.integers(0, 40), st.integers(1, 400))
def test_the_problems_that_are_told_and_counted_are_all(known: int, unknown: int) -> None:
    """P2: nothing is lost by the bound, for a tool of either make."""
    fields = dict.fromkeys([f"a{number}" for number in range(known)], (int, 0))
    model = create_model("Any", __config__={"extra": "forbid"}, **fields)  # pyright: ignore[reportCallIssue, reportArgumentType]
    schema = {"properties": {name: {"type": "integer"} for name in fields}, "additionalProperties": False}
    value = json.dumps({f"b{number}": 1 for number in range(unknown)})
    for params in (ModelParams(model), SchemaParams("raw", schema)):
        with pytest.raises(InvalidParamsError) as invalid:
            params.load(value)
        assert len(invalid.value.problems) + invalid.value.more == unknown


def test_nearest_names_are_looked_for_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    nearest = problems_module.nearest

    def counting(*given: Any, **named: Any) -> list[str]:
        nonlocal searches
        searches += 1
        return nearest(*given, **named)

    monkeypatch.setattr(problems_module, "nearest", counting)
    for params in (ModelParams(TYPED), SchemaParams("raw", RAW)):
        with pytest.raises(InvalidParamsError):
            params.load(json.dumps(NEAR))
    assert 0 < searches <= 1_000
