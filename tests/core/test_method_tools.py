"""Decorated methods (T4): a tool of its object, one and the same each time."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import pickle
import threading
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from ferrule import (
    Answer,
    Choice,
    DefinitionError,
    FunctionTool,
    Question,
    Registry,
    Runtime,
    ToolContext,
    ToolResult,
    raw_tool,
    tool,
    tools_of,
)
from ferrule.dialects import Exporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Bot:
    def __init__(self, greeting: str = "Hello") -> None:
        self.greeting = greeting

    @tool(kind="readonly")
    def greet(self, name: str) -> str:
        """Greet a person.

        Args:
            name: Who to greet.
        """
        return f"{self.greeting}, {name}!"

    @tool(kind="readonly")
    async def report(self, context: ToolContext) -> str:
        """Report where it runs."""
        return f"{self.greeting} from {context.tool}"

    @tool(kind="readonly")
    async def count(self, to: int) -> AsyncIterator[str]:
        """Count."""
        for number in range(to):
            yield f"{number}"

    @tool(kind="readonly")
    @staticmethod
    def add(left: int, right: int) -> int:
        """Add two numbers."""
        return left + right

    @staticmethod
    @tool(kind="readonly")
    def subtract(left: int, right: int) -> int:
        """Subtract a number from another."""
        return left - right

    @tool(kind="readonly")
    @classmethod
    def describe_kind(cls, adjective: str) -> str:
        """Describe what sort of bot it is."""
        return f"a {adjective} {cls.__name__}"

    @classmethod
    @tool(kind="readonly")
    def name_kind(cls, prefix: str) -> str:
        """Name the sort of bot."""
        return f"{prefix}{cls.__name__}"


class LoudBot(Bot):
    @tool(kind="readonly")
    def greet(self, name: str, times: int = 1) -> str:  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride, reportIncompatibleUnannotatedOverride]
        """Greet a person loudly."""
        return super().greet(name).upper() * times

    def count(self, to: int) -> int:  # type: ignore[override]
        return to

    @tool
    def shout(self) -> str:
        """Shout."""
        return "AAA"


class SlottedBot:
    __slots__ = ("greeting",)

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    @tool(kind="readonly")
    def greet(self, name: str) -> str:
        """Greet a person."""
        return f"{self.greeting}, {name}!"


def run(one: Any, arguments: Any = None) -> ToolResult:
    return asyncio.run(Runtime([one]).run(one.name, arguments))


def named(tools: list[Any]) -> list[str]:
    return [one.name for one in tools]


def test_a_decorated_method_is_a_tool_of_its_object() -> None:
    bot, other = Bot(), Bot("Good day")
    assert run(bot.greet, {"name": "Ada"}).data == "Hello, Ada!"
    assert run(other.greet, {"name": "Ada"}).data == "Good day, Ada!"
    assert bot.greet.description.text == "Greet a person."
    assert bot.greet.input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {"name": {"description": "Who to greet.", "type": "string"}},
            "required": ["name"],
            "type": "object",
        }
    )


def test_it_can_still_be_called_as_a_method() -> None:
    bot = Bot()
    assert bot.greet("Ada") == Bot.greet(bot, "Ada") == "Hello, Ada!"
    assert Bot.describe_kind("kind") == bot.describe_kind("kind") == "a kind Bot"
    assert (bot.add(1, 2), Bot.subtract(1, 2), bot.name_kind("my")) == (3, -1, "myBot")  # type: ignore[operator]


def test_methods_may_be_async_stream_and_take_the_context() -> None:
    assert run(Bot().report).data == "Hello from report"
    assert run(Bot().count, {"to": 3}).data == "012"


def test_every_object_has_one_tool_of_each_method() -> None:
    bot, other = Bot(), Bot()
    assert bot.greet is bot.greet
    assert bot.greet is not other.greet
    assert bot.greet is not bot.report
    assert bot.greet.params is other.greet.params, "compiled once for all objects"
    bot.greet.enabled = False
    assert (bot.greet.enabled, other.greet.enabled) == (False, True)


def test_always_allow_holds_for_the_tool_of_this_object() -> None:
    """P4: and for no other object's."""

    class Robot:
        @tool(kind="write")
        def move(self, steps: int) -> str:
            """Move."""
            return f"moved {steps}"

    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Choice.ALWAYS)

    async def main() -> list[bool]:
        one, other = Robot(), Robot()
        runtime = Runtime([one.move], ask=ask)
        results = [await runtime.run("move", {"steps": 1})]
        assert isinstance(runtime.tools, Registry)
        runtime.tools.register(one.move, replace=True)
        results.append(await runtime.run("move", {"steps": 2}))
        runtime.tools.register(other.move, replace=True)
        results.append(await runtime.run("move", {"steps": 3}))
        return [result.success for result in results]

    assert asyncio.run(main()) == [True, True, True]
    assert len(asked) == 2, "for each object's tool once"


