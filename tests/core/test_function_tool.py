"""`@tool` (T4): a typed function is a tool."""

from __future__ import annotations

import asyncio
import functools
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import pytest
from inline_snapshot import snapshot
from pydantic import Field

from ferrule import DefinitionError, FunctionTool, Kind, Runtime, ToolContext, ToolResult, reads, tool
from ferrule.core.function_tool import hints_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from decimal import Decimal


def run(one: FunctionTool, arguments: Any = None) -> ToolResult:
    return asyncio.run(Runtime([one]).run(one.name, arguments))


def test_a_decorated_function_is_a_tool_and_still_a_function() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert isinstance(double, FunctionTool)
    assert double(4) == 8
    assert (double.name, double.kind, double.description.text) == ("double", Kind.EXECUTE, "Double a number.")


def test_options_are_given_to_the_decorator_or_the_call() -> None:
    def body() -> None: ...

    assert tool(kind="write", name="save")(body).kind is Kind.WRITE
    assert tool(body, display_name="Body").display_name == "Body"


def test_the_context_is_filled_in_and_never_shown() -> None:
    @tool(kind="readonly")
    async def who(context: ToolContext, maybe: ToolContext | None = None) -> str:
        return context.tool

    @tool(kind="readonly")
    async def who_else(name: str, ctx: ToolContext | None = None) -> str:
        return f"{name} {ctx.tool if ctx else None}"

    assert who_else.input_schema == {
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "type": "object",
    }
    assert run(who_else, {"name": "x"}).data == "x who_else"
    assert "ctx" in run(who_else, {"name": "x", "ctx": {}}).llm_content


def test_a_return_type_known_to_type_checkers_alone_is_no_obstacle() -> None:
    @tool(kind="readonly")
    async def count(to: int) -> AsyncIterator[str]:
        for number in range(to):
            yield str(number)

    @tool(kind="readonly")
    async def price() -> Decimal:
        return 5  # type: ignore[return-value]

    assert run(count, {"to": 3}).data == "012"
    assert run(price).success
    assert price.output_schema is None


def test_a_parameters_type_must_be_known() -> None:
    @tool(kind="readonly")
    async def pay(amount: Decimal) -> None: ...

    with pytest.raises(DefinitionError, match="`pay`: a parameter's type is not known here"):
        _ = pay.params


def test_decorated_and_partial_functions_keep_their_types_and_words() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def around(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return around

    @logged
    async def power(base: int, exponent: int = 2) -> int:
        """Raise a number.

        Args:
            base: What is raised.
        """
        return base**exponent

    cube = functools.partial(power, exponent=3)
    for one, expected in ((tool(power, kind="readonly"), 25), (tool(cube, kind="readonly"), 125)):
        assert one.name == "power"
        assert one.description.short == "Raise a number."
        schema = one.input_schema
        assert isinstance(schema, dict)
        assert schema["properties"]["base"] == {"type": "integer", "description": "What is raised."}
        assert run(one, {"base": 5}).data == expected


def test_bound_methods_and_callable_objects_are_tools_too() -> None:
    class Shop:
        def buy(self, item: str) -> str:
            return f"bought {item}"

        async def __call__(self, number: int) -> int:
            return number

    assert run(tool(Shop().buy, kind="readonly"), {"item": "tea"}).data == "bought tea"
    assert run(tool(Shop(), kind="readonly"), {"number": 3}).data == 3
    assert tool(Shop(), kind="readonly").name == "Shop"


def test_a_decorated_method_explains_itself() -> None:
    class Shop:
        @tool
        def buy(self: Any, item: str) -> str:
            return item

    with pytest.raises(DefinitionError, match="`buy` is a method"):
        _ = Shop().buy
    assert isinstance(Shop.buy, FunctionTool)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda *args: None, "takes *args or **kwargs, which have no names to show a model"),
        (lambda **kwargs: None, "takes *args or **kwargs"),
        (lambda x, /: None, "has positional-only parameters"),
        (lambda x, y: None, "`x`, `y` has no type. Write one, e.g. `x: str`"),
        (5, "@tool goes on a function, not on 5"),
    ],
)
def test_a_function_a_model_could_not_call_is_refused_to_its_author(function: Any, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        tool(function, name="f")
    assert words in str(error.value)


def test_what_a_tool_says_of_a_call_can_be_given_as_functions() -> None:
    @tool(
        kind="readonly",
        touches=lambda params: [reads("path", params.path)],
        signature=lambda params: params.path,
        abstract_rule=lambda params: "read:*",
        render=lambda value: f"<{value}>",
    )
    async def read(path: str) -> str:
        return path

    invocation = read.build({"path": "/a"})
    assert invocation.touches == (reads("path", "/a"),)
    assert (invocation.signature, invocation.abstract_rule) == ("/a", "read:*")
    assert run(read, {"path": "/a"}).llm_content == "</a>"


def test_descriptions_come_from_annotations_before_the_docstring() -> None:
    @tool
    def look(place: Annotated[str, Field(description="From the type")], time: str) -> None:
        """Look.

        Args:
            place: From the docstring
            time: When to look
        """

    schema = look.input_schema
    assert isinstance(schema, dict)
    assert [prop["description"] for prop in schema["properties"].values()] == ["From the type", "When to look"]


def test_the_type_of_the_result_is_a_schema() -> None:
    @tool
    def count() -> list[int]:
        return [1]

    @tool
    def nothing() -> None: ...

    assert count.output_schema == snapshot({"items": {"type": "integer"}, "type": "array"})
    assert nothing.output_schema is None


def test_annotations_are_read_as_typing_reads_them() -> None:
    """In a fraction of the time, which is only worth something while both agree."""

    class Line: ...

    scope: dict[str, Any] = {"Line": Line, "Field": Field}
    exec("from typing import *\nimport typing\nT = TypeVar('T')", scope)
    texts = [
        "int", "None", "'int'", "list[Line]", "list['Line']", "Optional['Line']", "Line | None", "Literal['Line', 1]",
        "Annotated[int, Field(ge=1)]", "Annotated['Line', 'words']", "dict[str, Optional[list[Line]]]",
        "tuple[int, ...]", "Callable[[int], 'Line']", "Any", "T", "Union[int, str]", "typing.List['Line']",
    ]  # fmt: skip
    for written in (True, False):
        for text in texts:

            def body(it: Any) -> None: ...

            body = FunctionType(body.__code__, scope)
            body.__annotations__ = {"it": text if written else eval(text, scope), "return": None}
            expected = get_type_hints(body, include_extras=True)["it"]
            assert repr(hints_of(body, returned=False)) == repr({"it": expected}), text


def test_a_name_that_is_not_known_is_said_as_typing_says_it() -> None:
    def body(it: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    with pytest.raises(NameError, match="Nowhere"):
        hints_of(body, returned=False)
