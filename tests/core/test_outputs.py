"""What a tool returns is held to what it declared (T9): the JSON form that others read must fit."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, computed_field, field_serializer, field_validator
from pydantic_core import to_json
from typing_extensions import TypedDict

from ferrule import Attachment, InvalidParamsError, Output, Runtime, Tool, ToolResult, raw_tool, tool
from ferrule.core.outputs import TypedOutput
from ferrule.core.schema_params import SchemaParams
from ferrule.dialects.payload import jsonable


class Level(IntEnum):
    LOW = 1


class Colour(Enum):
    RED = "red"


class Reading(BaseModel):
    size: int


class Written(BaseModel, extra="forbid"):
    """Its JSON form is not what it is read from."""

    size: int = Field(serialization_alias="Size")

    @computed_field
    @property
    def double(self) -> int:
        return 2 * self.size

    @field_serializer("size")
    def written(self, value: int) -> str:
        return f"<{value}>"


class Once(BaseModel):
    """Its validator takes only text, and never what it made of it."""

    when: dt.date

    @field_validator("when", mode="before")
    @classmethod
    def read(cls, value: Any) -> Any:
        return dt.date(*map(int, value.split(".")))


@dataclass
class Point:
    x: int


class Shape(TypedDict):
    sides: int


class Pair(NamedTuple):
    first: int


class Scalar:
    """A number as NumPy has them."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __index__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        return self.value == other

    __hash__ = None  # type: ignore[assignment]

    def tolist(self) -> float:
        return self.value


