"""The agent: a model, a runtime and a conversation, and what a person can do while it works (M1)."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections import deque
from contextlib import aclosing, contextmanager
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from ferrule.agent.agent_events import AgentEvent, Ending, TurnEnded
from ferrule.agent.compaction import Room
from ferrule.agent.conversation import Conversation
from ferrule.agent.limits import AgentLimits, Budget, Meter, running, runtime_above
from ferrule.agent.model_hooks import ModelHooks
from ferrule.agent.output import OutputForm
from ferrule.agent.step_tools import ShownTools, StepContext, toolset
from ferrule.agent.turn import Turn, end_task
from ferrule.core.context import require_type
from ferrule.core.model import NO_SETTINGS, ModelSettings, Usage, UserMessage, check_settings
from ferrule.core.signatures import is_a
from ferrule.core.tool import Tool
from ferrule.pipeline.authorise import UsableTools
from ferrule.pipeline.run import Runtime
from ferrule.registry.search_tools import DEFAULT_SEARCH, SearchedTools

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence

    from typing_extensions import TypeVar as DefaultTypeVar

    from ferrule.agent.agent_events import Compacted
    from ferrule.agent.model_hooks import ModelHook
    from ferrule.agent.step_tools import HistoryProcessor, Prepare, Toolset
    from ferrule.agent.turn_log import ConversationJournal
    from ferrule.agent.turn_store import TurnStore
    from ferrule.core.context import ModelAdapter, Session, ToolContext
    from ferrule.core.model import Message, Model
    from ferrule.core.result import Attachment
    from ferrule.pipeline.confirm import Answer
    from ferrule.registry.registry import ToolSource
    from ferrule.registry.search_tools import ToolSearch

    DepsT = DefaultTypeVar("DepsT", default=None)
    OutputT = DefaultTypeVar("OutputT", default=str)
    OutputType = (
        type[OutputT]
        | Callable[..., Awaitable[OutputT] | OutputT]
        | Sequence[type[OutputT] | Callable[..., Awaitable[OutputT] | OutputT]]
    )
else:
    DepsT, OutputT = TypeVar("DepsT"), TypeVar("OutputT")
Validator = TypeVar("Validator", bound="Callable[..., Any]")


async def _as_said(text: str) -> UserMessage:
    return UserMessage(text)


_DEFAULT_LIMITS = AgentLimits()
_CHARACTERS_A_TOKEN = 3


class Agent(Generic[DepsT, OutputT]):
    """Works on what a user says, one turn at a time, with tools.

    `tools` are those it is shown and may call, without those of other roles, and in plan mode only the read-only ones;
    a function of the session chooses them for each turn. They run in `runtime`, with its policy, questions and
    records; left out, in one of its own. Without `tools` it has all of the runtime's. `prepare` chooses among them
    before each request: it returns the tools to show, or None for all. `system` is what the model is told before
    everything else, asked for once a turn. `hooks` check requests and answers. `limits` bound each turn, a `budget` all
    turns of the agents that share it. `model`, `settings`, `limits` and `budget` may be replaced between turns.

    `output` is what a turn ends with, if not with words: a type, a function whose arguments are the output, or a list
    of them, in which `str` stands for words. `deps_type` is the type of what the program passes with each turn, for
    tools that take `ToolContext[…]` of it, and for `prepare`. `name` is what traces call it.

    Of more than 40 tools, or as `search` says, the model is shown the pinned ones and `search_tools`, and what it finds
    is added. None shows all.

    `turns` keeps every step, so that a turn can pause for deferred tools and approvals, and outlive its process
    (`resume`). `history` are functions that change what the model reads of the conversation, one after the other.

    A sub-agent has a `parent`: the context of the call that it works for. It works in the parent's runtime and with
    its `deps`, and what it uses counts for the turn of the agent above.
    """

    def __init__(
        self,
        model: Model,
        tools: Toolset | Callable[[Session], Toolset] | None = None,
        *,
        runtime: Runtime | None = None,
        system: Callable[[], str] | str = "",
        settings: ModelSettings = NO_SETTINGS,
        prepare: Prepare[DepsT] | None = None,
        hooks: Iterable[ModelHook] = (),
        limits: AgentLimits = _DEFAULT_LIMITS,
        budget: Budget | None = None,
        conversation: Conversation | None = None,
        history: Iterable[HistoryProcessor] = (),
        turns: TurnStore | None = None,
        save: ConversationJournal | None = None,
        parent: ToolContext | None = None,
        output: OutputType[OutputT] = str,
        deps_type: type[DepsT] | None = None,
        name: str = "",
        search: ToolSearch | None = DEFAULT_SEARCH,
    ) -> None:
        if not hasattr(model, "stream"):
            meant = f": write open_model({model!r})" if isinstance(model, str) else ""
            raise TypeError(f"An Agent takes a model, not {model!r}{meant}.")
        if runtime is not None and not hasattr(runtime, "batch"):
            raise TypeError(f"`runtime` is a Runtime, not {runtime!r}. Tools come second: Agent(model, [find_order]).")
        require_type(AgentLimits, limits=limits)
        require_type(Budget, or_none=True, budget=budget)
        require_type(Conversation, or_none=True, conversation=conversation)
        if not (isinstance(system, str) or callable(system)):
            raise TypeError(f"`system` is text, or a function that gives it, not {system!r}.")
        if deps_type is not None and not callable(deps_type):
            raise TypeError(f"`deps_type` is a class, not {deps_type!r}. Put several objects into a dataclass.")
        if inspect.iscoroutinefunction(tools):
            raise TypeError("A function that gives the tools isn't async. Let `prepare` choose among them: it may be.")
        self._choose_tools: Callable[[Session], Toolset] | None = None
        source: ToolSource | None = None
        if callable(tools) and not isinstance(tools, Tool):
            self._choose_tools = tools
        elif tools is not None:
            source = toolset(cast("Toolset", tools))
        if runtime is None and parent is not None:
            runtime = runtime_above(parent)
        self.runtime = runtime = runtime if runtime is not None else Runtime(source or ())
        self.model = model
        self.name = name
        self.settings = settings
        self.prepare = prepare
        self.hooks = ModelHooks(hooks)
        self.history = tuple(history)
        self.search = search
        self._searched: tuple[tuple[Any, ...], SearchedTools] | None = None  # kept, so that a step costs a lookup
        self.turns = turns
        self.limits = limits
        self.budget = budget
        self.parent = parent
        self.steering: deque[str] = deque()
        """What the user said while it worked and the model has not read yet; the next turn begins with it."""
        self.hear: Callable[[str], Awaitable[UserMessage]] = _as_said
        """Makes what was said while it worked into a message, once the model is about to read it."""
        self.system = ""
        """What the model is told before everything else, as this turn began."""
        self._system = system
        self.conversation = conversation if conversation is not None else Conversation()
        if save is not None and turns is not None:
            raise ValueError("An Agent takes `save` or `turns`: either keeps its conversation.")
        if save is not None:
            self.conversation.journal = save
        self._tools = self._shown(source if source is not None else runtime.tools)
        self.output_form = OutputForm(output)
        self.output_form.refuse_taken_names(self._tools.source)
        self.deps_type: type[Any] | None = deps_type
        self._turn: Turn | None = None
        check_settings(model, settings)

    @property
    def conversation(self) -> Conversation:
        """What was said so far. May be replaced between turns, by an empty one or one that was saved."""
        return self._conversation

    @conversation.setter
    def conversation(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.room = Room(conversation)
        self._handed_to: Agent[Any, Any] | None = None

    @property
    def session(self) -> Session:
        return self.parent.session if self.parent is not None else self.runtime.session

    @property
    def tools(self) -> ToolSource:
        """The tools that the model may be shown, for the session's caller and as the permission mode is now."""
        return self.tools_for(self.session)

    def tools_for(self, session: Session) -> ToolSource:
        """The tools that the agent may show in a session."""
        chosen = self._tools if self._choose_tools is None else self._shown(toolset(self._choose_tools(session)))
        return chosen.seen_by(session, self._mode)

    def _shown(self, tools: ToolSource) -> ShownTools:
        return ShownTools(tools, getattr(self.runtime.policy, "denies", None))

    @property
    def _mode(self) -> str:
        return getattr(self.runtime.policy, "mode", "")

    @property
    def active(self) -> Agent[Any, Any]:
        """The agent that answers now: this one, or the one that it handed the conversation over to."""
        return self._handed_to or self

    @property
    def working(self) -> bool:
        """Whether a turn runs now."""
        return self._turn is not None

    @property
    def meter(self) -> Meter | None:
        """What the turn that runs now has used; None between turns."""
        return self._turn.meter if self._turn is not None else None

    def output_validator(self, validator: Validator) -> Validator:
        """Have a function check each output before it is taken: `check(output)`, or `check(context, output)`.

        It may be async. What it raises as `ToolError` or `ValueError` is for the model, which then tries again. What it
        returns takes the output's place, unless that is None.
        """
        if len(inspect.signature(validator).parameters) not in (1, 2):
            raise TypeError(f"An output validator takes the output, or the context and the output: {validator!r}.")
        self.output_form.validators.append(validator)
        return validator

    # What a person does

    @overload
    async def answer(
        self: Agent[None, OutputT],
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        deps: None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> TurnEnded[OutputT]: ...
    @overload
    async def answer(
        self,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        deps: DepsT,
        settings: ModelSettings = NO_SETTINGS,
    ) -> TurnEnded[OutputT]: ...
    async def answer(
        self,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        deps: Any = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> TurnEnded[Any]:
        """One turn to its end: `output` is the answer, `ending` says whether a limit or the user stopped it before.

        Raises `ModelError` where the model gave no answer, or no valid output; so does `output` of a turn that was
        stopped. `deps` is what tools get as `ToolContext.deps`.
        """
        ended = await self._end_of_turn(self._run(text, attachments, "", deps, settings))
        if ended.ending is Ending.FAILED and ended.error is not None:
            raise ended.error
        return ended

    async def _end_of_turn(self, events: AsyncGenerator[AgentEvent[Any], None]) -> TurnEnded[Any]:
        ended: TurnEnded[Any] | None = None
        async with aclosing(events):
            async for event in events:
                if isinstance(event, TurnEnded):
                    ended = event
        assert ended is not None  # noqa: S101 - every turn ends with it
        return ended

    @overload
    def answer_sync(
        self: Agent[None, OutputT],
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        deps: None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> TurnEnded[OutputT]: ...
    @overload
    def answer_sync(
        self,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        deps: DepsT,
        settings: ModelSettings = NO_SETTINGS,
    ) -> TurnEnded[OutputT]: ...
    def answer_sync(
        self,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        deps: Any = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> TurnEnded[Any]:
        """`answer` for code without `await`: a script, a thread, a notebook."""
        from ferrule.pipeline.tool_loops import run_and_wait

        return run_and_wait(lambda: self.answer(text, attachments, deps=deps, settings=settings), "answer_sync")

    @overload
    def answer_all(
        self: Agent[None, OutputT],
        prompts: Iterable[str],
        *,
        at_once: int = 10,
        deps: None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[tuple[str, TurnEnded[OutputT]], None]: ...
    @overload
    def answer_all(
        self,
        prompts: Iterable[str],
        *,
        at_once: int = 10,
        deps: DepsT,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[tuple[str, TurnEnded[OutputT]], None]: ...
    async def answer_all(
        self,
        prompts: Iterable[str],
        *,
        at_once: int = 10,
        deps: Any = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[tuple[str, TurnEnded[Any]], None]:
        """Answer many prompts, `at_once` of them at a time, and yield each with the end of its turn, as they end.

        Each begins with an empty conversation, in a session of its own. A failure is an ending like any other. `limits`
        bound each turn, a `budget` all of them together. Leaving the loop early stops those that run.
        """
        if isinstance(prompts, str):
            raise TypeError(f"`answer_all` takes a list of prompts. Write [{prompts!r}].")
        if at_once < 1:
            raise ValueError(f"`at_once` must be at least 1, not {at_once}.")
        self._require_deps(deps)
        waiting = iter(prompts)
        turns: dict[asyncio.Task[TurnEnded[Any]], str] = {}
        try:
            while True:
                for prompt in islice(waiting, at_once - len(turns)):
                    turns[asyncio.ensure_future(self._alone(prompt, deps, settings))] = prompt
                if not turns:
                    return
                done, _ = await asyncio.wait(turns, return_when=asyncio.FIRST_COMPLETED)
                ended = next(one for one in turns if one in done)
                yield turns.pop(ended), ended.result()
        finally:
            for one in turns:
                one.cancel()
            for one in turns:
                await end_task(one)

    async def _alone(self, prompt: str, deps: Any, settings: ModelSettings) -> TurnEnded[Any]:
        """One turn that has nothing to do with any other."""
        if self.parent is not None:
            other = self.working_in(self.runtime, self.parent)
            return await self._end_of_turn(other.run(prompt, deps=deps, settings=settings))
        runtime = self.runtime.with_tools(self.runtime.tools)
        runtime.session = session = replace(self.session, id=uuid.uuid4().hex, state=dict(self.session.state))
        try:
            other = self.working_in(runtime, None)
            return await self._end_of_turn(other.run(prompt, deps=deps, settings=settings))
        finally:
            await session.close()

    @overload
    def run(
        self: Agent[None, OutputT],
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        typed: str = "",
        deps: None = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[AgentEvent[OutputT], None]: ...
    @overload
    def run(
        self,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        typed: str = "",
        deps: DepsT,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[AgentEvent[OutputT], None]: ...
    def run(
        self,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        typed: str = "",
        deps: Any = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[AgentEvent[Any], None]:
        """One turn; the last event is always `TurnEnded`. Closing the stream early stops the turn.

        `typed` is what the user typed, where `text` has more for the model. `deps` is what tools get as
        `ToolContext.deps`. `settings` are for this turn, in place of the agent's own.
        """
        return self._run(text, attachments, typed, deps, settings)

    async def _run(
        self, text: str, attachments: Sequence[Attachment], typed: str, deps: Any, settings: ModelSettings
    ) -> AsyncGenerator[AgentEvent[Any], None]:
        if self._turn is not None:
            raise RuntimeError("This agent is working on a turn; use `steer` to add a message to it.")
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"A prompt is text, not {text!r}.")
        deps = self._require_deps(deps)
        if self.parent is not None and (above := running.get()) is not None:
            self.conversation.share_ids(above.conversation)
        if self.turns is not None and self.parent is None and not self._is_kept(self.turns):
            self.turns.begin(self.conversation, self.session)
        with self._held():
            async with aclosing(self._work(Turn(self, text, attachments, typed, deps, settings))) as events:
                async for event in events:
                    yield event

    def _is_kept(self, turns: TurnStore) -> bool:
        """Whether the conversation is in the store; one that was unused for long is removed from it."""
        journal = self.conversation.journal
        return journal is not None and turns.has(getattr(journal, "id", ""))

    @contextmanager
    def _held(self) -> Generator[None]:
        """Have other processes see that this one works on the turn."""
        journal = self.conversation.journal
        name = getattr(journal, "id", "") if self.turns is not None else ""
        if not name or self.turns is None:
            yield
            return
        self.turns.hold(name)
        try:
            yield
        finally:
            self.turns.let_go(name)

    async def _work(self, turn: Turn) -> AsyncGenerator[AgentEvent[Any], None]:
        self._turn = turn
        events = turn.events()
        try:
            async for event in events:
                if isinstance(event, TurnEnded):  # whoever stops reading here may begin the next turn at once
                    self._turn = None
                yield event
        finally:
            try:
                await events.aclose()
            finally:
                if self._turn is turn:
                    self._turn = None

    # A turn that was paused, or whose process ended

    async def resume(
        self,
        state: str | bytes | Mapping[str, Any] | None = None,
        *,
        results: Mapping[str, Any] | None = None,
        answers: Mapping[str, Answer | str] | None = None,
        deps: Any = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> TurnEnded[OutputT]:
        """Go on with a turn, from the `state` that `TurnEnded` or `TurnStore.turns` gave; raises as `answer` does.

        `results` are what deferred tools gave, by `WaitingCall.id`: a value, or a `ToolError`. `answers` are decisions
        about approvals: "once", "always", "no", or an `Answer` with a reason. What is left out is waited for again.
        Calls that had ended are not run again; one that was interrupted is, if its tool only reads or is idempotent.

        Without a `state`, goes on with the open turn of `conversation`. Raises `TurnStateError` for a state that was
        changed, has expired, is another user's, or was resumed already, and `ValueError` for what the turn does not
        wait for.
        """
        going_on = self.resume_run(state, results=results, answers=answers, deps=deps, settings=settings)
        ended = await self._end_of_turn(going_on)
        if ended.ending is Ending.FAILED and ended.error is not None:
            raise ended.error
        return ended

    async def resume_run(
        self,
        state: str | bytes | Mapping[str, Any] | None = None,
        *,
        results: Mapping[str, Any] | None = None,
        answers: Mapping[str, Answer | str] | None = None,
        deps: Any = None,
        settings: ModelSettings = NO_SETTINGS,
    ) -> AsyncGenerator[AgentEvent[OutputT], None]:
        """`resume`, with every event as it happens."""
        from ferrule.agent.resuming import check_caller, checked

        if self._turn is not None:
            raise RuntimeError("This agent is working on a turn; another agent can resume the state.")
        deps, conversation = self._require_deps(deps), self.conversation
        if state is not None:
            if self.turns is None:
                raise ValueError("To resume a state, give the Agent the TurnStore that it was kept in: `turns=…`.")
            journal, conversation = self.turns.open(state)
            check_caller(journal.caller, self.session.caller)
        open_turn = conversation.open
        if open_turn is None:
            raise RuntimeError("There is no turn to resume: the last one has ended.")
        given_answers, given_results = checked(open_turn.waiting, answers or {}, results or {}, self.tools)
        if conversation is not self.conversation:
            self.conversation = conversation
        self._restore_handovers()
        text = next((one.text for one in reversed(conversation.messages) if isinstance(one, UserMessage)), "")
        turn = Turn(self, text, (), "", deps, settings, resumed=True)
        turn.check_start()  # before the state is used up
        with self._held():
            conversation.resume(given_answers, given_results)
            async with aclosing(self._work(turn)) as events:
                async for event in events:
                    yield event

    def _restore_handovers(self) -> None:
        """Have the agent answer that the conversation was handed over to last."""
        if self._handed_to is not None:
            return
        for name in self.conversation.handed_to:
            target = getattr(self.active.tools.get(name), "agent", None)
            if target is None:
                raise ValueError(f"The conversation was handed over by `{name}`, which is no tool of this agent now.")
            self.hand_over(target)

    def _require_deps(self, deps: Any) -> Any:
        """What a turn works with; raises `TypeError` if it needs something and has nothing."""
        if deps is None:
            above = self.parent.deps if self.parent is not None else None
            deps = above if above is not None else self.session.deps
        wanted = self.deps_type or self.active.deps_type
        if deps is None and wanted is not None and self.parent is None:
            raise TypeError(f"This agent's tools work with a {wanted.__name__}: pass `deps=…` with each turn.")
        if self.deps_type is not None and deps is not None and not is_a(deps, self.deps_type):
            raise TypeError(f"This agent's `deps` are a {self.deps_type.__name__}, not {type(deps).__name__}.")
        return deps

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
            raise RuntimeError("This agent is working on a turn; its conversation cannot be changed now.")
        if self.conversation.open is not None:
            raise RuntimeError("This conversation has a turn that has not ended; resume it first.")
        limit = self.room.limit(self.model, self.limits.context_tokens)
        return await self.room.make(self.model, self.system, limit, self._count, summarise=True)

    def _count(self, usage: Usage) -> None:
        self.conversation.usage += usage

    # Agents that work for this one

    def as_tool(self, name: str, description: str, *, limits: AgentLimits | None = None) -> Tool[Any]:
        """A tool that gives this agent a task and returns its last words.

        Each call begins with an empty conversation, in the runtime of the agent that calls, so under its policy,
        questions and records, and with its `deps`. What it uses counts for the turn that calls it, whose limits hold
        for it too, besides its own. If it has an `output`, the call's result is that as JSON.
        """
        from ferrule.agent.sub_agents import AgentTool

        return AgentTool(self, name, description, limits)

    def as_handoff(self, name: str, description: str) -> Tool[Any]:
        """A tool that hands the conversation over to this agent, which answers from then on, in later turns too.

        It sees the whole conversation, works in the runtime and within the limits of the agent that was asked, and ends
        turns with that one's output.
        """
        from ferrule.agent.sub_agents import Handoff

        return Handoff(self, name, description)

    def working_in(
        self, runtime: Runtime, parent: ToolContext | None, tools: ToolSource | None = None, system: str | None = None
    ) -> Self:
        """The same agent with an empty conversation, working in another runtime, perhaps with other tools."""
        other = copy(self)
        if tools is not None:
            other._choose_tools, other._tools = None, self._shown(tools)  # noqa: SLF001
        if system is not None:
            other._system = system  # noqa: SLF001
        other.runtime, other.parent, other.conversation = runtime, parent, Conversation()
        other.steering, other._turn = deque(), None  # noqa: SLF001
        return other

    def hand_over(self, target: Agent[Any, Any]) -> Agent[Any, Any]:
        """Have another agent answer in this one's conversation; returns it as it works there."""
        if target is self:
            self._handed_to = None
            return self
        other = target.working_in(self.runtime, self.parent)
        other.output_form = self.output_form
        other.output_form.refuse_taken_names(other.tools)
        other.begin()
        self._handed_to = other
        return other

    # What a turn needs

    def begin(self) -> None:
        """Have the functions of the agent say what holds for a turn: its system prompt and its tools."""
        self.system = self._system if isinstance(self._system, str) else self._system()
        if self._choose_tools is not None:
            self._tools = self._shown(toolset(self._choose_tools(self.session)))
            self.output_form.refuse_taken_names(self._tools.source)

    async def tools_of_step(self, number: int, messages: Sequence[Message], deps: DepsT) -> ToolSource:
        """The tools that the next request shows."""
        shown = self._tools.seen_by(self.session, self._mode)
        if self.prepare is not None:
            step = StepContext(number, self.session, tuple(messages), shown.tools(), deps)
            shown = await self._tools.for_step(self.prepare, step, self._mode)
        turn = running.get()
        conversation = turn.conversation if turn is not None else self.conversation
        if self.search is None or not (conversation.found_tools or len(shown.tools()) > self.search.above):
            return shown
        key = (shown, self.runtime.policy, self.session, self.session.caller, deps, conversation)
        if self._searched is None or any(one is not other for one, other in zip(self._searched[0], key, strict=True)):
            usable = UsableTools(shown, self.runtime.policy, self.session, deps)
            view = SearchedTools(usable, self.search, found=conversation.found_tools, keep=conversation.find)
            self._searched = key, view
        return self._searched[1]

    def enter_session(self, adapter: ModelAdapter, turn: int) -> None:
        """Tell the session of the turn that begins; a sub-agent works within the turn of whoever started it."""
        self.begin()
        if self.active is not self:
            self.active.begin()
        if self.parent is None:
            self.session.turn = str(turn)
            self.session.model = self.model.name
            self.session.model_adapter = adapter

    def result_chars(self, calls: int) -> int:
        """How long each result of an answer may be: all of them together take a third of the context at most."""
        tokens = self.room.limit(self.model, self.limits.context_tokens) // 3
        return max(1_000, min(self.limits.result_chars, tokens * _CHARACTERS_A_TOKEN // max(1, calls)))
