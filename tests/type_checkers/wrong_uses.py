"""Mistakes that both type checkers must reject (X3); each line ends with the rule of pyright and the code of mypy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from pydantic import BaseModel

from ferrule import (
    CallEvent,
    Done,
    FunctionTool,
    Question,
    Runtime,
    Tool,
    ToolContext,
    ToolOptions,
    raw_tool,
    tool,
)


@tool
def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


@tool(kind="readonly")
async def fetch(url: str, *, deep: bool = False) -> str:
    """Fetch a page."""
    return url if deep else ""


@tool
async def words(text: str) -> AsyncIterator[str]:
    """Say the words of a text."""
    yield text


class Bot:
    @tool
    def greet(self, person: str) -> str:
        """Greet a person."""
        return person

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


bot = Bot()
runtime = Runtime([add, fetch, words])

# Calls

add("1")  # wrong: reportArgumentType, arg-type
add()  # wrong: reportCallIssue, call-arg
add(1, third=2)  # wrong: reportCallIssue, call-arg
add(1).upper()  # wrong: reportAttributeAccessIssue, attr-defined
fetch("x", True)  # wrong: reportCallIssue, call-arg
fetch("x").upper()  # wrong: reportAttributeAccessIssue, attr-defined
bot.greet(1)  # wrong: reportArgumentType, arg-type
bot.greet(bot, "Ann")  # wrong: reportCallIssue, call-arg
Bot.greet("Ann")  # wrong: reportCallIssue, call-arg
bot.greet("Ann").bit_count()  # wrong: reportAttributeAccessIssue, attr-defined
bot.shout(1)  # wrong: reportArgumentType, arg-type
bot.named("x")  # wrong: reportArgumentType, arg-type

# Results

sum_as_text: str = runtime.run_sync(add, {"first": 1}).data  # wrong: reportAssignmentType, assignment
page_as_number: int = runtime.run_sync(fetch, {"url": "x"}).data  # wrong: reportAssignmentType, assignment
runtime.run_sync(words, {"text": "x"}).data.bit_count()  # wrong: reportAttributeAccessIssue, attr-defined
runtime.run_sync(add, [1])  # wrong: reportCallIssue, call-overload

as_other_tool: FunctionTool[[str], int] = add  # wrong: reportAssignmentType, assignment


# Options


@tool(kind="readonyl")  # wrong: reportArgumentType, call-overload
def misspelled() -> None: ...


tool(add.function, kind="wirte")  # wrong: reportArgumentType, call-overload
tool(add.function, needs=["tennant"])  # wrong: reportArgumentType, list-item
tool(add.function, needs="tenant")  # wrong: reportArgumentType, arg-type
tool(add.function, tags=1)  # wrong: reportArgumentType, call-overload
tool(add.function, timeout="5 s")  # wrong: reportArgumentType, call-overload
tool(add.function, cached=True)  # wrong: reportCallIssue, call-overload
tool(add.function, touches="everything")  # wrong: reportArgumentType, arg-type
tool(schema={"type": "object"})  # wrong: reportCallIssue, call-overload
raw_tool("say", {"type": "object"}, lambda: "hello")  # wrong: reportArgumentType, arg-type
raw_tool("say", {"type": "object"}, print, kind="readonyl")  # wrong: reportArgumentType, arg-type
truth: bool = raw_tool("say", True, print).input_schema  # wrong: reportAssignmentType, assignment


class Say(Tool[BaseModel]):
    name = "say"
    kind = "readonly"  # wrong: reportAssignmentType, assignment

    def run(self, params: BaseModel, context: ToolContext) -> str:
        return context.tool_name  # wrong: reportAttributeAccessIssue, attr-defined


def ours(**options: Unpack[ToolOptions]) -> FunctionTool[[int, int], str]:
    return tool(add.function, **options)  # wrong: reportReturnType, arg-type


ours(kind="readonyl")  # wrong: reportArgumentType, arg-type

# Questions and events


def ask_for_a_word(word: str) -> str:
    return word


def answer_with_a_number(question: Question) -> int:
    return len(question.rule)


def hear(event: CallEvent) -> None:
    print(event.result)  # wrong: reportAttributeAccessIssue, union-attr


def hear_done(event: Done) -> None:
    print(event.result)


Runtime(ask=ask_for_a_word)  # wrong: reportArgumentType, arg-type
Runtime(ask=answer_with_a_number)  # wrong: reportArgumentType, arg-type
runtime.subscribe(hear_done)  # wrong: reportArgumentType, arg-type
