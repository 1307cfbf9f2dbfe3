"""What a program passes for its tools (T8): typed, with each run, and never recorded, logged, shown or serialised."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import (
    DefinitionError,
    Done,
    RawCall,
    Recorder,
    Registry,
    Runtime,
    Session,
    Tool,
    ToolContext,
    composite,
    raw_tool,
    tool,
)
from ferrule.agent import Agent
from ferrule.agent.task_tool import TaskTool
from ferrule.testing import Recorded, ScriptedModel, call


@dataclass
class Shop:
    name: str
    asked: list[str] = field(default_factory=list[str])


@tool(kind="readonly")
def whose(context: ToolContext[Shop]) -> str:
    """Whose shop it is."""
    context.deps.asked.append("whose")
    return context.deps.name


@dataclass
class Office:
    name: str


@tool(kind="readonly")
async def ask_whose(context: ToolContext) -> str:
    """Ask another tool."""
    return (await context.call("whose")).llm_content


@tool(kind="readonly")
def ask_whose_sync(context: ToolContext[Any]) -> str:
    """Ask another tool, in a thread."""
    return context.call_sync("whose").llm_content


@tool(kind="readonly")
def maybe(context: ToolContext[Shop | None]) -> str:
    """Works without a shop too."""
    return context.deps.name if context.deps is not None else "nobody's"


@tool(kind="readonly", cache=True)
def cached(context: ToolContext[Shop]) -> str:
    """Looks something up."""
    return context.deps.name


class NoParams(BaseModel):
    pass


class WhoseClass(Tool[NoParams]):
    """The same as a class."""

    kind = "readonly"  # pyright: ignore[reportAssignmentType]

    async def run(self, params: NoParams, context: ToolContext[Shop]) -> str:
        return context.deps.name


def handle(arguments: dict[str, Any], context: ToolContext[Shop]) -> str:
    return context.deps.name


WHOSE_RAW = raw_tool("whose_raw", {"type": "object"}, handle, kind="readonly")
BOTH = composite("both", steps=[("one", "whose", {})], params=NoParams, kind="readonly")
TOOLS = [whose, ask_whose, ask_whose_sync, maybe, cached, WhoseClass(), WHOSE_RAW, BOTH]
TAKING = ["whose", "ask_whose", "ask_whose_sync", "maybe", "WhoseClass", "whose_raw", "both"]


@pytest.mark.parametrize("name", TAKING)
async def test_a_tool_gets_them_from_the_run_from_the_batch_and_from_the_session(name: str) -> None:
    runtime = Runtime(TOOLS)
    assert (await runtime.run(name, deps=Shop("a"))).llm_content == "a"
    results = await runtime.batch([RawCall(name), RawCall(name)], deps=Shop("b"))
    assert [one.llm_content for one in results] == ["b", "b"]
    session = Session(deps=Shop("c"))
    assert (await runtime.run(name, session=session)).llm_content == "c"
    assert (await runtime.run(name, session=session, deps=Shop("d"))).llm_content == "d"
    assert (await runtime.for_session(session).run(name)).llm_content == "c"
    done = [event async for event in runtime.stream(RawCall(name), deps=Shop("e")) if isinstance(event, Done)]
    assert done[-1].result.llm_content == "e"


@pytest.mark.parametrize("name", TAKING)
def test_they_come_through_the_calls_for_code_without_await(name: str) -> None:
    runtime = Runtime(TOOLS)
    assert runtime.run_sync(name, deps=Shop("a")).llm_content == "a"
    assert runtime.batch_sync([RawCall(name)], deps=Shop("b"))[0].llm_content == "b"


@pytest.mark.parametrize("name", ["whose", "WhoseClass", "whose_raw"])
def test_a_tool_that_declares_them_is_not_run_without(name: str) -> None:
    recorded = Recorded()
    result = Runtime(TOOLS, recorders=[recorded]).run_sync(name)
    assert result.llm_content.replace(name, "NAME") == snapshot("""\
Error (permission_error): Missing deps in context: `NAME` needs it.

