"""What a builder gets wrong on the first day is refused where it was written, in words that say what to write (X6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ferrule import Runtime, tool
from ferrule.adapters import (
    anthropic_tools,
    langchain_tools,
    openai_agents_tools,
    openai_functions,
    pydantic_ai_toolset,
)
from ferrule.agent import Agent, AgentLimits, ModelHook
from ferrule.hooks import Hook
from ferrule.mcp import McpServer, asgi_app
from ferrule.testing import Recorded, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable


@tool(kind="readonly")
def look_up(word: str) -> str:
    """Look a word up."""
    return word


async def tools_of_the_caller(session: object) -> list[Any]:
    return [look_up]


def agent(**options: Any) -> Agent[Any, Any]:
    return Agent(ScriptedModel([]), options.pop("tools", [look_up]), **options)


def runtime(**options: Any) -> Runtime:
    return Runtime([look_up], **options)


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (runtime, {"session": {"user": "ann"}}, "`session` is a Session, not dict."),
        (runtime, {"limits": {"timeout": 3}}, "`limits` is a Limits, not dict."),
        (runtime, {"tracer": "otel"}, "`tracer` is an object such as SpanTracer(), not 'otel'."),
        (
            runtime,
            {"recorders": Recorded()},
            "Recorders come in a list, also where there is one: write recorders=[[]].",
        ),
        (runtime, {"hooks": [ModelHook("style", before=print)]}, "Hooks are of the type Hook here, not ModelHook"),
        (runtime, {"hooks": [Hook("empty")]}, "The hook `empty` has no function `before` and no function `after`."),
        (agent, {"hooks": [Hook("calls", before=print)]}, "Hooks of calls go to a Runtime."),
        (agent, {"hooks": [ModelHook("empty")]}, "The hook `empty` has no function `before` and no function `after`."),
        (agent, {"system": 5}, "`system` is text, or a function that gives it, not 5."),
        (agent, {"conversation": []}, "`conversation` is a Conversation, not list."),
        (agent, {"deps_type": 5}, "`deps_type` is a class, not 5. Put several objects into a dataclass."),
        (agent, {"tools": tools_of_the_caller}, "A function that gives the tools isn't async."),
        (agent, {"tools": [print]}, "`print` is a function, not a tool: write @tool above it, or tool(print)."),
        (AgentLimits, {"steps": "3"}, "AgentLimits: steps must be a number above 0, not '3'."),
    ],
)
def test_a_wrong_option_is_explained(make: Callable[..., object], options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        make(**options)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "make",
    [
        McpServer, asgi_app, pydantic_ai_toolset, langchain_tools, openai_agents_tools, openai_functions,
        anthropic_tools,
    ],
)  # fmt: skip
def test_what_takes_a_runtime_takes_no_list_of_tools(make: Callable[..., object]) -> None:
    for wrong, kind in (([look_up], "list"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"`runtime` is a Runtime, not {kind}."):
            make(wrong)
