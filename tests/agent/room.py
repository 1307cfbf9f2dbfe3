"""A small runtime for the agent's tests, and what a turn gave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ferrule import RulePolicy, Runtime, Tool, ToolContext, tool
from ferrule.agent.agent import Agent
from ferrule.agent.agent_events import AgentEvent, TurnEnded
from ferrule.agent.conversation import well_formed
from ferrule.core.model import AssistantMessage, Message, ToolResults, UserMessage
from ferrule.pipeline.stages import CallRecord
from ferrule.testing.scripted_model import Reply, ScriptedModel

E = TypeVar("E")


@tool(kind="readonly", doing="adding {a} and {b}")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(kind="write", doing="keeping {text}")
def keep(text: str, context: ToolContext) -> str:
    """Keep a text."""
    context.state.setdefault("kept", []).append(text)
    return f"kept {text}"


@tool(kind="readonly")
def repeat(text: str, times: int) -> str:
    """Say a text many times."""
    return "\n".join([text] * times)


class Waiting:
    """A tool that says when it has begun, and goes on when it is told to."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = False

    @property
    def tool(self) -> Tool[Any]:
        @tool(kind="readonly")
        async def wait() -> str:
            """Wait."""
            self.begun.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            return "waited"

        return wait


@dataclass
class Records:
    """Keeps what the runtime recorded."""

    all: list[CallRecord] = field(default_factory=list[CallRecord])

    def record(self, record: CallRecord) -> None:
        self.all.append(record)


def runtime(*more: Tool[Any], **options: Any) -> Runtime:
    return Runtime([add, keep, repeat, *more], policy=options.pop("policy", RulePolicy(allow=["keep"])), **options)


def agent_with(replies: Sequence[Reply], *tools: Tool[Any], **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(replies, **{key: options.pop(key) for key in ("context_tokens",) if key in options})
    where = options.pop("runtime", None) or runtime(*tools)
    return Agent(model, runtime=where, **options), model


@dataclass
class Happened:
    """Every event of a turn."""

    events: list[AgentEvent]

    @property
    def ended(self) -> TurnEnded:
        last = self.events[-1]
        assert isinstance(last, TurnEnded)
        assert sum(isinstance(one, TurnEnded) for one in self.events) == 1
        return last

    def of(self, kind: type[E]) -> list[E]:
        return [one for one in self.events if isinstance(one, kind)]


async def turn(
    agent: Agent[Any, Any], text: str = "go", on: Callable[[AgentEvent], None] = lambda event: None
) -> Happened:
    """A whole turn; after it the conversation is sound, whatever happened."""
    events: list[AgentEvent] = []
    async for event in agent.run(text):
        events.append(event)
        on(event)
    assert well_formed(agent.conversation.messages) is None
    return Happened(events)


def shown(messages: Sequence[Message]) -> list[str]:
    """A conversation in short."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            lines.append(f"person: {message.text}")
        elif isinstance(message, AssistantMessage):
            calls = "".join(f" +{call.name}" for call in message.calls)
            lines.append(f"model: {message.text}{calls}")
        else:
            assert isinstance(message, ToolResults)
            lines += [f"result: {one.llm_content}" for one in message.results]
    return lines