def returned(annotation: Any, value: Any) -> ToolResult:
    async def give() -> Any:
        return value

    give.__annotations__ = {"return": annotation}
    return asyncio.run(Runtime([tool(give, kind="readonly")]).run("give"))


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (int, 5, "5"),
        (int, True, "1"),
        (int, Level.LOW, "1"),
        (int, Scalar(5), "5"),
        (int, 5.0, "5"),
        (float, 5, "5"),
        (float, 5.5, "5.5"),
        (float, Scalar(2.5), "2.5"),
        (bool, True, "true"),
        (str, "x", "x"),
        (str, Path("a/b"), '"a/b"'),
        (str | None, None, "Done. There is no output."),
        (None, None, "Done. There is no output."),
        (Reading, Reading(size=1), '{"size":1}'),
        (Reading, {"size": 1}, '{"size":1}'),
        (list[Reading], [{"size": 1}, Reading(size=2)], '[{"size":1},{"size":2}]'),
        (Written, Written(size=1), '{"Size":"<1>","double":2}'),
        (list[Written], [Written(size=1)], '[{"Size":"<1>","double":2}]'),
        (Once, Once.model_construct(when=dt.date(2025, 1, 31)), '{"when":"2025-01-31"}'),
        (Point, Point(1), '{"x":1}'),
        (Point, {"x": 1}, '{"x":1}'),
        (Shape, {"sides": 3}, '{"sides":3}'),
        (Shape, {"sides": 3, "colour": "red"}, '{"sides":3,"colour":"red"}'),
        (Pair, Pair(1), "[1]"),
        (Colour, Colour.RED, '"red"'),
        (Colour, "red", "red"),
        (Literal["a", "b"], "a", "a"),
        (dt.date, dt.date(2025, 1, 31), '"2025-01-31"'),
        (dt.date, "2025-01-31", "2025-01-31"),
        (list[int], (1, 2), "[1,2]"),
        (list[int], {3}, "[3]"),
        (list[int], [True], "[1]"),
        (list[int], [Scalar(3)], "[3]"),
        (list[int], iter([1, 2]), "[1,2]"),
        (set[int], [1], "[1]"),
        (dict[str, float], {"a": 1, "b": Scalar(1.5)}, '{"a":1,"b":1.5}'),
        (bytes, b"abc", "[application/octet-stream, 3 bytes]"),
        (int, Output(data=5, llm_content="five"), "five"),
        (str, Output(llm_content="words"), "words"),
        (Output, Output(llm_content="words"), "words"),
        (int | Output, "anything", "anything"),
        (Attachment, Attachment("image/png", b"12345"), "[image/png, 5 bytes]"),
        (Any, {"any": 1}, '{"any":1}'),
        (object, 5, "5"),
        (Iterator[int], iter([1]), "[1]"),
        ("OnlyForTypeCheckers", "anything", "anything"),
    ],
)
def test_what_fits(annotation: Any, value: Any, words: str) -> None:
    result = returned(annotation, value)
    assert result.success, result.llm_content
    assert result.llm_content == words


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (int, "5", snapshot('expected integer, got string "5".')),
        (int, None, snapshot("expected integer, got null.")),
        (int, 5.5, snapshot("expected integer, got number 5.5.")),
        (str, 5, snapshot("expected string, got integer 5.")),
        (float, float("nan"), snapshot("must be a finite number; got number NaN.")),
        (float, Decimal("0.1"), snapshot('expected number, got string "0.1".')),
        (None, "x", snapshot('expected null, got string "x".')),
        (Reading, {"size": "large"}, snapshot('`size`: expected integer, got string "large".')),
        (Reading, Reading.model_construct(size="large"), snapshot('`size`: expected integer, got string "large".')),
        (list[Reading], [{"size": 1}, {}], snapshot("`[1].size`: required, but missing (expected integer).")),
        (Point, Point("large"), snapshot('`x`: expected integer, got string "large".')),  # type: ignore[arg-type]
        (Shape, {}, snapshot("`sides`: required, but missing (expected integer).")),
        (
            dict[str, int],
            {"password": "hunter2"},
            snapshot("`password`: expected integer, got a value that is not shown."),
        ),
        (list[float], [1.0, float("inf")], snapshot('`[1]`: expected number, got string "Infinity".')),
        (
            list[int],
            ["a", "b", "c", "d", "e", "f", "g"],
            snapshot(
                '`[0]`: expected integer, got string "a"; `[1]`: expected integer, got string "b"; `[2]`: expected integer, got string "c"; `[3]`: expected integer, got string "d"; `[4]`: expected integer, got string "e"; and 2 more.'  # noqa: E501
            ),
        ),
        (tuple[int, str], [1], snapshot("`[1]`: required, but missing (expected string).")),
        (Literal["a", "b"], "c", snapshot('must be "a" or "b"; got string "c".')),
        (dt.date, "soon", snapshot('must be a date like "2025-01-31"; got string "soon".')),
        (Annotated[int, Field(ge=0)], -1, snapshot("must be at least 0; got integer -1.")),
        (int, Output(data="x", llm_content="five"), snapshot('expected integer, got string "x".')),
        (dict[str, int], Output(llm_content="words"), snapshot('expected object, got string "words".')),
        (int, b"abc", snapshot('expected integer, got string "abc".')),
        (int | None, "x", snapshot('expected integer, got string "x".')),
    ],
)
def test_what_does_not_fit_is_the_tools_fault(annotation: Any, value: Any, told: str) -> None:
    result = returned(annotation, value)
    assert result.error is not None
    assert result.error.kind == "execution_error"
    assert result.metadata["stage"] == "format"
    assert result.data is None
    assert (
        result.error.message.removeprefix("`give` ran, but what it returned does not fit its declared type: ") == told
    )
    assert result.error.suggestion == (
        "This is a bug in the tool, not a problem with the arguments. "
        "It has already taken effect; calling it again would repeat it."
    )


class Sized(BaseModel):
    size: int = 1


@pytest.mark.parametrize(
    ("annotation", "value", "data"),
    [
        (int, True, 1),
        (list[int], [True], [1]),
        (Reading, {"size": 1}, Reading(size=1)),
        (Sized, {}, Sized()),
        (list[Reading], [{"size": 1}], [Reading(size=1)]),
        (Decimal, 0, Decimal(0)),
    ],
)
def test_what_would_be_other_json_is_given_as_the_declared_type(annotation: Any, value: Any, data: Any) -> None:
    """The words, the data and what an MCP client is sent all have the form that was promised."""
    given_as = returned(annotation, value).data
    assert given_as == data
    assert type(given_as) is type(data)
    assert not isinstance(data, list) or type(given_as[0]) is type(data[0])


def test_any_other_value_that_fits_is_given_as_it_is() -> None:
    reading, shape, pair = Reading(size=1), {"sides": 3, "colour": "red"}, (1, 2)
    assert returned(Reading, reading).data is reading
    assert returned(Shape, shape).data is shape
    assert returned(list[int], pair).data is pair


