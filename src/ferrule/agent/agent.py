"""The agent: a model, a runtime and a conversation, and what a person can do while it works."""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ferrule.agent.agent_events import Ending, TurnEnded
from ferrule.agent.compaction import Room
from ferrule.agent.conversation import Conversation
from ferrule.agent.limits import AgentLimits
from ferrule.agent.turn import Turn
from ferrule.pipeline.run import Runtime
from ferrule.registry.registry import Registry
from ferrule.registry.source import ToolSource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from ferrule.agent.agent_events import AgentEvent, Compacted
    from ferrule.agent.conversation import MessageJournal
    from ferrule.agent.limits import Meter
    from ferrule.core.context import ModelAdapter, Session, ToolContext
    from ferrule.core.model import Model, Usage
    from ferrule.core.result import Attachment
    from ferrule.core.tool import Tool

_DEFAULT_LIMITS = AgentLimits()
_CHARACTERS_A_TOKEN = 3


class Agent:
    """Works on what a user says, one turn at a time, with tools.

    `tools` are those it is shown and may call; in plan mode only the read-only ones among them. They run in `runtime`,
    with its policy, questions and records; left out, in one of its own. Without `tools` it has all of the runtime's.
    `system` is what the model is told before everything else, asked for once a turn. `model` and `limits` may be
    replaced between turns. A sub-agent has a `parent`: the context of the call that it works for.
    """

    def __init__(
        self,
        model: Model,
        tools: ToolSource | Iterable[Tool[Any]] | None = None,
        *,
        runtime: Runtime | None = None,
        system: Callable[[], str] | str = "",
        limits: AgentLimits = _DEFAULT_LIMITS,
        conversation: Conversation | None = None,
        save: MessageJournal | None = None,
        parent: ToolContext | None = None,
        above: Meter | None = None,
    ) -> None:
        if not hasattr(model, "stream"):
            meant = f": write open_model({model!r})" if isinstance(model, str) else ""
            raise TypeError(f"An Agent takes a model, not {model!r}{meant}.")
        source = tools if tools is None or isinstance(tools, ToolSource) else Registry(tools)
        self.runtime = runtime = runtime if runtime is not None else Runtime(source or ())
        self.model = model
        self.limits = limits
        self.parent = parent
        self.above = above
        self.steering: deque[str] = deque()
        """What the user said while it worked and the model has not read yet; the next turn begins with it."""
        self.system = ""
        """What the model is told before everything else, as this turn began."""
        self._system = system
        self.conversation = conversation if conversation is not None else Conversation()
        if save is not None:
            self.conversation.journal = save
        self._tools = source if source is not None else runtime.tools
        self._plan = self._tools.read_only()
        self._turn: Turn | None = None
        self._failure: Exception | None = None

    @property
    def conversation(self) -> Conversation:
        """What was said so far. May be replaced between turns, by an empty one or one that was saved."""
        return self._conversation

    @conversation.setter
    def conversation(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.room = Room(conversation)

    @property
    def session(self) -> Session:
        return self.parent.session if self.parent is not None else self.runtime.session

    @property
    def tools(self) -> ToolSource:
        """The tools that the model is shown and may call, as the permission mode is now."""
        return self._plan if getattr(self.runtime.policy, "mode", "") == "plan" else self._tools

    @property
    def working(self) -> bool:
        """Whether a turn runs now."""
        return self._turn is not None

    @property
    def meter(self) -> Meter | None:
        """What the turn that runs now has used; None between turns."""
        return self._turn.meter if self._turn is not None else None

    # What a person does

    async def answer(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """One turn to its end: `text` is the answer, `ending` says whether a limit or somebody stopped it before.

        Raises `ModelError` where the model gave no answer; `run` tells of that in its last event instead.
        """
        ended: TurnEnded | None = None
        async with aclosing(self.run(text, attachments)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    ended = event
        assert ended is not None  # noqa: S101 - every turn ends with it
        if ended.ending is Ending.FAILED and (failure := self._failure) is not None:
            self._failure = None
            raise failure
        return ended

    def answer_sync(self, text: str, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """`answer` for code without `await`: a script, a thread, a notebook."""
        from ferrule.pipeline.tool_loops import run_and_wait

        return run_and_wait(lambda: self.answer(text, attachments), "answer_sync")

    async def run(self, text: str, attachments: Sequence[Attachment] = ()) -> AsyncGenerator[AgentEvent, None]:
        """One turn; the last event is always `TurnEnded`. Closing the stream early stops the turn."""
        if self._turn is not None:
            raise RuntimeError("This agent is working on a turn; `steer` says something more to it.")
        turn = self._turn = Turn(self, text, attachments)
        events = turn.events()
        try:
            async for event in events:
                if isinstance(event, TurnEnded):  # whoever stops reading here may begin the next turn at once
                    self._turn, self._failure = None, turn.failure
                yield event
        finally:
            try:
                await events.aclose()
            finally:
                if self._turn is turn:
                    self._turn = None

    def steer(self, text: str) -> None:
        """Say something while it works: the model reads it with the next results."""
        self.steering.append(text)

    def interrupt(self) -> None:
        """Stop the turn now: the model's stream is closed, and running calls are cancelled."""
        if self._turn is not None:
            self._turn.stop(Ending.INTERRUPTED, "")

    async def compact(self) -> Compacted | None:
        """Put the conversation into a summary now, between turns; None when there is nothing to leave out."""
        if self._turn is not None:
            raise RuntimeError("This agent is working on a turn; its conversation cannot change under it.")
        limit = self.room.limit(self.model, self.limits.context_tokens)
        return await self.room.make(self.model, self.system, limit, self._count, summarise=True)

    def _count(self, usage: Usage) -> None:
        self.conversation.usage += usage

    # What a turn needs

    def enter_session(self, adapter: ModelAdapter, turn: int) -> None:
        """Tell the session of the turn that begins; a sub-agent works within the turn of whoever started it."""
        self.system = self._system if isinstance(self._system, str) else self._system()
        if self.parent is None:
            self.session.turn = str(turn)
            self.session.model = self.model.name
            self.session.model_adapter = adapter

    def result_chars(self, calls: int) -> int:
        """How long each result of an answer may be: all of them together take a third of the context at most."""
        tokens = self.room.limit(self.model, self.limits.context_tokens) // 3
        return max(1_000, min(self.limits.result_chars, tokens * _CHARACTERS_A_TOKEN // max(1, calls)))
