"""`@tool` (T4): a typed function is a tool."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import operator
import os
import weakref
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from ferrule import (
    DefinitionError,
    Done,
    FunctionTool,
    Kind,
    PartialOutput,
    RawCall,
    RawTool,
    Runtime,
    ToolContext,
    ToolError,
    ToolResult,
    reads,
    tool,
)
from ferrule.core.signatures import hints_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
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


def untyped(x, y): ...  # type: ignore[no-untyped-def]


def wants_context(context, name: str): ...  # type: ignore[no-untyped-def]


def hidden(name: str, _secret: str = "") -> None: ...


def two_contexts(first: ToolContext, second: ToolContext | None = None) -> None: ...


class Plain:
    def __init__(self, size: int) -> None: ...

    def method(self, item: str) -> None: ...

    def __call__(self, item) -> None: ...  # type: ignore[no-untyped-def]


@dataclass
class Point:
    x: int


@tool
def ready_made() -> None: ...


@functools.lru_cache
async def cached_coroutine() -> int:
    return 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda *args: None, "takes *args or **kwargs, which have no names to show a model"),
        (lambda **kwargs: None, "takes *args or **kwargs"),
        (lambda x, /: None, "has positional-only parameters"),
        (lambda x: x, "`f` is a lambda, which has no place for the type of `x`. Write a function with `def`."),
        (untyped, "`x`, `y` have no type. Write one, e.g. `x: str`"),
        (wants_context, "`context` has no type. Write one, e.g. `context: ToolContext`"),
        (hidden, "`_secret` begins with `_`, as no parameter of a tool can. Rename it"),
        (functools.partial(untyped, 1), "`y` has no type"),
        (5, "@tool goes on a function, not on 5"),
        (None, "@tool goes on a function, not on None"),
        (len, "`f` is not written in Python, so its parameters have no types. Wrap it in a function"),
        (max, "is not written in Python"),
        (operator.itemgetter(1), "is not written in Python"),
        (functools.partial(len), "is not written in Python"),
        (int, "`int` is a class, and @tool goes on a function. Write a function that makes one"),
        (Point, "`Point` is a class"),
        (Plain, "decorate the methods of the class and use tools_of(Plain(…))"),
        (Plain(1), "`f`: `item` has no type"),
        (Plain.method, "`f` is a method without its object. Use the object's, tool(obj.f)"),
        (functools.partial(Point, 1), "`Point` is a class"),
        (functools.partial(cast("Any", two_contexts), third=1), "the partial gives it arguments that it does not take"),
        (two_contexts, "`f`: `first` and `second` are both a ToolContext, and there is one"),
        (ready_made, "`ready_made` is a tool already. Use it as it is"),
        (RawTool, "`RawTool` is a class of tools already: use RawTool() without @tool"),
        (cached_coroutine, "lru_cache would give the same coroutine or generator twice"),
        (functools.partialmethod(untyped), "@tool goes on a function"),
        (property(cast("Any", untyped)), "@tool goes on a function"),
    ],
)
def test_what_a_model_could_not_call_is_refused_when_it_is_made(function: Any, words: str) -> None:
    """Not at the first call: the author reads what to do instead."""
    with pytest.raises(DefinitionError) as error:
        FunctionTool(function, name="f")
    assert words in str(error.value)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(DefinitionError, match="A lambda has no name to call it by"):
        tool(lambda: 5)
    assert run(tool(lambda: 5, name="get_five", kind="readonly")).data == 5


def test_built_ins_without_parameters_cached_functions_and_static_methods_are_tools(tmp_path: Path) -> None:
    @functools.lru_cache
    def double(number: int) -> int:
        return 2 * number

    class Shop:
        @staticmethod
        def price(item: str) -> int:
            return len(item)

        @functools.lru_cache  # noqa: B019 - the object lives as long as the test
        def size(self, item: str) -> int:
            return len(item)

    assert run(tool(os.getcwd, kind="readonly")).data == str(Path.cwd())
    assert run(tool(double, kind="readonly"), {"number": 4}).data == 8
    assert run(tool(Shop.price, kind="readonly"), {"item": "tea"}).data == 3
    assert run(tool(Shop().size, kind="readonly"), {"item": "tea"}).data == 3


def test_what_a_partial_binds_is_the_programs_own() -> None:
    """A key bound by the program is neither shown to a model nor can a model replace it."""

    def fetch(key: str, page: str, size: int = 1) -> str:
        return f"{key} {page} {size}"

    for bound in (functools.partial(fetch, "secret"), functools.partial(fetch, key="secret")):
        one = tool(bound, kind="readonly")
        schema = one.input_schema
        assert isinstance(schema, dict)
        assert list(schema["properties"]) == ["page", "size"]
        assert "secret" not in str(schema)
        assert run(one, {"page": "a"}).data == "secret a 1"
        assert not run(one, {"page": "a", "key": "mine"}).success


def late(first: NotYetKnown, second: NotYetKnown) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def test_two_contexts_are_refused_as_soon_as_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tool(late)
    monkeypatch.setitem(globals(), "NotYetKnown", ToolContext)
    with pytest.raises(DefinitionError, match="`first` and `second` are both a ToolContext"):
        _ = made.params


# What a function hands on instead of a result


async def pieces(count: int) -> AsyncIterator[str]:
    for number in range(count):
        yield f"{number} "


def sync_pieces(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"{number} "


async def words(count: int) -> str:
    return "0 1 2 "


def handed_on(function: Any) -> Any:
    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


def handed_on_async(function: Any) -> Any:
    @functools.wraps(function)
    async def around(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return around


class Awaited:
    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return "0 1 2 "


class Counting:
    number = -1

    def __aiter__(self) -> Counting:
        return self

    async def __anext__(self) -> str:
        self.number += 1
        if self.number == 3:
            raise StopAsyncIteration
        return f"{self.number} "


@pytest.mark.parametrize(
    ("function", "streams"),
    [
        (handed_on(pieces), True),
        (handed_on(sync_pieces), True),
        (handed_on(words), False),
        (handed_on_async(pieces), True),
        (handed_on_async(sync_pieces), True),
        (handed_on_async(words), False),
        (handed_on(handed_on_async(pieces)), True),
        (functools.partial(handed_on(pieces)), True),
        (functools.partial(handed_on(pieces), count=3), True),
        (lambda: pieces(3), True),
        (lambda: sync_pieces(3), True),
        (lambda: Awaited(), False),
        (lambda: Counting(), True),
    ],
)
def test_what_a_wrapper_hands_on_is_awaited_or_streamed(function: Any, streams: bool) -> None:
    """P9: never shown as `<async_generator object …>`."""
    one = tool(function, name="count", kind="readonly")
    needed = {"count": 3} if one.input_schema["properties"] else {}  # type: ignore[index]

    async def main() -> tuple[list[object], ToolResult]:
        shown: list[object] = []
        runtime = Runtime([one])
        async for event in runtime.stream(RawCall("count", needed)):
            if isinstance(event, PartialOutput):
                shown.append(event.content)
            if isinstance(event, Done):
                return shown, event.result
        raise AssertionError("it never ended")

    shown, result = asyncio.run(main())
    assert (result.llm_content, shown) == ("0 1 2 ", ["0 ", "1 ", "2 "] if streams else [])


def test_what_is_handed_on_keeps_to_the_time_limit_and_its_errors_are_the_tools() -> None:
    async def endless(count: int) -> AsyncIterator[str]:
        while True:
            yield "x"
            await asyncio.sleep(0)

    async def failing(count: int) -> AsyncIterator[str]:
        yield "x"
        raise ToolError("It broke.")

    late = run(tool(handed_on(endless), name="late", kind="readonly", timeout=0.2), {"count": 1})
    assert late.error is not None
    assert late.error.kind == "timeout_error"
    assert run(tool(handed_on(failing), name="failing", kind="readonly"), {"count": 1}).llm_content == snapshot(
        "Error (execution_error): It broke."
    )


# Types that only the function around knows


def test_a_type_that_is_local_to_a_function_is_found() -> None:
    """T3: this file has `from __future__ import annotations`, so each of these is only a name."""

    class Item(BaseModel):
        size: int

    @dataclass
    class Place:
        name: str

    @tool(kind="readonly")
    def put(item: Item, places: list[Place], maybe: Item | None = None) -> Item:
        return Item(size=item.size + len(places))

    result = run(put, {"item": {"size": 1}, "places": [{"name": "here"}]})
    assert result.llm_content == '{"size":2}'
    assert put.output_schema is not None
    assert not run(put, {"item": {"size": "x"}, "places": []}).success


def test_a_local_type_hides_a_global_one_and_reaches_through_classes() -> None:
    class Point(BaseModel):  # pyright: ignore[reportUnusedClass] - it takes the name for the global one
        y: int

    class Map:
        class Mark(BaseModel):
            colour: str

        @tool(kind="readonly")
        def set_mark(self, at: Point, mark: Mark) -> str:
            return f"{mark.colour} at {cast('Any', at).y}"

    assert run(Map().set_mark, {"at": {"y": 5}, "mark": {"colour": "red"}}).data == "red at 5"


def test_a_type_in_a_closure_is_found_after_its_function_has_ended() -> None:
    def make() -> Any:
        class Item(BaseModel):
            size: int

        def grow(item: Item) -> int:
            return Item(size=item.size + 1).size

        return grow

    assert run(tool(make(), kind="readonly"), {"item": {"size": 1}}).data == 2


def test_a_tool_keeps_no_frame_alive() -> None:
    class Large:
        pass

    def make() -> tuple[FunctionTool, weakref.ref[Large]]:
        large = Large()

        class Item(BaseModel):
            size: int

        @tool(kind="readonly")
        def grow(item: Item) -> int:
            return item.size + 1

        return grow, weakref.ref(large)

    grow, gone = make()
    gc.collect()
    assert gone() is None
    assert run(grow, {"item": {"size": 1}}).data == 2


def test_what_a_tool_says_of_a_call_can_be_given_as_functions() -> None:
    @tool(
        kind="readonly",
        touches=lambda params: [reads("path", params.path)],
        signature=lambda params: params.path,
        always_rule=lambda params: "read:*",
        render=lambda value: f"<{value}>",
    )
    async def read(path: str) -> str:
        return path

    invocation = read.build({"path": "/a"})
    assert invocation.touches == (reads("path", "/a"),)
    assert (invocation.signature, invocation.always_rule) == ("/a", "read:*")
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


def test_it_still_says_of_itself_what_a_function_does() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    class Bot:
        @tool
        def greet(self, name: str) -> str:
            """Greet."""
            return name

    assert (add.__name__, add.__doc__, add.__module__) == ("add", "Add two numbers.", __name__)
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert list(inspect.signature(Bot().greet).parameters) == ["name"]
    assert functools.wraps(add)(lambda: None).__name__ == "add"
    assert not hasattr(add, "no_such_thing")


def test_what_needs_another_way_of_calling_is_refused_when_it_is_made() -> None:
    @functools.singledispatch
    def show(value: int) -> str:
        return str(value)

    @contextmanager
    def opened(name: str) -> Generator[str]:
        yield name

    @asynccontextmanager
    async def opened_later(name: str) -> AsyncGenerator[str]:
        yield name

    told: list[str] = []
    for one in (show, opened, opened_later):
        with pytest.raises(DefinitionError) as caught:
            tool(one)
        told.append(str(caught.value))
    assert told == snapshot(
        [
            "`show` takes its first argument by position (singledispatch). Decorate a function that calls it.",
            "`opened` is a context manager, whose value is for `with`. Decorate a function that uses it.",
            "`opened_later` is a context manager, whose value is for `with`. Decorate a function that uses it.",
        ]
    )


def test_the_context_may_have_any_name() -> None:
    @tool
    def look(_context: ToolContext, name: str) -> str:
        return f"{name} {_context.call_id != ''}"

    assert run(look, {"name": "here"}).data == "here True"
