"""What type checkers know of tools (X3). This file is checked by both of them, and runs too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Unpack, assert_type

from pydantic import BaseModel

from ferrule import (
    Answer,
    CallEvent,
    Choice,
    Done,
    FunctionTool,
    Kind,
    Output,
    PartialOutput,
    Pending,
    Progress,
    Question,
    RawTool,
    Runtime,
    Tool,
    ToolContext,
    ToolOptions,
    ToolResult,
    raw_tool,
    tool,
    tools_of,
)


class Forecast(BaseModel):
    high: float


class Desk(BaseModel):
    city: str


class AskDesk(Tool[Forecast]):
    """Ask the desk."""

    name = "ask_desk"

    async def run(self, params: Forecast, context: ToolContext[Desk]) -> str:
        return context.deps.city


def ask_the_desk(arguments: dict[str, Any], context: ToolContext[Desk]) -> str:
    return context.deps.city


raw_tool("ask_the_desk", {"type": "object"}, ask_the_desk)


@tool
def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


@tool(kind="readonly", tags=("web",), needs=("tenant",))
async def fetch(url: str, *, deep: bool = False) -> Forecast:
    """Fetch a forecast."""
    return Forecast(high=float(deep))


@tool(kind=Kind.READONLY)
async def words(text: str) -> AsyncIterator[str]:
    """Say the words of a text."""
    for word in text.split():
        yield word


@tool
def numbers(count: int) -> Iterator[int]:
    """Count."""
    yield from range(count)


@tool
def measure(context: ToolContext) -> Output[Forecast]:
    """Measure the temperature."""
    return Output(Forecast(high=1), f"{context.tool}: 1 degree")


@tool
async def pass_on(context: ToolContext) -> ToolResult[int]:
    """Let another tool do it."""
    return await context.call("add", {"first": 1})


@tool
def anything(given: Any) -> Any:
    """Give it back."""
    return given


class Bot:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def greet(self, person: str, *, loud: bool = False) -> str:
        """Greet a person."""
        return f"{self.name} greets {person}{'!' if loud else '.'}"

    @tool(kind="write")
    async def keep(self, number: int, context: ToolContext) -> int:
        """Keep a number."""
        return number

    @tool
    @staticmethod
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    @tool
    @classmethod
    def named(cls, length: int) -> list[str]:
        """Say the name."""
        return [cls.__name__] * length

    def greet_loudly(self, person: str) -> str:
        return assert_type(self.greet(person, loud=True), str)


class PoliteBot(Bot):
    pass


bot = PoliteBot("Rob")

# A call of a decorated function or method is one of the function

assert_type(add(1, second=2), int)
assert_type(list(numbers(2)), list[int])
assert_type(bot.greet("Ann", loud=True), str)
assert_type(Bot.greet(bot, "Ann"), str)
assert_type(bot.shout("text"), str)
assert_type(Bot.shout("text"), str)
assert_type(bot.named(1), list[str])
assert_type(Bot.named(1), list[str])


async def call_the_others(context: ToolContext) -> None:
    assert_type(await fetch("https://example.org", deep=True), Forecast)
    async for word in words("a text"):
        assert_type(word, str)
    assert_type(await bot.keep(1, context), int)


# A result of a tool that was given as itself is typed

runtime = Runtime([add, fetch, words, numbers, measure, pass_on, anything, *tools_of(bot)])
assert_type(runtime.run_sync(add, {"first": 1}), ToolResult[int])
assert_type(runtime.run_sync(fetch, {"url": "x"}).data, Forecast)
assert_type(runtime.run_sync(words, {"text": "a text"}).data, str)
assert_type(runtime.run_sync(numbers, {"count": 2}).data, Any)
assert_type(runtime.run_sync(measure).data, Forecast)
assert_type(runtime.run_sync(pass_on).data, int)
assert_type(runtime.run_sync(anything, {"given": 1}).data, Any)
assert_type(runtime.run_sync(bot.keep, {"number": 1}).data, int)
assert_type(runtime.run_sync("add", {"first": 1}).data, Any)


async def run_them(some: Tool[Any], of_any_form: FunctionTool) -> None:
    assert_type(await runtime.run(add, {"first": 1}, timeout=3), ToolResult[int])
    assert_type(await runtime.run(fetch, {"url": "x"}), ToolResult[Forecast])
    assert_type(await runtime.run(some), ToolResult)
    assert_type((await runtime.run(of_any_form)).data, Any)


# Everything that makes a tool, and takes one

every: list[Tool[Any]] = [add, fetch, bot.greet]
assert_type(tool(partial(add.function, 1), name="add_one").name, str)
assert_type(tool(bot.greet_loudly)("Ann"), str)
assert_type(tool(lambda: 3, name="three")(), int)


async def forecast(params: Forecast) -> float:
    return params.high


assert_type(tool(schema=Forecast, execute=forecast), RawTool)
assert_type(raw_tool("say", {"type": "object"}, lambda given: str(given)).input_schema, dict[str, Any])


def ours(**options: Unpack[ToolOptions]) -> FunctionTool[[int, int], int]:
    return tool(add.function, **options)


assert_type(ours(kind="readonly")(1, 2), int)


def ask(asked: Question) -> Answer:
    return Answer(Choice.ONCE)


def hear(event: CallEvent) -> str:
    match event:
        case Pending() | Question() | Progress() | PartialOutput():
            return event.call_id
        case Done():
            return event.result.llm_content


Runtime(every, ask=ask).subscribe(lambda event: print(hear(event)))
Runtime(every, ask=lambda question: "once")
