"""O1, M1: an agent's turns, its requests to models and its tools as one tree of spans, by the GenAI conventions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from inline_snapshot import snapshot
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import BaseModel

from ferrule.agent import Agent, AgentLimits, Ending, ModelHook
from ferrule.agent.task_tool import add_task_tool
from ferrule.core.context import Caller, Session, ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.model import (
    AssistantMessage,
    Finished,
    ModelError,
    ModelEvent,
    ModelFault,
    ModelRequest,
    ModelSettings,
    Retrying,
    TextDelta,
    Usage,
)
from ferrule.hooks import HookReply
from ferrule.pipeline.run import Runtime
from ferrule.records.spans import SpanTracer
from ferrule.registry.registry import Registry
from ferrule.testing import ScriptedModel, call, say

SECRET = "sk-ant-abcdefghijklmnop1234"


class Traced:
    """Spans that were ended, and what they say."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.inner = self.provider.get_tracer("a tool's own")

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.all if span.name == name]
        return found

    def said(self, name: str) -> dict[str, Any]:
        return dict(self.one(name).attributes or {})

    @property
    def chats(self) -> list[dict[str, Any]]:
        return [dict(span.attributes or {}) for span in self.all if span.name.startswith("chat")]

    @property
    def tree(self) -> str:
        """Each span below its parent, in the order they began."""
        spans = sorted(self.all, key=lambda span: span.start_time or 0)

        def below(parent: int | None, depth: int) -> list[str]:
            lines: list[str] = []
            for span in spans:
                if (span.parent.span_id if span.parent else None) == parent:
                    assert span.context is not None
                    lines += ["  " * depth + span.name, *below(span.context.span_id, depth + 1)]
            return lines

        return "\n".join(below(None, 0))


@pytest.fixture
def traced() -> Traced:
    return Traced()


def agent_of(traced: Traced, replies: Any, *tools: Any, content: bool = False, **options: Any) -> Agent:
    session = Session(id="s1", caller=Caller("acme", "ann"))
    own_loop = options.pop("own_loop", False)
    runtime = Runtime(tools, tracer=SpanTracer(traced.provider, content=content), session=session, own_loop=own_loop)
    return Agent(ScriptedModel(replies, name="gemini/gemini-3-pro"), runtime=runtime, **options)


USED = Usage(120, 30, 40, 5, 0.25)


@tool(kind="readonly")
async def look(number: int) -> str:
    """Look something up."""
    return f"found {number}"


async def test_a_turn_is_a_tree_of_spans_by_the_conventions(traced: Traced) -> None:
    agent = agent_of(traced, [say("", call("look", {"number": 1}), usage=USED), say("Done.", usage=USED)], look)
    await agent.answer("Find it.")
    assert traced.tree == snapshot(
        """\
invoke_agent
  chat gemini-3-pro
  execute_tool look
  chat gemini-3-pro"""
    )
    assert traced.said("invoke_agent") == snapshot(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "gcp.gemini",
            "gen_ai.request.model": "gemini-3-pro",
            "gen_ai.conversation.id": "s1",
            "ferrule.tenant": "acme",
            "user.id": "ann",
            "gen_ai.usage.input_tokens": 240,
            "gen_ai.usage.output_tokens": 60,
            "gen_ai.usage.cache_read.input_tokens": 80,
            "gen_ai.usage.cache_creation.input_tokens": 10,
            "ferrule.usage.cost": 0.5,
            "ferrule.turn.ending": "done",
        }
    )
    said = traced.chats[0]
    assert said.pop("gen_ai.response.time_to_first_chunk", 0) > 0
    assert said == snapshot(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "gcp.gemini",
            "gen_ai.request.model": "gemini-3-pro",
            "gen_ai.request.stream": True,
            "gen_ai.conversation.id": "s1",
            "ferrule.tenant": "acme",
            "user.id": "ann",
            "gen_ai.response.finish_reasons": ("tool_call",),
            "gen_ai.usage.input_tokens": 120,
            "gen_ai.usage.output_tokens": 30,
            "gen_ai.usage.cache_read.input_tokens": 40,
            "gen_ai.usage.cache_creation.input_tokens": 5,
            "ferrule.usage.cost": 0.25,
        }
    )
    assert {span.name: span.kind for span in traced.all} == {
        "invoke_agent": SpanKind.INTERNAL, "chat gemini-3-pro": SpanKind.CLIENT, "execute_tool look": SpanKind.INTERNAL
    }  # fmt: skip
    assert all(span.status.status_code is StatusCode.UNSET for span in traced.all)


