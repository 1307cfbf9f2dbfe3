"""A function's signature as parameters (T3)."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import sys
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from inline_snapshot import snapshot
from pydantic import AfterValidator, Base64Bytes, Field, Json, TypeAdapter
from pydantic.v1 import BaseModel as V1Model

from ferrule import Attachment, DefinitionError, Output, Runtime, ToolContext, ToolResult, tool
from ferrule.core.function_params import compile_function
from ferrule.core.outputs import output_schema


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


def every_sort(
    text: str,
    number: Annotated[int, Field(ge=0)],
    colour: Colour,
    point: Point,
    day: dt.date,
    where: Path,
    pair: tuple[int, str],
    unique: set[int],
    choice: Literal["a", 1],
    maybe: float | None = None,
    *,
    flag: bool = True,
) -> None: ...


GIVEN = (
    b'{"text": "t", "number": 1, "colour": "red", "point": {"x": 1}, "day": "2024-02-29", "where": "/a", '
    b'"pair": [1, "b"], "unique": [1, 2], "choice": 1}'
)


def test_every_sort_of_type_is_read_from_json() -> None:
    params = compile_function("f", every_sort).params.load(GIVEN)
    assert (params.text, params.number, params.colour, params.point) == ("t", 1, Colour.RED, Point(1, 0))
    assert (params.day, params.where, params.pair, params.unique) == (
        dt.date(2024, 2, 29), Path("/a"), (1, "b"), {1, 2},
    )  # fmt: skip
    assert (params.choice, params.maybe, params.flag) == (1, None, True)


def test_parameters_without_default_are_required() -> None:
    schema = compile_function("f", every_sort).params.schema
    assert schema["required"] == [
        "text", "number", "colour", "point", "day", "where", "pair", "unique", "choice",
    ]  # fmt: skip
    assert schema["properties"]["flag"] == {"default": True, "type": "boolean"}
    assert schema["additionalProperties"] is False


def test_the_context_has_a_name_and_no_field() -> None:
    def body(a: int, here: ToolContext) -> None: ...

    compiled = compile_function("f", body)
    assert compiled.context_name == "here"
    assert list(compiled.params.schema["properties"]) == ["a"]


@pytest.mark.parametrize("name", ["copy", "json", "schema", "validate", "model_name", "name", "self_", "type", "id"])
def test_a_parameter_may_have_almost_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"async def body({name}: int) -> int:\n    return {name}", scope)
    one = tool(scope["body"], kind="readonly")
    assert asyncio.run(Runtime([one]).run("body", {name: 5})).data == 5


@pytest.mark.parametrize("name", ["_hidden", "model_config"])
def test_a_name_that_cannot_be_is_told_to_the_author(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def body({name}: int) -> int:\n    return {name}", scope)
    with pytest.raises(DefinitionError, match="`body`"):
        compile_function("body", scope["body"])


def test_a_type_without_json_form_is_told_to_the_author() -> None:
    class Socket: ...

    def body(socket: Any) -> None: ...

    body.__annotations__["socket"] = Socket
    with pytest.raises(
        DefinitionError, match="`body`: `socket` is a Socket, which has no JSON form, and a model can only send JSON"
    ):
        compile_function("body", body)


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    @tool(kind="readonly")
    async def collect(item: int, into: list[int] = []) -> list[int]:  # noqa: B006
        into.append(item)
        return into

    async def main() -> list[Any]:
        runtime = Runtime([collect])
        return [(await runtime.run("collect", {"item": number})).data for number in (1, 2)]

    assert asyncio.run(main()) == [[1], [2]]


def test_an_alias_is_what_the_model_writes() -> None:
    @tool(kind="readonly")
    async def grep(ignore_case: Annotated[bool, Field(alias="-i")] = False) -> bool:
        return ignore_case

    schema = grep.input_schema
    assert isinstance(schema, dict)
    assert list(schema["properties"]) == ["-i"]
    assert asyncio.run(Runtime([grep]).run("grep", {"-i": True})).data is True
    assert not asyncio.run(Runtime([grep]).run("grep", {"ignore_case": True})).success


@pytest.mark.parametrize(
    "returned",
    [
        Any,
        object,
        None,
        Output,
        Output[Any],
        Output | None,
        ToolResult,
        Attachment,
        bytes,
        list[int] | Output,
        bytes | int,
    ],
)
def test_a_return_type_that_says_nothing_is_no_schema(returned: Any) -> None:
    assert output_schema(returned) is None


def test_a_return_type_that_says_something_is_a_schema() -> None:
    schema = output_schema(dict[str, Point])
    assert schema is not None
    assert schema["additionalProperties"] == {"$ref": "#/$defs/Point"}


@pytest.mark.parametrize(
    ("returned", "same"),
    [
        (Output[list[int]], list[int]),
        (Output[list[int]] | ToolResult, list[int]),
        (list[int] | ToolResult, list[int]),
        (Output[int | None], int | None),
        (Output[int] | None, int | None),
        (Output[int] | str, int | str),
    ],
)
def test_an_output_promises_its_data_and_a_failure_promises_nothing(returned: Any, same: Any) -> None:
    """T9: the schema is that of `data`, whatever is returned around it."""
    assert output_schema(returned) == TypeAdapter(same).json_schema()


def test_a_validator_in_an_annotation_runs_once() -> None:
    """T3: what an author's own code makes of an argument is what the function gets."""

    @tool
    def double(
        number: Annotated[int, AfterValidator(lambda given: given * 2)],
        other: Annotated[int, AfterValidator(lambda given: given * 2)] = 1,
    ) -> list[int]:
        """Double."""
        return [number, other]

    runtime = Runtime([double])
    assert runtime.run_sync("double", {"number": 3, "other": 5}).data == [6, 10]
    assert runtime.run_sync("double", {"number": 3}).data == [6, 1]


