"""Sub-agents: an agent as a tool of another, and an agent that takes a conversation over.

Either works in the runtime of the agent above it, so under its policy, questions and records, and what it uses counts
for the turn above as well.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ferrule.agent.agent_events import Answered, CallAsked, Ending, TurnEnded, plain
from ferrule.agent.limits import running, runtime_above
from ferrule.core.access import NOTHING, READS_ANYTHING
from ferrule.core.call import CallInfo
from ferrule.core.description import Description
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.model import ModelError
from ferrule.core.phrases import joined, phrase
from ferrule.core.result import Output
from ferrule.core.tool import Kind, Tool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.agent.conversation import Conversation
    from ferrule.agent.limits import AgentLimits
    from ferrule.core.context import Session, ToolContext
    from ferrule.pipeline.run import Runtime
    from ferrule.registry.registry import ToolSource


class WorkingAgent(Protocol):
    """An agent, as those that work for others are used here."""

    limits: AgentLimits

    @property
    def conversation(self) -> Conversation: ...

    @conversation.setter
    def conversation(self, conversation: Conversation) -> None: ...

    @property
    def runtime(self) -> Runtime: ...

    def tools_for(self, session: Session) -> ToolSource: ...

    def working_in(
        self, runtime: Runtime, parent: ToolContext | None, tools: ToolSource | None = None, system: str | None = None
    ) -> Self: ...

    def run(self, text: str, *, deps: Any) -> AsyncGenerator[AgentEvent, None]: ...

    def resume_run(self, *, deps: Any) -> AsyncGenerator[AgentEvent, None]: ...


W = TypeVar("W", bound=WorkingAgent)


class TaskAnswer(TypedDict):
    """The sub-agent's last words, or its output as JSON, and what they took."""

    text: str
    steps: int
    input_tokens: int
    output_tokens: int


def sub_agent(agent: W, context: ToolContext, tools: ToolSource | None = None, system: str | None = None) -> W:
    """The same agent with an empty conversation, working for one call in the runtime that the call runs in."""
    return agent.working_in(runtime_above(context) or agent.runtime, context, tools, system)


async def work(agent: WorkingAgent, prompt: str, context: ToolContext) -> Output[TaskAnswer]:
    """One turn of a sub-agent as the result of the call that it works for; its calls are shown as progress."""
    said = 0
    ended: TurnEnded | None = None
    turn = running.get()
    calling = turn.calling if turn is not None else None
    stream = None
    if turn is not None and calling is not None:
        own = context.call_id in calling.ids
        agent.conversation = turn.conversation.inside(context.call_id if own else None)
        if agent.conversation.open is not None:
            stream = agent.resume_run(deps=context.deps)
    async with aclosing(stream or agent.run(prompt, deps=context.deps)) as events:
        async for event in events:
            if isinstance(event, CallAsked):
                context.progress(said, message=event.doing)
            elif isinstance(event, Answered):
                said += 1
            elif isinstance(event, TurnEnded):
                ended = event
    if ended is None:
        raise ToolError(phrase("The task was stopped."), kind=ErrorKind.CANCELLED)
    if ended.ending is Ending.PAUSED and calling is not None:
        calling.wait_inside(context.call_id, ended.waiting)
        raise ToolError(phrase("The task waits for an approval or a result."), kind=ErrorKind.DEFERRED)
    used = {"steps": ended.steps, "input_tokens": ended.usage.input_tokens, "output_tokens": ended.usage.output_tokens}
    if ended.ending is not Ending.DONE:
        last = phrase("Its last message: {text}", text=ended.text) if ended.text else ""
        raise ToolError(
            joined(" ", [phrase("The task was not finished: {problem}", problem=ended.problem), last]),
            suggestion=phrase("Give a smaller task, or do this part yourself."),
            details=used,
        )
    text = ended.output if isinstance(ended.output, str) else json.dumps(plain(ended.output), ensure_ascii=False)
    return Output(
        data={
            "text": text,
            "steps": ended.steps,
            "input_tokens": used["input_tokens"],
            "output_tokens": used["output_tokens"],
        },
        llm_content=text,
        display_content=f"done in {ended.steps} step{'' if ended.steps == 1 else 's'}",
        metadata=used,
    )


class _Prompt(BaseModel):
    """What the agent is to do."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = Field(
        min_length=1, description="Everything it must know: it sees nothing of this conversation. Say what to return."
    )


class AgentTool(Tool[_Prompt]):
    """An agent that does a task for another."""

    kind = Kind.READONLY  # what it changes is weighed call by call
    category = "agent"
    tags = frozenset({"agent"})
    may_block = False  # its model belongs to the program's loop
    calls_tools = True
    continues = True
    """A call that was interrupted goes on: what its agent did is kept with the turn above."""
    timeout = 3600.0
    grace = 60.0  # its model may have to be stopped, and its turn is put on record

    def __init__(self, agent: WorkingAgent, name: str, description: str, limits: AgentLimits | None) -> None:
        self.name = name
        super().__init__(description=Description(description))
        self._agent = agent
        self._limits = limits

    def describe(self, params: _Prompt, session: Session) -> CallInfo:
        alone = any(not tool.read_only for tool in self._agent.tools_for(session))
        return CallInfo(
            READS_ANYTHING, signature=params.prompt, summary=f"{self.name}: {params.prompt}", runs_alone=alone
        )

    async def run(self, params: _Prompt, context: ToolContext) -> Output[TaskAnswer]:
        agent = sub_agent(self._agent, context)
        agent.limits = self._limits or agent.limits
        return await work(agent, params.prompt, context)


class _Reason(BaseModel):
    """Why the conversation is handed over."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field("", max_length=500, description="Why, in a few words.")


class Handoff(Tool[_Reason]):
    """An agent that takes the conversation over."""

    kind = Kind.READONLY
    category = "agent"
    tags = frozenset({"agent"})
    may_block = False
    concurrency_safe = False
    hands_over = True
    """A call has an effect on the turn alone, and is made again where a turn goes on."""

    def __init__(self, agent: WorkingAgent, name: str, description: str) -> None:
        self.name = name
        super().__init__(description=Description(description))
        self.agent = agent

    def describe(self, params: _Reason, session: Session) -> CallInfo:
        return CallInfo(NOTHING, signature=params.reason, summary=f"Hand over to {self.name}")

    async def run(self, params: _Reason, context: ToolContext) -> str:
        turn = running.get()
        if turn is None:
            raise ToolError(phrase("Only an agent's turn can be handed over."))
        try:
            turn.hand_over(self.name, self.agent)
        except ModelError as error:
            raise ToolError(error.message, suggestion=error.suggestion or None) from None
        return phrase("The conversation was handed over to `{name}`, which answers from here on.", name=self.name)