@pytest.mark.parametrize("own_loop", [False, True])
async def test_what_tools_do_is_below_their_spans_in_every_thread_and_task(traced: Traced, own_loop: bool) -> None:
    def inside(name: str) -> Any:
        return traced.inner.start_as_current_span(name)

    @tool(kind="readonly")
    def sync(context: ToolContext) -> str:
        """Run in a thread, and call another tool from there."""
        with inside("in a thread"):
            return context.call_sync("look", {"number": 1}).llm_content

    @tool(kind="readonly")
    async def nested(context: ToolContext) -> str:
        """Call two tools at once, in tasks of its own."""
        async with asyncio.TaskGroup() as group:
            group.create_task(context.call("look", {"number": 2}))
            group.create_task(context.call("sync", {}))
        return "both"

    @tool(kind="readonly")
    def pieces(context: ToolContext) -> Any:
        """Stream from a thread."""
        with inside("while it streams"):
            yield "a"

    replies = [say("", call("sync"), call("nested"), call("pieces")), "Done."]
    agent = agent_of(traced, replies, sync, nested, pieces, look, own_loop=own_loop)
    await agent.answer("Go.")
    lines = traced.tree.splitlines()
    assert sorted(lines) == sorted(
        """\
invoke_agent
  chat gemini-3-pro
  execute_tool sync
    in a thread
      execute_tool look
  execute_tool nested
    execute_tool look
    execute_tool sync
      in a thread
        execute_tool look
  execute_tool pieces
    while it streams
  chat gemini-3-pro""".splitlines()
    )


async def test_an_agent_has_the_name_that_its_program_gave_it(traced: Traced) -> None:
    research = Agent(ScriptedModel(["Found."]), name="researcher").as_tool("research", "Finds things out.")
    agent = agent_of(traced, [call("research", {"prompt": "p"}), "Done."], research, name="support")
    await agent.answer("Go.")
    assert traced.said("invoke_agent support")["gen_ai.agent.name"] == "support"
    assert traced.said("invoke_agent research")["gen_ai.agent.name"] == "research"


async def test_a_sub_agent_is_a_turn_below_the_tool_that_started_it(traced: Traced) -> None:
    registry = Registry([look])
    session = Session(id="s1")
    runtime = Runtime(registry, tracer=SpanTracer(traced.provider), session=session)
    replies = [call("Task", {"description": "d", "prompt": "p"}), call("look", {"number": 1}), "Found.", "Done."]
    agent = Agent(ScriptedModel(replies), runtime=runtime)
    add_task_tool(agent, registry)
    await agent.answer("Go.")
    assert traced.tree == snapshot(
        """\
invoke_agent
  chat test
  execute_tool Task
    invoke_agent Task
      chat test
      execute_tool look
      chat test
  chat test"""
    )
    assert traced.said("invoke_agent Task")["gen_ai.agent.name"] == "Task"
    assert len({span.context.trace_id for span in traced.all if span.context}) == 1


async def test_a_model_that_a_tool_asks_is_below_the_tool(traced: Traced) -> None:
    """T8."""

    @tool(kind="readonly")
    async def ask(context: ToolContext) -> str:
        """Ask the model."""
        assert context.session.model_adapter is not None
        return await context.session.model_adapter.complete("Which?")

    await agent_of(traced, [call("ask"), "This one.", "Done."], ask).answer("Go.")
    assert traced.tree == snapshot(
        """\
invoke_agent
  chat gemini-3-pro
  execute_tool ask
    chat gemini-3-pro
  chat gemini-3-pro"""
    )


