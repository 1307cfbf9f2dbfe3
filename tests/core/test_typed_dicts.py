"""`typing.TypedDict` in a tool's signature, on every Python we run on (T3)."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import Field

from ferrule import tool
from ferrule.core.signatures import understood


class Point(TypedDict):
    x: int
    y: int
    label: NotRequired[str]


class Shape(TypedDict, total=False):
    points: list[Point]
    centre: Point | None
    named: dict[str, Point]
    noted: Annotated[Point, Field(description="a note")]


@tool(kind="readonly")
def draw_shape(shape: Shape, origin: Point) -> Point:
    """Draw a shape. Use this to test."""
    return origin


def test_nested_typed_dicts_give_their_schema() -> None:
    schema: Any = draw_shape.input_schema
    point = schema["$defs"]["Point"]
    assert point["required"] == ["x", "y"]
    assert list(point["properties"]) == ["x", "y", "label"]
    assert "required" not in schema["$defs"]["Shape"]
    output: Any = draw_shape.output_schema
    assert output["required"] == ["x", "y"]


def test_values_are_checked() -> None:
    params = draw_shape.params.load('{"shape": {"points": [{"x": 1, "y": 2}]}, "origin": {"x": 0, "y": 0}}')
    assert params.shape == {"points": [{"x": 1, "y": 2}]}


def test_other_types_stay_as_they_are() -> None:
    for annotation in (int, list[int], dict[str, int] | None, Any):
        assert understood(annotation) == annotation
