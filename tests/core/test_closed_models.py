"""Models inside a tool's parameters refuse what they do not know (P2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from ferrule import InvalidParamsError, Runtime, Tool, ToolContext, tool


class Item(BaseModel):
    name: str
    amount: float = 1.0


class Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str


class Node(BaseModel):
    value: int
    children: list[Node] = []


@tool(kind="readonly")
def order_items(item: Item, loose: Loose | None = None, tree: Node | None = None) -> None:
    """Order items."""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"item": {"name": "a", "amuont": 2}}', "item.amuont: unknown field. Did you mean `amount`?"),
        (
            '{"item": {"name": "a"}, "tree": {"value": 1, "children": [{"value": 2, "v": 3}]}}',
            "tree.children[0].v",
        ),
    ],
)
def test_a_misspelt_field_inside_a_model_is_an_error(text: str, said: str) -> None:
    with pytest.raises(InvalidParamsError) as raised:
        order_items.params.load(text)
    assert said in str(raised.value)


def test_a_model_that_says_extra_itself_is_left_as_it_says() -> None:
    params = order_items.params.load('{"item": {"name": "a"}, "loose": {"name": "b", "other": 1}}')
    assert params.loose == Loose(name="b")


def test_the_schema_says_the_same() -> None:
    schema: Any = order_items.input_schema
    closed = {name: part.get("additionalProperties") for name, part in schema["$defs"].items()}
    assert closed == {"Item": False, "Loose": None, "Node": False}


def test_a_class_tools_own_parameters_are_closed_too() -> None:
    class Count(Tool[Item]):
        kind = "readonly"  # type: ignore[assignment]

        def run(self, params: Item, context: ToolContext) -> str:
            return params.name

    with pytest.raises(InvalidParamsError, match="amuont"):
        Count().params.load('{"name": "a", "amuont": 2}')


class Finite(BaseModel):
    model_config = ConfigDict(extra="forbid")
    values: list[float] = []


class Careless(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=True)
    value: float | None = None
    inside: Finite | None = None


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999", "-1e400"])
@pytest.mark.parametrize("text", ['{"it": {"value": %s}}', '{"it": {"inside": {"values": [1, %s]}}}', '{"own": %s}'])
@pytest.mark.parametrize("long", [False, True])
def test_infinity_is_refused_wherever_it_stands(number: str, text: str, long: bool) -> None:
    """P2: JSON has no such number, whatever a model inside would take."""

    @tool(kind="readonly")
    def weigh(it: Careless | None = None, own: float = 0, note: str = "") -> str:
        """Weigh."""
        return "weighed"

    given = text % number
    if long:
        given = given[:-1] + f', "note": "{"x" * 500}"}}'
    with pytest.raises(InvalidParamsError):
        weigh.params.load(given)
    result = asyncio.run(Runtime([weigh]).run("weigh", given))
    assert result.error is not None
    assert result.error.kind == "validation_error"
