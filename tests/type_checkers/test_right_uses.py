"""X3: what type checkers know of a tool is so, and other frameworks read it as the function that it was."""

from __future__ import annotations

import inspect
import json
import runpy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import pytest
from pydantic import Field

from ferrule import FunctionTool, Runtime, ToolResult, raw_tool, tool


def test_the_right_uses_run() -> None:
    runpy.run_path(str(Path(__file__).with_name("right_uses.py")))


@tool(kind="readonly")
def add(first: Annotated[int, Field(description="One number.")], second: int = 2) -> int:
    """Add two numbers."""
    return first + second


@tool(kind="readonly")
async def fetch(url: str) -> str:
    """Fetch a page."""
    return f"<page {url}>"


@tool
async def words(text: str) -> AsyncIterator[str]:
    """Say the words of a text."""
    for word in text.split():
        yield word


class Bot:
    @tool
    def greet(self, person: str) -> str:
        """Greet a person."""
        return f"Hello, {person}."

    @tool
    async def keep(self, text: str) -> str:
        """Keep a text."""
        return f"Kept {text}."


BOT = Bot()


def test_a_tool_has_the_signature_and_the_types_of_its_function() -> None:
    """X6: `get_type_hints` used to raise `NameError: name 'Kind'`."""
    for one in (add, fetch, words, BOT.greet, BOT.keep):
        assert inspect.signature(one) == inspect.signature(one.function)
        assert get_type_hints(one) == get_type_hints(one.function)
        assert inspect.iscoroutinefunction(one) == inspect.iscoroutinefunction(one.function)
        assert inspect.isasyncgenfunction(one) == inspect.isasyncgenfunction(one.function)
    assert get_type_hints(add) == {"first": int, "second": int, "return": int}
    assert get_args(get_type_hints(add, include_extras=True)["first"])[1].description == "One number."
    assert list(inspect.signature(BOT.greet).parameters) == ["person"]
    assert get_type_hints(BOT.greet) == {"person": str, "return": str}


def test_types_at_run_time_are_those_of_the_annotations() -> None:
    one: FunctionTool[[int, int], int] = add
    result: ToolResult[int] = Runtime([one]).run_sync(one, {"first": 1})
    assert result.data == one(1, 2) == 3


def test_a_schema_of_anything_or_nothing_is_an_object_too() -> None:
    """T3: JSON Schema allows `true` and `false`."""
    anything, nothing = (raw_tool("say", schema, str, kind="readonly") for schema in (True, False))
    assert anything.input_schema == {}
    assert nothing.input_schema == {"not": {}}
    runtime = Runtime([anything])
    assert runtime.run_sync("say", {"a": 1}).success
    assert not Runtime([nothing]).run_sync("say", {"a": 1}).success


CALLS: list[tuple[FunctionTool, dict[str, Any], object]] = [
    (add, {"first": 1}, 3),
    (fetch, {"url": "x"}, "<page x>"),
    (BOT.greet, {"person": "Ann"}, "Hello, Ann."),
    (BOT.keep, {"text": "it"}, "Kept it."),
]


@pytest.mark.slow  # the frameworks take seconds to import
@pytest.mark.filterwarnings("default")
class TestInOtherFrameworks:
    """X6: a tool is taken where they take a function."""

    async def test_pydantic_ai(self) -> None:
        from pydantic_ai import Agent, Tool
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        for one, arguments, expected in CALLS:
            theirs = Tool(one)
            assert theirs.function_schema.json_schema["properties"].keys() == one.input_schema["properties"].keys()

            def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
                returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
                if returned:
                    return ModelResponse(parts=[TextPart(str(returned[0].content))])
                return ModelResponse(parts=[ToolCallPart(one.name, arguments)])  # noqa: B023

            agent = Agent(FunctionModel(answer), tools=[theirs])
            assert (await agent.run("do it")).output == str(expected)

    async def test_openai_agents(self) -> None:
        from agents import function_tool
        from agents.tool_context import ToolContext

        for one, arguments, expected in CALLS:
            theirs = function_tool(one)
            assert theirs.params_json_schema["properties"].keys() == one.input_schema["properties"].keys()
            text = json.dumps(arguments)
            context = ToolContext(context=None, tool_name=one.name, tool_call_id="c", tool_arguments=text)

            assert await theirs.on_invoke_tool(context, text) == expected

    async def test_langchain(self) -> None:
        from langchain_core.tools import StructuredTool
        from langchain_core.tools import tool as their_tool

        for one, arguments, expected in CALLS:
            is_async = inspect.iscoroutinefunction(one)
            structured = StructuredTool.from_function(None if is_async else one, one if is_async else None)
            for theirs in (structured, their_tool(one)):
                assert theirs.args.keys() == one.input_schema["properties"].keys()
                assert await theirs.ainvoke(arguments) == expected