def test_all_tools_of_an_object_in_the_order_they_were_defined() -> None:
    bot = Bot()
    listed = tools_of(bot)
    assert named(listed) == ["greet", "report", "count", "add", "subtract", "describe_kind", "name_kind"]
    assert listed[0] is bot.greet
    assert [one is other for one, other in zip(listed, tools_of(bot), strict=True)] == [True] * 7
    results = [
        asyncio.run(Runtime(listed).run(name, arguments)).data
        for name, arguments in (
            ("add", {"left": 1, "right": 2}),
            ("subtract", {"left": 1, "right": 2}),
            ("describe_kind", {"adjective": "kind"}),
            ("name_kind", {"prefix": "my"}),
        )
    ]
    assert results == [3, -1, "a kind Bot", "myBot"]


def test_inherited_tools_are_tools_of_the_subclass_and_overriding_replaces_them() -> None:
    """An override that is not decorated is a plain method again."""
    bot = LoudBot()
    assert named(tools_of(bot)) == ["greet", "report", "add", "subtract", "describe_kind", "name_kind", "shout"]
    assert run(bot.greet, {"name": "Ada", "times": 2}).data == "HELLO, ADA!HELLO, ADA!"
    assert run(bot.describe_kind, {"adjective": "loud"}).data == "a loud LoudBot"
    assert bot.describe_kind is LoudBot.describe_kind
    assert bot.describe_kind is not Bot.describe_kind
    assert bot.count(3) == 3


def test_what_shadows_a_tool_in_the_object_is_not_passed_by() -> None:
    bot = Bot()
    bot.greet = None  # type: ignore[assignment]
    assert "greet" not in named(tools_of(bot))


def test_a_class_has_only_its_static_and_class_methods() -> None:
    class Sums:
        @tool
        @staticmethod
        def add(left: int, right: int) -> int:
            return left + right

        total = raw_tool("total", {"type": "object"}, lambda arguments: 0)

    assert named(tools_of(Sums)) == ["add", "total"]
    with pytest.raises(DefinitionError, match=r"`Bot\.greet` needs an object: write tools_of\(Bot\(…\)\)"):
        tools_of(Bot)
    assert tools_of(5) == []


def test_a_method_without_its_object_is_refused() -> None:
    assert isinstance(Bot.greet, FunctionTool)
    with pytest.raises(DefinitionError, match=r"`greet` is a method and needs its object: pass `obj\.greet`"):
        Registry([Bot.greet])
    exporter = Exporter("openai")
    assert exporter.definitions([Bot.greet, Bot().report])[0]["function"]["name"] == "report"
    assert exporter.losses[0].tool == "greet"


@pytest.mark.parametrize("wrong", [Bot(), Bot().greet("Ada")])
def test_what_is_no_tool_is_refused_with_words_for_objects(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"tools_of\(obj\) gives those of an object"):
        Registry([wrong])


def test_a_decorator_above_tool_hides_it() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def around(*args: Any) -> Any:
            return function(*args)

        return around

    class Box:
        @logged
        @tool
        def weigh(self) -> int:
            return 1

    for use in (lambda: Registry([Box().weigh]), lambda: tools_of(Box())):
        with pytest.raises(DefinitionError, match=r"hides the tool `weigh`\. Write @tool above all other decorators"):
            use()


def test_one_tool_alone_is_not_a_list_of_tools() -> None:
    with pytest.raises(TypeError, match=r"write \[greet\]"):
        Runtime(Bot().greet)  # type: ignore[arg-type]


def test_a_method_without_self_is_refused_when_the_class_is_made() -> None:
    with pytest.raises((DefinitionError, RuntimeError)) as error:  # Python 3.11 wraps it

        class Box:  # pyright: ignore[reportUnusedClass]
            @tool
            def ping() -> str:  # type: ignore[misc]
                return "pong"

    told = error.value if isinstance(error.value, DefinitionError) else error.value.__cause__
    assert str(told) == snapshot(
        "`Box.ping` has no `self`. Add it, or write @staticmethod between @tool and the method."
    )