def _give(value: Any, arguments: Any) -> Any:
    return value


def test_a_raw_tool_is_held_to_its_output_schema() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    for value, told in (({"size": 1}, None), ({"size": "x"}, '`size`: expected integer, got string "x".')):
        made = raw_tool("measure", {}, partial(_give, value), kind="readonly", output_schema=schema)
        result = asyncio.run(Runtime([made]).run("measure"))
        assert result.success is (told is None)
        assert told is None or told in result.llm_content


def test_a_class_that_shows_an_output_schema_is_held_to_it() -> None:
    class Measure(Tool[Reading]):
        """Measure."""

        kind = "readonly"  # type: ignore[assignment]

        @property
        def output_schema(self) -> dict[str, Any]:
            return {"type": "integer"}

        def run(self, params: Reading, context: Any) -> Any:
            return "large"

    result = asyncio.run(Runtime([Measure()]).run("Measure", {"size": 1}))
    assert "does not fit its declared type: expected integer" in result.llm_content


def test_a_stream_is_not_checked() -> None:
    @tool(kind="readonly")
    async def count() -> AsyncIterator[int]:
        for number in ("one", "two"):
            yield number  # type: ignore[misc]

    assert asyncio.run(Runtime([count]).run("count")).success


def test_a_failure_that_is_passed_on_is_not_checked() -> None:
    @tool(kind="readonly")
    async def fails() -> int:
        raise ValueError("no")

    async def main() -> ToolResult:
        failed = await Runtime([fails]).run("fails")

        async def passes() -> Any:
            return failed

        passes.__annotations__ = {"return": int}
        return await Runtime([tool(passes, kind="readonly")]).run("passes")

    assert "no" in asyncio.run(main()).llm_content


def test_the_type_is_compiled_once_and_exact_types_never(monkeypatch: pytest.MonkeyPatch) -> None:
    """P3."""
    compiled: list[Any] = []
    monkeypatch.setattr(TypedOutput, "_compile", lambda self: compiled.append(self))

    @tool(kind="readonly")
    async def greet() -> str:
        return "hello"

    async def main() -> None:
        runtime = Runtime([greet])
        for _ in range(3):
            assert (await runtime.run("greet")).success

    asyncio.run(main())
    assert compiled == []
    assert greet.exact_outputs == {str}


SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.sampled_from(["x", "5", "2025-01-31"])
VALUES = st.recursive(
    SCALARS | st.just(Reading(size=1)) | st.just(Point(1)) | st.just(Decimal("0.5")) | st.just(dt.date(2025, 1, 31)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["size", "x", "sides"]), inner, max_size=2)
    ),
    max_leaves=4,
)
TYPES = st.sampled_from(
    [int, float, bool, str, None, Reading, Point, Shape, list[int], list[float], dict[str, int], dict[str, float],
     dt.date, int | str, list[Reading], list[Point | None], Literal["x", 5], tuple[int, str], Decimal]
)  # fmt: skip


@settings(max_examples=400)
@given(TYPES, VALUES)
def test_what_is_let_through_fits_the_schema_that_is_shown(annotation: Any, value: Any) -> None:
    """The law that MCP asks for: whatever a client is sent has the form that the tool promised."""
    try:
        fitting = TypedOutput(annotation).fit(value)
    except InvalidParamsError:
        return
    schema = TypeAdapter(annotation).json_schema(mode="serialization")
    SchemaParams("shown", schema).load(to_json(jsonable(fitting)))


def test_a_type_that_fails_on_a_value_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can be said of the value then; but its author hears that it was not checked."""

    def needs_a_length(value: Any) -> Any:
        return len(value)

    @tool
    def give() -> Annotated[int, BeforeValidator(needs_a_length)]:
        """Give. Use this to test."""
        return 5

    assert Runtime([give]).run_sync("give").data == 5
    assert "object of type 'int' has no len()" in caplog.text


@pytest.mark.parametrize("shown_first", [False, True])
def test_showing_a_tool_does_not_change_what_its_results_are_held_to(*, shown_first: bool) -> None:
    @tool
    def is_open() -> bool:
        """Whether it is open. Use this to test."""
        return 1  # type: ignore[return-value]

    if shown_first:
        assert is_open.output_schema == {"type": "boolean"}
    assert Runtime([is_open]).run_sync("is_open").data is True
