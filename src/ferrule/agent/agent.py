"""The agent: a model, a runtime and a conversation, and what a person can do while it works.

In a turn the model is asked, its calls run, it reads the results, until it answers in words (M1).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from ferrule.agent.agent_events import AgentEvent, AgentNotice, Answered, Ending, Steered, TurnEnded, TurnStarted
from ferrule.agent.calling import ENDED, NOTED, Calling, Repeats, TurnModel, bounded, note
from ferrule.agent.conversation import GO_ON, SAY_SOMETHING, Conversation, Hearing, Room
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.model import (
    AssistantMessage,
    Finished,
    ModelError,
    ModelFault,
    ModelRequest,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.phrases import advice, phrase
from ferrule.pipeline.record import EventQueue
from ferrule.pipeline.run import Runtime
from ferrule.registry.registry import Registry, ToolSource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

    from ferrule.agent.agent_events import Compacted
    from ferrule.agent.conversation import MessageJournal
    from ferrule.core.context import ModelAdapter, Session, ToolContext
    from ferrule.core.model import Effort, Model
    from ferrule.core.result import Attachment, ToolResult
    from ferrule.core.tool import Tool


@dataclass(slots=True, frozen=True)
class AgentLimits:
    """Bounds on one turn; None is no bound.

    `tokens` counts what the model reads and writes, `cost` is in US dollars, `seconds` is the time of the whole turn
    with its calls. `result_chars` bounds each result as the model reads it. `context_tokens` is taken for the size of
    a model's context where the model does not know it.
    """

    steps: int | None = 100
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    result_chars: int = 40_000
    context_tokens: int = 100_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"AgentLimits: {one.name} must be a number above 0, not {value!r}.")


# What a turn has used so far, against what it may use. A sub-agent's use counts for whoever started it too.


class Meter:
    """Counts the steps, tokens and money of one turn."""

    def __init__(self, limits: AgentLimits, parent: Meter | None = None) -> None:
        self._limits = limits
        self._parent = parent
        self._began = monotonic()
        self.steps = 0
        self.usage = Usage()

    def add(self, usage: Usage) -> None:
        """Count an answer."""
        self.usage += usage
        if self._parent is not None:
            self._parent.add(usage)

    @property
    def seconds_left(self) -> float | None:
        """How long the turn may still go on; None for as long as it likes."""
        limit = self._limits.seconds
        return None if limit is None else max(0.0, self._began + limit - monotonic())

    def problem(self) -> tuple[str, str] | None:
        """Which limit is reached, and what the person can do; None while the turn may go on."""
        limits, used = self._limits, self.usage
        tokens = used.input_tokens + used.output_tokens
        if limits.steps is not None and self.steps >= limits.steps:
            return _steps(limits.steps), _go_on("--max-steps")
        if limits.tokens is not None and tokens >= limits.tokens:
            count, most = f"{tokens:,}", f"{limits.tokens:,}"
            said = phrase("The turn used {count} tokens; its limit is {most}.", count=count, most=most)
            return said, _go_on("--max-tokens")
        if limits.cost is not None and used.cost is not None and used.cost >= limits.cost:
            cost, most = f"{used.cost:.4f}", f"{limits.cost:.4f}"
            said = phrase("The turn cost ${cost}; its limit is ${most}.", cost=cost, most=most)
            return said, _go_on("--max-cost")
        if (left := self.seconds_left) is not None and left <= 0:
            return self.out_of_time
        return self._parent.problem() if self._parent is not None else None

    @property
    def out_of_time(self) -> tuple[str, str]:
        seconds = f"{self._limits.seconds or 0:g}"
        return phrase("The turn took {seconds} s, which is its limit.", seconds=seconds), _go_on("--timeout")


def _steps(most: int) -> str:
    if most == 1:
        return phrase("The turn had 1 step, which is its limit.")
    return phrase("The turn had {count} steps, which is its limit.", count=f"{most:,}")


def _go_on(option: str) -> str:
    return phrase("Nothing is lost: say how to continue, or raise the limit ({option}).", option=option)


logger = logging.getLogger("ferrule.agent")

_MOST_GOING_ON = 3
_MOST_EMPTY = 2

INTERRUPTED = advice("The user stopped it.", "You stopped it.")
_OTHERWISE = phrase("Rephrase the request, or choose another model.")


class Turn:
    """A turn while it runs. Its work is a task of its own: stopping it never depends on who reads the events."""

    def __init__(self, agent: Agent, text: str, attachments: Sequence[Attachment], typed: str = "") -> None:
        self._agent = agent
        self._conversation = agent.conversation
        self._text = text
        self._attachments = tuple(attachments)
        self._typed = typed
        self._queue = EventQueue[AgentEvent]()
        self._hearing = Hearing(self._queue.put)
        self._repeats = Repeats()
        self._effort: Effort | None = agent.effort  # some providers refuse a change while calls are answered
        self._task: asyncio.Task[TurnEnded] | None = None
        self._stopped: TurnEnded | None = None
        self._words = ""
        """The model's last words: those of its last answer, and of the ones it was cut off in before."""
        self.failure: Exception | None = None
        """Why the model gave no answer, where it gave none."""
        self.meter = Meter(agent.limits, agent.parent_meter)

    # Seen from outside

    def stop(self, ending: Ending, problem: str, suggestion: str = "") -> None:
        """End the turn now, however far it is; the first reason given counts."""
        if self._stopped is None:
            self._stopped = self._ended(ending, problem, suggestion)
            if self._task is not None:
                self._task.cancel()

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Everything that happens, ending with `TurnEnded`. Leaving early stops the turn."""
        conversation = self._conversation
        conversation.turn += 1
        typed = self._typed if self._typed != self._text else ""
        conversation.add(UserMessage(self._text, self._attachments, typed, conversation.turn))
        self._agent.enter_session(TurnModel(self._agent.model, self.meter.add), conversation.turn)
        ended = self._ended(Ending.INTERRUPTED)
        try:
            yield TurnStarted(conversation.turn, self._text)
            self._task = task = asyncio.ensure_future(self._work())
            task.add_done_callback(lambda _: self._queue.close())
            timer = self._start_timer()
            try:
                if self._stopped is not None:
                    task.cancel()
                while (event := await self._queue.next()) is not None:
                    yield event
                ended = self._stopped or ended if task.cancelled() else task.result()
            finally:
                if timer is not None:
                    timer.cancel()
                await _end(task)
        finally:
            conversation.settle(INTERRUPTED)
            conversation.usage += self.meter.usage
            if conversation.journal is not None:
                conversation.journal.turn_ended(
                    conversation.turn, ended.ending, self.meter.usage, self._agent.model.name
                )
        yield replace(ended, text=self._words, usage=self.meter.usage, steps=self.meter.steps)

    def _start_timer(self) -> asyncio.TimerHandle | None:
        left = self.meter.seconds_left
        if left is None:
            return None
        return asyncio.get_running_loop().call_later(left, lambda: self.stop(Ending.LIMIT, *self.meter.out_of_time))

    def _ended(self, ending: Ending, problem: str = "", suggestion: str = "") -> TurnEnded:
        return TurnEnded(ending, self._words, self.meter.usage, self.meter.steps, problem, suggestion)

    def _failed(self, error: ModelError) -> TurnEnded:
        self.failure = error
        return self._ended(Ending.FAILED, error.message, error.suggestion)

    # The work itself

    async def _work(self) -> TurnEnded:
        try:
            return await self._steps()
        except asyncio.CancelledError:
            self._keep_what_was_said()
            raise
        except ModelError as error:
            self._keep_what_was_said()
            return self._failed(error)
        except Exception as error:
            logger.exception("The turn failed")
            self._keep_what_was_said()
            self.failure = error
            problem = phrase("An internal error stopped the turn: {kind}.", kind=type(error).__name__)
            return self._ended(Ending.FAILED, problem, phrase("See the log for details. The conversation is intact."))

    async def _steps(self) -> TurnEnded:
        empty = cut_off = 0
        while True:
            await self._deliver_steering()
            if reached := self.meter.problem():
                return self._ended(Ending.LIMIT, *reached)
            finished = await self._ask()
            message = finished.message
            if finished.stop == "refused":
                return self._refused(message)
            if not message.text.strip() and not message.calls:
                empty += 1
                if empty > _MOST_EMPTY:
                    said = phrase(
                        "`{name}` gave an empty answer {empty} times.", name=self._agent.model.name, empty=empty
                    )
                    return self._failed(ModelError(ModelFault.GARBLED, said, suggestion=_OTHERWISE))
                self._conversation.add(UserMessage(SAY_SOMETHING))
                continue
            self._conversation.add(message)
            self._agent.room.sizes.told(self._conversation.messages, finished.usage)
            self._queue.put(Answered(message, finished.usage))
            if message.calls:
                self._words = message.text
                if await self._call(finished) >= ENDED:
                    problem = phrase("The model made the same call with the same result {count} times.", count=ENDED)
                    return self._ended(Ending.LOOP, problem, phrase("Tell it what to do instead."))
                cut_off = 0
                continue
            self._words = self._words + message.text if cut_off else message.text
            if finished.stop == "length":
                cut_off += 1
                if cut_off <= _MOST_GOING_ON:
                    self._conversation.add(UserMessage(GO_ON))
                    continue
                self._queue.put(
                    AgentNotice(phrase("The answer was cut off by the model's length limit, and may be incomplete."))
                )
            if not self._agent.steering:
                return self._ended(Ending.DONE)
            cut_off = 0

    async def _ask(self) -> Finished:
        """One answer of the model; a conversation that is too long for it is made shorter first, or once it says so."""
        agent, room = self._agent, self._agent.room
        limit = room.limit(agent.model, agent.limits.context_tokens)
        if room.tokens(agent.system) > limit:
            await self._make_room(limit)
        try:
            finished = await self._listen()
        except ModelError as error:
            if error.fault is not ModelFault.TOO_LONG or not await self._make_room(room.too_long(agent.system)):
                raise
            finished = await self._listen()
        self._hearing.text = ""
        self.meter.steps += 1
        self.meter.add(finished.usage)
        if self.meter.steps == 1 and agent.limits.cost is not None and finished.usage.cost is None:
            self._queue.put(
                AgentNotice(
                    phrase(
                        "The price of `{name}` is unknown, so a cost limit cannot be enforced.", name=agent.model.name
                    )
                )
            )
        return replace(finished, message=self._conversation.identified(finished.message))

    async def _listen(self) -> Finished:
        agent = self._agent
        request = ModelRequest(
            tuple(self._conversation.messages), agent.system, agent.tools.tools(), effort=self._effort
        )
        return await self._hearing.listen(agent.model, request)

    async def _make_room(self, limit: int) -> bool:
        agent = self._agent
        compacted = await agent.room.make(agent.model, agent.system, limit, self.meter.add)
        if compacted is not None:
            self._queue.put(compacted)
        return compacted is not None

    async def _call(self, finished: Finished) -> int:
        """Run the calls of an answer and keep their results; gives how often the most repeated of them came."""
        agent, calls = self._agent, finished.message.calls
        runtime = agent.runtime.with_tools(agent.tools)
        calling = Calling(calls, runtime, agent.session, agent.parent, self._queue.put)
        try:
            results = await (calling.refuse(_torn()) if finished.stop == "length" else calling.run())
        except asyncio.CancelledError:
            why = self._stopped.problem if self._stopped is not None and self._stopped.problem else INTERRUPTED
            self._keep(calling.interrupted(why))
            raise
        most = agent.result_chars(len(calls))
        worst = 0
        noted: list[ToolResult] = []
        for call, result in zip(calls, results, strict=True):
            tool = agent.tools.get(call.name)
            times = self._repeats.count(call, result, tool)
            worst = max(worst, times)
            kept = bounded(result, most, tool)
            if times >= NOTED:
                kept.llm_content += note(times)
                self._queue.put(
                    AgentNotice(
                        phrase(
                            "The same call to `{name}` gave the same result {times} times.",
                            name=call.name,
                            times=times,
                        )
                    )
                )
            noted.append(kept)
        self._conversation.add(ToolResults(tuple(noted)))
        return worst

    def _keep(self, results: list[ToolResult]) -> None:
        most = self._agent.result_chars(len(results))
        self._conversation.add(ToolResults(tuple(bounded(result, most) for result in results)))

    async def _deliver_steering(self) -> None:
        steering = self._agent.steering
        while steering:
            text = steering[0]
            message = await self._agent.hear(text)
            if steering and steering[0] == text:  # it was not taken back meanwhile
                steering.popleft()
                self._conversation.add(message)
                self._queue.put(Steered(text))

    def _refused(self, message: AssistantMessage) -> TurnEnded:
        if message.text.strip():
            self._conversation.add(AssistantMessage(message.text))
            self._words = message.text
        said = phrase("`{name}` declined to continue.", name=self._agent.model.name)
        return self._failed(ModelError(ModelFault.REFUSED, said, suggestion=_OTHERWISE))

    def _keep_what_was_said(self) -> None:
        """An answer that broke off was seen by the person; the model must know of it too."""
        if self._hearing.text.strip():
            self._conversation.add(AssistantMessage(self._hearing.text))
            self._words = self._hearing.text
            self._hearing.text = ""


def _torn() -> StoppedError:
    return StoppedError(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        phrase("The call was not run: the answer was cut off by its length limit, so its arguments may be incomplete."),
        phrase("Call it again with less in one answer, for example by writing a long file in several parts."),
    )


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has really ended, however often the wait itself is cancelled."""
    if task.done():
        return
    task.cancel()
    again: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            again = error
    if again is not None:
        raise again