Suggestion: The program that embeds Ferrule must pass `deps=…` with the run; another call will not help.\
""")
    assert (recorded.only.stage, recorded.only.verdict) == ("authorise", "deny")


def test_a_tool_that_may_do_without_is_run_without() -> None:
    assert Runtime(TOOLS).run_sync("maybe").llm_content == "nobody's"


def test_the_parameter_never_shows_in_the_schema() -> None:
    assert whose.input_schema == {"additionalProperties": False, "properties": {}, "type": "object"}


def test_two_contexts_are_refused_with_and_without_a_type() -> None:
    with pytest.raises(DefinitionError, match="both a ToolContext"):

        @tool
        def two(one: ToolContext, other: ToolContext[Shop]) -> str:  # pyright: ignore[reportUnusedFunction]
            """Two."""
            return ""


def test_a_cached_result_is_not_given_to_a_call_with_other_deps() -> None:
    runtime = Runtime(TOOLS)
    assert [runtime.run_sync("cached", deps=Shop(name)).llm_content for name in "ab"] == ["a", "b"]


class Everything(Recorder):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def record(self, record: Any) -> None:
        self.seen.append(repr(record))


def test_they_are_never_recorded_logged_shown_or_serialised(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = Shop("the-secret-of-the-shop")

    @tool(kind="readonly")
    def fail(context: ToolContext[Shop]) -> str:
        """Fail."""
        raise RuntimeError("nothing of it here")

    everything, events = Everything(), list[Any]()
    session = Session(deps=secret)
    runtime = Runtime([fail], recorders=[everything], session=session)
    runtime.subscribe(events.append)
    result = runtime.run_sync("fail", deps=secret)
    assert len(everything.seen) == 1
    seen = [*everything.seen, caplog.text, repr(session), repr(events), json.dumps(result.to_dict()), repr(runtime)]
    assert not any("the-secret" in one for one in seen)


# With an agent


def test_an_agent_passes_them_to_its_tools_and_to_the_calls_that_those_make() -> None:
    shop = Shop("Ann's")
    model = ScriptedModel([[call("whose"), call("ask_whose")][n] for n in range(2)] + ["Ann's."])
    agent = Agent(model, TOOLS, deps_type=Shop)
    agent.answer_sync("Whose?", deps=shop)
    assert shop.asked == ["whose", "whose"]
    assert "Shop(" not in repr(agent.conversation.messages)


def test_each_run_has_its_own() -> None:
    agent = Agent(ScriptedModel([call("whose"), "one", call("whose"), "two"]), TOOLS, deps_type=Shop)
    shops = [Shop("a"), Shop("b")]
    for shop in shops:
        agent.answer_sync("Whose?", deps=shop)
    assert [shop.asked for shop in shops] == [["whose"], ["whose"]]


def test_a_sub_agent_gets_them_too() -> None:
    shop = Shop("a")
    model = ScriptedModel([call("Task", {"description": "x", "prompt": "y"}), call("whose"), "a", "a"])
    tools = Registry([whose])
    agent = Agent(model, tools, deps_type=Shop)
    tools.register(TaskTool(agent))
    agent.answer_sync("Whose?", deps=shop)
    assert shop.asked == ["whose"]
    model.check()


def test_an_agent_that_was_given_a_type_is_not_run_without_them() -> None:
    model = ScriptedModel(["never"])
    agent = Agent(model, TOOLS, deps_type=Shop)
    with pytest.raises(TypeError, match="tools work with a Shop: pass `deps=…` with each turn"):
        agent.answer_sync("Whose?")  # pyright: ignore[reportCallIssue]
    assert model.requests == []
    assert not agent.working


@pytest.mark.parametrize("one", [whose, WhoseClass(), WHOSE_RAW], ids=["function", "class", "raw"])
def test_deps_of_another_type_are_refused_before_the_tool_runs(one: Tool[Any]) -> None:
    runtime = Runtime([one])
    refused = runtime.run_sync(one.name, deps=Office("Ada's"))
    assert refused.error is not None
    assert refused.error.kind == "permission_error"
    assert refused.error.message == f"`{one.name}` works with deps of the type Shop, not Office."
    assert runtime.run_sync(one.name, deps=Shop("Ada's")).llm_content == "Ada's"


def test_deps_fit_a_protocol_and_a_union_where_they_can_be_checked() -> None:
    class Named(Protocol):
        name: str

    @tool(kind="readonly")
    def by_protocol(context: ToolContext[Named]) -> str:
        """Whose."""
        return context.deps.name

    @tool(kind="readonly")
    def by_union(context: ToolContext[Shop | Office]) -> str:
        """Whose."""
        return context.deps.name

    runtime = Runtime([by_protocol, by_union])
    for name in ("by_protocol", "by_union"):
        assert runtime.run_sync(name, deps=Office("Ada's")).data == "Ada's"
    assert not runtime.run_sync("by_union", deps="Ada's").success