async def test_turns_are_below_the_span_of_the_program_around_them(traced: Traced) -> None:
    agent = agent_of(traced, ["One.", "Two."])
    with traced.inner.start_as_current_span("request"):
        await agent.answer("Go.")
    await agent.answer("Again.")
    assert traced.tree == snapshot(
        """\
request
  invoke_agent
    chat gemini-3-pro
invoke_agent
  chat gemini-3-pro"""
    )


async def tries_twice(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    yield Retrying(1, 0.0, f"the server said {SECRET}")
    yield TextDelta("Done.")
    yield Finished(AssistantMessage("Done."), USED, "length")


async def test_retries_and_why_it_stopped(traced: Traced) -> None:
    agent = agent_of(traced, [tries_twice, "More."])
    await agent.answer("Go.")
    assert traced.chats[0]["ferrule.request.retries"] == 1
    assert traced.chats[0]["gen_ai.response.finish_reasons"] == ("length",)
    assert all(span.status.status_code is StatusCode.UNSET for span in traced.all)


async def test_a_failed_request_fails_its_turn_and_tells_no_secrets(traced: Traced) -> None:
    """P10."""
    agent = agent_of(traced, [ModelError(ModelFault.BUSY, f"Too many requests with {SECRET}.")])
    with pytest.raises(ModelError):
        await agent.answer("Go.")
    for name in ("chat gemini-3-pro", "invoke_agent"):
        assert traced.one(name).status.status_code is StatusCode.ERROR
        assert traced.said(name)["error.type"] == "busy"
    assert traced.said("invoke_agent")["ferrule.turn.ending"] == "failed"
    assert not any(SECRET in span.to_json() for span in traced.all)


async def test_a_turn_that_a_limit_ends_says_which_ending(traced: Traced) -> None:
    agent = agent_of(traced, [call("look", {"number": n}) for n in range(3)], look, limits=AgentLimits(steps=2))
    assert (await agent.answer("Go.")).ending is Ending.LIMIT
    assert traced.said("invoke_agent")["error.type"] == "limit"


async def test_an_interrupted_turn_ends_all_its_spans(traced: Traced) -> None:
    @tool(kind="readonly")
    async def wait(context: ToolContext) -> str:
        """Wait until stopped."""
        agent.interrupt()
        await asyncio.sleep(60)
        return "never"

    agent = agent_of(traced, [call("wait"), "Never."], wait)
    assert (await agent.answer("Go.")).ending is Ending.INTERRUPTED
    assert {span.name: (span.attributes or {}).get("error.type") for span in traced.all} == snapshot(
        {"chat gemini-3-pro": None, "execute_tool wait": "cancelled_error", "invoke_agent": "interrupted"}
    )


async def test_leaving_the_stream_early_ends_the_spans(traced: Traced) -> None:
    agent = agent_of(traced, ["A long answer in many pieces."])
    async with aclosing(agent.run("Go.")) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    assert {span.name: (span.attributes or {}).get("error.type") for span in traced.all} == snapshot(
        {"chat gemini-3-pro": "cancelled_error", "invoke_agent": "interrupted"}
    )


REPLIES = [say("I look.", call("send", {"text": "hi", "password": "hunter2"}), thinking="Hm."), "Sent."]


@tool(kind="readonly")
async def send(text: str, password: str) -> str:
    """Send something."""
    return f"sent with {SECRET}"


async def test_no_content_is_in_a_span_unless_asked_for(traced: Traced) -> None:
    agent = agent_of(traced, REPLIES, send, system="You are private.")
    await agent.answer("A private question.")
    everything = "".join(span.to_json() for span in traced.all)
    assert not [one for one in ("private", "hunter2", "I look", "Sent", "Hm.", SECRET) if one in everything]


async def test_content_that_was_asked_for_has_no_secrets(traced: Traced) -> None:
    agent = agent_of(traced, REPLIES, send, content=True, system="Be brief.")
    await agent.answer(f"My key is {SECRET}.")
    everything = "".join(span.to_json() for span in traced.all)
    assert "hunter2" not in everything
    assert SECRET not in everything
    last = traced.chats[-1]
    assert json.loads(last["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    assert json.loads(last["gen_ai.input.messages"]) == snapshot(
        [
            {"role": "user", "parts": [{"type": "text", "content": "My key is [redacted]."}]},
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "Hm."},
                    {"type": "text", "content": "I look."},
                    {
                        "type": "tool_call",
                        "id": "call_1",
                        "name": "send",
                        "arguments": '{"text": "hi", "password": "[redacted]"}',
                    },
                ],
            },
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": "call_1", "response": "sent with [redacted]"}],
            },
        ]
    )
    assert json.loads(last["gen_ai.output.messages"]) == snapshot(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Sent."}], "finish_reason": "stop"}]
    )
    turn = traced.said("invoke_agent")
    assert json.loads(turn["gen_ai.output.messages"]) == snapshot(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Sent."}]}]
    )