def test_the_parameters_of_a_method_need_types_too() -> None:
    with pytest.raises(DefinitionError, match="`put`: `thing` has no type"):

        class Box:  # pyright: ignore[reportUnusedClass]
            @tool
            def put(self, thing) -> None: ...  # type: ignore[no-untyped-def]


def test_every_parameter_of_a_static_method_needs_a_type() -> None:
    """Where @staticmethod stands above @tool, that is known only when the tool is looked at."""

    class Box:
        @staticmethod
        @tool(kind="readonly")
        def put(thing, place: str) -> None: ...  # type: ignore[no-untyped-def]

    assert Box.put.fault == "`put`: `thing` has no type. Write one, e.g. `thing: str`."


def test_self_may_have_a_type() -> None:
    class Box:
        @tool(kind="readonly")
        def weigh(self: Any, scale: str) -> str:
            return scale

    assert run(Box().weigh, {"scale": "kg"}).data == "kg"


def test_an_abstract_method_stays_abstract() -> None:
    class Shape(ABC):
        @tool(kind="readonly")
        @abstractmethod
        def area(self) -> int: ...

    class Square(Shape):
        @tool(kind="readonly")
        def area(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride, reportIncompatibleUnannotatedOverride]
            return 4

    with pytest.raises(TypeError, match="abstract"):
        Shape()  # type: ignore[abstract]
    assert run(Square().area).data == 4


# Objects come and go


def test_a_tool_lives_as_long_as_its_object_and_no_longer() -> None:
    bot = Bot()
    gone = [weakref.ref(bot), weakref.ref(bot.greet), weakref.ref(tools_of(bot)[1])]
    del bot
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


def test_a_tool_keeps_its_object() -> None:
    assert run(Bot("Only here").greet, {"name": "Ada"}).data == "Only here, Ada!"
    assert run(SlottedBot("Only here").greet, {"name": "Ada"}).data == "Only here, Ada!"


def test_slots_are_no_obstacle() -> None:
    bot, other = SlottedBot("Hi"), SlottedBot("Ho")
    greet = bot.greet
    assert greet is bot.greet
    assert greet is not other.greet
    assert named(tools_of(bot)) == ["greet"]
    assert other.greet("Ada") == "Ho, Ada!"
    gone = weakref.ref(greet)
    del greet
    gc.collect()
    assert gone() is None
    assert run(bot.greet, {"name": "Ada"}).data == "Hi, Ada!"


def test_a_copy_of_an_object_has_tools_of_its_own() -> None:
    bot = Bot()
    greet = bot.greet
    for other in (copy.copy(bot), copy.deepcopy(bot), pickle.loads(pickle.dumps(bot))):
        other.greeting = "Copied"
        assert other.greet is not greet
        assert other.greet is other.greet
        assert run(other.greet, {"name": "Ada"}).data == "Copied, Ada!"
    assert bot.greet is greet


def test_objects_that_are_frozen_equal_or_without_a_hash_have_tools() -> None:
    @dataclass(frozen=True)
    class Frozen:
        size: int

        @tool(kind="readonly")
        def grow(self, by: int) -> int:
            return self.size + by

    class Listed(list[int]):
        @tool(kind="readonly")
        def total(self) -> int:
            return sum(self)

    assert Frozen(1) == Frozen(1)
    assert Frozen(1).grow is not Frozen(1).grow
    assert run(Frozen(1).grow, {"by": 2}).data == 3
    assert run(Listed([1, 2]).total).data == 3


def test_threads_that_ask_at_once_get_the_same_tool() -> None:
    bot, found = Bot(), list[Any]()
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.append(bot.greet)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(one) for one in found} == {id(bot.greet)}


def test_a_view_can_show_the_tools_of_two_objects_beside_each_other() -> None:
    """Both have the same names, and the registry says so."""
    english, french = Bot("Hello"), Bot("Bonjour")
    with pytest.raises(ValueError, match=r"`greet` 1\.0\.0 is registered already"):
        Registry([english.greet, french.greet])
    renamed = Registry([french.greet]).prefixed("french_")
    assert asyncio.run(Runtime(renamed).run("french_greet", {"name": "Ada"})).data == "Bonjour, Ada!"