def test_annotations_that_take_a_value_apart_take_it_apart_once() -> None:
    @tool
    def read(numbers: Json[list[int]], packed: Base64Bytes) -> str:
        """Read."""
        return f"{numbers} {packed!r}"

    assert Runtime([read]).run_sync("read", {"numbers": "[1, 2]", "packed": "aGk="}).data == "[1, 2] b'hi'"


@pytest.mark.parametrize("kind", [Iterable[int], Generator[int, None, None]])
def test_items_that_could_be_read_later_are_read_before_the_tool_runs(kind: Any) -> None:
    """P2: what is wrong with an item is told like any other problem, in the tool's stead."""

    def total(numbers: Any) -> int:
        """Add up."""
        return sum(numbers) + sum(numbers)

    total.__annotations__["numbers"] = kind
    runtime = Runtime([tool(total)])
    assert runtime.run_sync("total", {"numbers": [1, 2]}).data == 6
    result = runtime.run_sync("total", {"numbers": [1, "x"]})
    assert result.error is not None
    assert result.error.message.endswith('- `numbers[1]`: expected integer, got string "x"')


LATER = """
from typing import TYPE_CHECKING
from ferrule import Tool, tool
if TYPE_CHECKING:
    from decimal import Decimal
    from ferrule import ToolContext

@tool
def double(number: int) -> Decimal:
    "Double it."
    return 2 * number

def made():
    Own = int
    @tool
    def triple(number: list[Own], *, note: str = "") -> Decimal:
        "Triple it."
        return 3 * number[0]
    return triple

class Quadruple(Tool):
    def run(self, params: Decimal, context: ToolContext) -> Decimal:
        return 4
"""


def test_a_name_for_type_checkers_alone_is_no_obstacle() -> None:
    """X9: Python 3.14 and newer look up annotations when they are read, not when a function is defined."""
    names: dict[str, Any] = {"__name__": "later"}
    exec(("from __future__ import annotations\n" if sys.version_info < (3, 14) else "") + LATER, names)
    runtime = Runtime([names["double"], names["made"]()])
    assert runtime.run_sync("double", {"number": 7}).data == 14
    assert runtime.run_sync("triple", {"number": [7]}).data == 21
    assert str(inspect.signature(names["double"])).endswith("-> 'Decimal'")


def test_a_pattern_may_look_ahead() -> None:
    @tool
    def keep(word: Annotated[str, Field(pattern=r"^(?!secret).*$")]) -> str:
        """Keep."""
        return word

    runtime = Runtime([keep])
    assert runtime.run_sync("keep", {"word": "open"}).data == "open"
    assert not runtime.run_sync("keep", {"word": "secret"}).success


def test_a_pattern_that_is_none_is_named_with_its_parameter() -> None:
    def keep(word: Annotated[str, Field(pattern="(")]) -> str:
        """Keep."""
        return word

    with pytest.raises(DefinitionError) as caught:
        compile_function("keep", keep)
    assert str(caught.value) == snapshot("`keep`: `word`: missing ), unterminated subpattern at position 0.")


def test_a_model_of_pydantic_v1_is_refused_in_words_that_say_what_to_do() -> None:
    def keep(old: Any) -> None:
        """Keep."""

    keep.__annotations__["old"] = type("Old", (V1Model,), {"__annotations__": {"size": int}})
    with pytest.raises(DefinitionError) as caught:
        compile_function("keep", keep)
    assert str(caught.value) == snapshot(
        "`keep`: a parameter is a model of pydantic.v1. Derive it from pydantic.BaseModel instead."
    )