async def test_a_long_conversation_keeps_its_newest_messages(traced: Traced) -> None:
    agent = agent_of(traced, ["x" * 10_000] * 10, content=True)
    for number in range(10):
        await agent.answer(f"question {number}")
    last = traced.chats[-1]
    assert len(last["gen_ai.input.messages"]) < 70_000
    messages = json.loads(last["gen_ai.input.messages"])
    assert messages[-1]["parts"][0]["content"] == "question 9"
    assert "question 1" not in last["gen_ai.input.messages"]


async def test_a_tracer_of_ones_own_needs_spans_for_tools_alone(traced: Traced) -> None:
    class ToolsAlone:
        def __init__(self) -> None:
            self.span = SpanTracer(traced.provider).span

    runtime = Runtime([look], tracer=ToolsAlone())
    await Agent(ScriptedModel([call("look", {"number": 1}), "Done."]), runtime=runtime).answer("Go.")
    assert traced.tree == "execute_tool look"


async def test_agents_that_work_for_another_are_in_its_tree(traced: Traced) -> None:
    clerk = Agent(ScriptedModel([call("look", {"number": 2}), "Two."], name="scripted/clerk"), [look])
    expert = Agent(ScriptedModel(["Three.", "Four."], name="scripted/expert"), [look])
    tools = [clerk.as_tool("clerk", "Looks things up."), expert.as_handoff("expert", "Knows more.")]
    agent = agent_of(traced, [call("clerk", {"prompt": "Two?"}), call("expert")], *tools)
    await agent.answer("Find it.")
    await agent.answer("And now?")
    assert traced.tree == snapshot(
        """\
invoke_agent
  chat gemini-3-pro
  execute_tool clerk
    invoke_agent clerk
      chat clerk
      execute_tool look
      chat clerk
  chat gemini-3-pro
  execute_tool expert
  chat expert
invoke_agent
  chat expert"""
    )
    assert [span.attributes["gen_ai.request.model"] for span in traced.all if span.attributes and not span.parent] == [
        "gemini-3-pro",
        "expert",
    ]


class Answer(BaseModel):
    number: int


async def test_a_request_says_its_settings_and_a_denied_answer_is_in_the_tree(traced: Traced) -> None:
    deny = ModelHook("manners", after=lambda message, session: HookReply(deny="it is rude"))
    settings = ModelSettings(temperature=0.2, seed=7, stop=["END"], max_output_tokens=99)
    replies = [say("", call("final_answer", {"number": 1}), usage=USED)]
    agent = agent_of(traced, replies, output=Answer, settings=settings, hooks=[deny])
    await agent.answer("Find it.")
    said = {key: value for key, value in traced.chats[0].items() if "request" in key}
    assert said == snapshot(
        {
            "gen_ai.request.model": "gemini-3-pro",
            "gen_ai.request.stream": True,
            "gen_ai.request.max_tokens": 99,
            "gen_ai.request.temperature": 0.2,
            "gen_ai.request.seed": 7,
            "gen_ai.request.stop_sequences": ("END",),
            "ferrule.request.tool_choice": "required",
        }
    )
    assert traced.said("invoke_agent")["error.type"] == "denied"
    assert traced.said("invoke_agent")["ferrule.usage.cost"] == 0.25