async def _as_said(text: str) -> UserMessage:
    return UserMessage(text)


_DEFAULT_LIMITS = AgentLimits()
_CHARACTERS_A_TOKEN = 3


class Agent:
    """Works on what a user says, one turn at a time, with tools.

    `tools` are those it is shown and may call; in plan mode only the read-only ones among them. They run in `runtime`,
    with its policy, questions and records; left out, in one of its own. Without `tools` it has all of the runtime's.
    `system` is what the model is told before everything else, asked for once a turn. `model`, `effort` and `limits`
    may be replaced between turns. A sub-agent has a `parent`: the context of the call that it works for.
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
        parent_meter: Meter | None = None,
    ) -> None:
        if not hasattr(model, "stream"):
            meant = f": write open_model({model!r})" if isinstance(model, str) else ""
            raise TypeError(f"An Agent takes a model, not {model!r}{meant}.")
        source = tools if tools is None or isinstance(tools, ToolSource) else Registry(tools)
        self.runtime = runtime = runtime if runtime is not None else Runtime(source or ())
        self.model = model
        self.limits = limits
        self.parent = parent
        self.parent_meter = parent_meter
        self.steering: deque[str] = deque()
        """What the user said while it worked and the model has not read yet; the next turn begins with it."""
        self.hear: Callable[[str], Awaitable[UserMessage]] = _as_said
        """Makes what was said while it worked into a message, once the model is about to read it."""
        self.effort: Effort | None = None
        """How much the model should think before it answers; None leaves that to the model."""
        self.system = ""
        """What the model is told before everything else, as this turn began."""
        self._system = system
        self.conversation = conversation if conversation is not None else Conversation()
        if save is not None:
            self.conversation.journal = save
        self._tools = source if source is not None else runtime.tools
        self._plan = self._tools.for_mode("plan")
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

    async def run(
        self, text: str, attachments: Sequence[Attachment] = (), *, typed: str = ""
    ) -> AsyncGenerator[AgentEvent, None]:
        """One turn; the last event is always `TurnEnded`. Closing the stream early stops the turn.

        `typed` is what the user typed, where `text` has more for the model.
        """
        if self._turn is not None:
            raise RuntimeError("This agent is working on a turn; use `steer` to add a message to it.")
        turn = self._turn = Turn(self, text, attachments, typed)
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
            raise RuntimeError("This agent is working on a turn; its conversation cannot be changed now.")
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
