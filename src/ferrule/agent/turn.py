"""One turn of an agent: the model is asked, its calls run, it reads the results, until it gives its answer (M1)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, cast

from ferrule.agent.agent_events import (
    AgentEvent,
    AgentNotice,
    Answered,
    Ending,
    Limit,
    Steered,
    TurnEnded,
    TurnStarted,
)
from ferrule.agent.calling import NOTED, Calling, Repeats, TurnModel, bounded, note, without_note
from ferrule.agent.conversation import GO_ON, SAY_SOMETHING, AgentTracer, Hearing, cancelled, turn_span
from ferrule.agent.limits import Meter, RunningTurn, running
from ferrule.agent.output import OutputAgent, TurnOutput
from ferrule.agent.step_tools import processed
from ferrule.agent.turn_log import TurnStateError
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.model import (
    AssistantMessage,
    Finished,
    ModelError,
    ModelFault,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ToolResults,
    Usage,
    UserMessage,
    check_settings,
)
from ferrule.core.nearest import nearest
from ferrule.core.phrases import advice, phrase
from ferrule.pipeline.record import EventQueue
from ferrule.registry.search_tools import SearchedTools

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

    from ferrule.agent.agent_events import WaitingCall
    from ferrule.agent.compaction import Room
    from ferrule.agent.conversation import Conversation
    from ferrule.agent.limits import AgentLimits, Budget
    from ferrule.agent.model_hooks import ModelHooks
    from ferrule.agent.step_tools import HistoryProcessor
    from ferrule.core.call import RawCall
    from ferrule.core.context import ModelAdapter
    from ferrule.core.model import Message
    from ferrule.core.result import Attachment, ToolResult
    from ferrule.registry.registry import ToolSource
    from ferrule.registry.search_tools import ToolSearch


class TurnAgent(OutputAgent, Protocol):
    """What a turn needs of its agent."""

    name: str
    settings: ModelSettings
    limits: AgentLimits
    budget: Budget | None
    hooks: ModelHooks
    history: tuple[HistoryProcessor, ...]
    hear: Callable[[str], Awaitable[UserMessage]]
    room: Room
    system: str
    deps_type: type[Any] | None
    search: ToolSearch | None

    @property
    def conversation(self) -> Conversation: ...

    @property
    def active(self) -> TurnAgent: ...

    @property
    def tools(self) -> ToolSource: ...

    async def tools_of_step(self, number: int, messages: Sequence[Message], deps: Any) -> ToolSource: ...

    def enter_session(self, adapter: ModelAdapter, turn: int) -> None: ...

    def hand_over(self, target: Any) -> TurnAgent: ...


logger = logging.getLogger("ferrule.agent")

_MOST_GOING_ON = 3
_MOST_EMPTY = 2
_MOST_OBJECTIONS = 3

INTERRUPTED = advice("The user stopped it.", "You stopped it.")
_OTHERWISE = phrase("Rephrase the request, or choose another model.")


class Turn:
    """A turn while it runs. Its work is a task of its own: stopping it never depends on who reads the events."""

    def __init__(
        self,
        agent: TurnAgent,
        text: str,
        attachments: Sequence[Attachment],
        typed: str,
        deps: Any,
        settings: ModelSettings,
        *,
        resumed: bool = False,
    ) -> None:
        self._agent = agent
        self._resumed = resumed
        """Whether it goes on with the conversation's open turn."""
        self._active = agent.active
        """Who answers: the agent, or the one that it handed over to."""
        self._deps = deps
        self._own_settings = settings
        self._settings = self._active.settings | settings  # of the whole turn: some providers refuse a change in it
        self._next: tuple[str, TurnAgent] | None = None
        self._conversation = agent.conversation
        self._text = text
        self._attachments = tuple(attachments)
        self._typed = typed
        self._queue: EventQueue[AgentEvent] = EventQueue()
        self._output = TurnOutput(agent, deps, agent.limits.output_attempts, self._queue.put)
        self._hearing = Hearing(self._output.show)
        self._repeats = Repeats()
        self._task: asyncio.Task[TurnEnded] | None = None
        self._stopped: TurnEnded | None = None
        self._waiting: tuple[WaitingCall, ...] = ()
        self._words = ""
        """The model's last words: those of its last answer, and of the ones it was cut off in before."""
        self._failure: Exception | None = None
        """Why the model gave no answer, where it gave none."""
        self._cut_off = self._empty = self._objections = 0
        above = running.get()
        meter_above = above.meter if above is not None and not above.is_over else None
        self.meter = Meter(agent.limits, meter_above, agent.budget, self._active.budget)
        if resumed and (before := self._conversation.open) is not None:
            self.meter.restore(before.usage, before.steps, before.seconds)
        self._running = RunningTurn(self.meter, agent.runtime, self.hand_over, self._conversation)

    # Seen from outside

    def stop(self, ending: Ending, problem: str, suggestion: str = "", limit: Limit = "") -> None:
        """End the turn now, however far it is; the first reason given counts."""
        if self._stopped is None:
            self._stopped = self._ended(ending, problem, suggestion, limit)
            if self._task is not None:
                self._task.cancel()

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Everything that happens, ending with `TurnEnded`. Leaving early stops the turn."""
        conversation = self._conversation
        if not self._resumed:
            conversation.turn += 1
            typed = self._typed if self._typed != self._text else ""
            conversation.begin_turn(UserMessage(self._text, self._attachments, typed, conversation.turn))
        self._agent.enter_session(TurnModel(self._agent.model, self.meter), conversation.turn)
        ended = self._ended(Ending.INTERRUPTED)
        try:
            yield TurnStarted(conversation.turn, self._text)
            self._task = task = asyncio.ensure_future(self._traced())
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
                await end_task(task)
        finally:
            self._running.is_over = True
            if ended.ending is not Ending.PAUSED:
                ended = self._over(ended)
        yield replace(ended, text=self._words, usage=self.meter.usage, steps=self.meter.steps)

    def _over(self, ended: TurnEnded) -> TurnEnded:
        """Keep that the turn is over; one that could not be kept has failed."""
        try:
            self._conversation.settle(INTERRUPTED)
            self._conversation.end_turn(ended.ending, self.meter.usage, self._agent.model.name)
        except TurnStateError as error:
            return self._unkept(error)
        return ended

    def _unkept(self, error: TurnStateError) -> TurnEnded:
        self._failure = error
        return self._ended(Ending.FAILED, error.message, error.suggestion)

    def _start_timer(self) -> asyncio.TimerHandle | None:
        left = self.meter.seconds_left
        if left is None:
            return None
        return asyncio.get_running_loop().call_later(left, lambda: self.stop(Ending.LIMIT, *self.meter.out_of_time))

    def _ended(self, ending: Ending, problem: str = "", suggestion: str = "", limit: Limit = "") -> TurnEnded:
        output = self._output.value if ending is Ending.DONE else None
        failure = self._failure if ending is Ending.FAILED else None
        return TurnEnded(
            ending,
            self._words,
            self.meter.usage,
            self.meter.steps,
            problem,
            suggestion,
            limit,
            output,
            _failure=failure,
        )

    def _failed(self, error: ModelError) -> TurnEnded:
        self._failure = error
        return self._ended(Ending.FAILED, error.message, error.suggestion)

    # The work itself

    async def _traced(self) -> TurnEnded:
        """The work, inside a span if the runtime has a tracer for that."""
        tracer = self._agent.runtime.tracer
        if tracer is None or not isinstance(tracer, AgentTracer):
            return await self._work()
        agent, parent = self._agent, self._agent.parent
        name = parent.tool if parent else agent.name
        with tracer.turn(self._active.model.name, agent.session, self._text, name) as span:
            turn_span.set(span)  # for this task, and for what it starts
            ended = self._ended(Ending.INTERRUPTED)
            try:
                ended = await self._work()
            finally:
                ended = self._stopped or ended
                span.ended(ended.ending, self._words, self.meter.usage, self._failure)
            return ended

    async def _work(self) -> TurnEnded:
        running.set(self._running)
        try:
            self.check_start()
            return await self._steps()
        except asyncio.CancelledError:
            with suppress(TurnStateError):
                self._keep_what_was_said()
            raise
        except ModelError as error:
            with suppress(TurnStateError):
                self._keep_what_was_said()
            return self._failed(error)
        except TurnStateError as error:
            return self._unkept(error)
        except Exception as error:
            logger.exception("The turn failed")
            self._keep_what_was_said()
            self._failure = error
            problem = phrase("An internal error stopped the turn: {kind}.", kind=type(error).__name__)
            return self._ended(Ending.FAILED, problem, phrase("See the log for details. The conversation is intact."))

    def check_start(self) -> None:
        """Refuse what cannot hold before the model is asked: settings that it lacks, and a limit on an unknown cost."""
        active, settings = self._active, self._settings
        self.meter.require_price(active.model)
        check_settings(active.model, settings)
        name = settings.tool_choice
        tools = active.tools if active.search is None else SearchedTools(active.tools, active.search)
        if name not in (None, "auto", "none", "required") and name not in tools:
            close = nearest(name, active.tools.names(), most=1)
            raise ModelError(
                ModelFault.REFUSED,
                phrase("There is no tool `{name}` to choose.", name=name),
                suggestion=phrase("Did you mean `{name}`?", name=close[0]) if close else "",
            )

    async def _go_on(self) -> TurnEnded | None:
        """Finish the step that a resumed turn was in: run the calls that are left, or take the answer that it gave."""
        conversation = self._conversation
        open_turn, messages = conversation.open, conversation.messages
        last = messages[-1]
        begun = next((at for at in reversed(range(len(messages))) if _begins_turn(messages[at])), 0)
        self._output.recount(messages[begun:])
        for answer, after in pairwise(messages[begun:]):
            if isinstance(answer, AssistantMessage) and isinstance(after, ToolResults):
                for call, result in zip(answer.calls, after.results, strict=True):
                    self._repeats.count(call, without_note(result), self._active.tools.get(call.name))
        if isinstance(last, ToolResults) and open_turn is not None and open_turn.output is not None:
            answer = messages[-2]
            if isinstance(answer, AssistantMessage) and self._output.take_again(open_turn.output["value"], answer):
                self._words = answer.text
                return self._ended(Ending.DONE)
        at = len(messages) - isinstance(last, AssistantMessage)
        while at > 1 and messages[at - 1] == UserMessage(GO_ON):  # the answer was cut off, and went on
            at -= 2
            self._cut_off += 1
            self._words = cast("AssistantMessage", messages[at]).text + self._words
        if not isinstance(last, AssistantMessage):
            return None
        is_torn = open_turn is not None and open_turn.torn
        self._shown = await self._active.tools_of_step(max(1, self.meter.steps), messages[:-1], self._deps)
        return await self._after(Finished(last, Usage(), "length" if is_torn else "calls" if last.calls else "end"))

    async def _steps(self) -> TurnEnded:
        if self._resumed and (ended := await self._go_on()) is not None:
            return ended
        while True:
            await self._deliver_steering()
            try:
                async with self.meter.request(self._kind) as reached:
                    if reached:
                        return self._ended(Ending.LIMIT, *reached)
                    finished, objection = await self._ask()
            except StoppedError as denied:
                return self._ended(Ending.DENIED, denied.message)
            message = finished.message
            if objection:
                self._objections += 1
                if self._objections > _MOST_OBJECTIONS:
                    said = phrase("The model's hooks refused {count} answers.", count=self._objections)
                    return self._ended(Ending.DENIED, said)
                if message.text.strip():
                    self._conversation.add(AssistantMessage(message.text))
                self._conversation.add(UserMessage(objection))
                continue
            if finished.stop == "refused":
                return self._refused(message)
            if not message.text.strip() and not message.calls:
                self._empty += 1
                if self._empty > _MOST_EMPTY:
                    said = phrase(
                        "`{name}` gave an empty answer {empty} times.", name=self._active.model.name, empty=self._empty
                    )
                    return self._failed(ModelError(ModelFault.GARBLED, said, suggestion=_OTHERWISE))
                self._conversation.add(UserMessage(SAY_SOMETHING))
                continue
            self._conversation.add(message, torn=finished.stop == "length")
            self._agent.room.sizes.told(self._conversation.messages, finished.usage)
            self._queue.put(Answered(message, finished.usage))
            if (ended := await self._after(finished)) is not None:
                return ended

    async def _after(self, finished: Finished) -> TurnEnded | None:
        """Do what an answer asks for: run its calls, or take it as the last one; gives how the turn ends with that."""
        message = finished.message
        if message.calls:
            self._words = message.text
            times = await self._call(finished)
            if self._waiting:
                return self._pause()
            if self._next is not None:
                self._hand_over(*self._next)
            if self._output.taken:
                return self._ended(Ending.DONE)
            self._output.require_more_attempts()
            most = self._agent.limits.repeats
            if most is not None and times >= most:
                problem = phrase("The model made the same call with the same result {count} times.", count=times)
                return self._ended(Ending.LOOP, problem, phrase("Tell it what to do instead."))
            self._cut_off = 0
            return None
        self._words = self._words + message.text if self._cut_off else message.text
        is_torn = finished.stop == "length"
        if is_torn and self._output.is_words:
            self._cut_off += 1
            if self._cut_off <= _MOST_GOING_ON:
                self._conversation.add(UserMessage(GO_ON))
                return None
            self._queue.put(
                AgentNotice(phrase("The answer was cut off by the model's length limit, and may be incomplete."))
            )
        if not self._agent.steering:
            why_not = await self._output.read(self._words, is_torn=is_torn)
            if why_not is None:
                return self._ended(Ending.DONE)
            self._output.require_more_attempts()
            self._conversation.add(UserMessage(why_not))
        self._cut_off = 0
        return None

    def _pause(self) -> TurnEnded:
        """Leave the turn as it is, until what it waits for is there."""
        named = ", ".join(dict.fromkeys(f"`{one.tool}`" for one in self._waiting))
        if (open_turn := self._conversation.open) is not None:  # with what sub-agents used
            open_turn.usage, open_turn.steps = self.meter.usage, self.meter.steps
        state = self._conversation.pause(self._waiting, self.meter.seconds)
        ended = self._ended(Ending.PAUSED, phrase("The turn waits for {calls}.", calls=named))
        return replace(ended, waiting=self._waiting, state=state)

    @property
    def _kind(self) -> str:
        """What requests are alike: those of one model for the same tool, if it is a sub-agent's."""
        parent = self._agent.parent
        return f"{parent.tool if parent else ''} {self._active.model.name}"

    async def _ask(self) -> tuple[Finished, str]:
        """One answer of the model, and what a hook has against it. A conversation that is too long is made shorter
        first, or once the model says so.
        """
        agent, room = self._active, self._agent.room
        limit = room.limit(agent.model, agent.limits.context_tokens)
        if room.tokens(agent.system) > limit:
            await self._make_room(limit)
        self._shown = await agent.tools_of_step(self.meter.steps + 1, self._conversation.messages, self._deps)
        if isinstance(self._shown, SearchedTools) and not self.meter.steps:
            chosen = self._shown.source.get(self._settings.tool_choice or "")
            self._shown.show([chosen] if chosen is not None else [])  # no provider takes a choice that it is not sent
        try:
            finished, objection = await self._listen()
        except ModelError as error:
            if error.fault is not ModelFault.TOO_LONG or not await self._make_room(room.too_long(agent.system)):
                raise
            finished, objection = await self._listen()
        self._hearing.text = ""
        return replace(finished, message=self._conversation.identified(finished.message)), objection

    async def _listen(self) -> tuple[Finished, str]:
        agent, hooks = self._active, self._active.hooks
        settings = self._settings
        if self.meter.steps and settings.tool_choice not in (None, "auto", "none"):
            settings = replace(settings, tool_choice=None)  # a choice for every answer would never end in words
        messages: Sequence[Message] = self._conversation.messages
        for process in agent.history:
            messages = await processed(process, messages)
        request = ModelRequest(tuple(messages), agent.system, self._shown.tools(), settings)
        if hooks.checks_requests:
            request = await hooks.before(request, agent.session)
        held: list[AgentEvent] = []
        hearing = Hearing(held.append) if hooks.checks_answers else self._hearing
        finished = await hearing.listen(agent.model, self._output.asked_for(request, agent.model))
        self.meter.steps += 1
        self._count(finished.usage, self._kind, steps=1)
        if not hooks.checks_answers:
            return finished, ""
        passed = await hooks.after(finished.message, agent.session)
        if isinstance(passed, str):
            return finished, passed
        if passed is not finished.message:
            held = [TextDelta(passed.text)] if passed.text else []
            stop = "end" if finished.stop == "calls" and not passed.calls else finished.stop
            finished = replace(finished, message=passed, stop=stop)
        for event in held:
            self._output.show(event)
        return finished, ""

    def _count(self, usage: Usage, kind: str = "", *, steps: int = 0) -> None:
        self.meter.add(usage, kind)
        seconds = self.meter.seconds if self.meter.limits.seconds is not None else 0.0
        self._conversation.count(usage, steps=steps, seconds=seconds)

    def hand_over(self, name: str, target: TurnAgent) -> None:
        """Have another agent answer once the calls of this answer have run. Raises `ModelError` where it cannot.

        The turn ends with the output of the agent that was asked, whoever answers.
        """
        if self._next is not None:
            raise ModelError(
                ModelFault.REFUSED,
                phrase("The conversation was handed over to `{name}` already.", name=self._next[0]),
                suggestion=phrase("Hand over to one agent at a time."),
            )
        for meter in filter(None, (self.meter, target.budget)):
            meter.require_price(target.model)
        check_settings(target.model, target.settings | self._own_settings)
        if target.deps_type is not None and self._deps is None:
            kind = target.deps_type.__name__
            raise ModelError(
                ModelFault.REFUSED,
                phrase("`{name}` works with a {kind}, and the run was given none.", name=name, kind=kind),
                suggestion=phrase(
                    "The program that embeds Ferrule must pass `deps=…` with the run; another call will not help."
                ),
            )
        self._next = name, target

    def _hand_over(self, name: str, target: TurnAgent) -> None:
        """Have another agent answer from here on, in this runtime and conversation."""
        self._active = self._agent.hand_over(target)
        self._conversation.hand_over(name)
        self.meter.include(target.budget)
        self._settings = self._active.settings | self._own_settings
        self._next = None
        self._queue.put(AgentNotice(phrase("`{name}` answers from here on.", name=name)))

    async def _make_room(self, limit: int) -> bool:
        agent = self._active
        compacted = await self._agent.room.make(agent.model, agent.system, limit, self._count)
        if compacted is not None:
            self._queue.put(compacted)
        return compacted is not None

    async def _call(self, finished: Finished) -> int:
        """Run the calls of an answer and keep their results; gives how often the most repeated of them came."""
        agent = self._agent
        calls, final = self._output.split(finished.message.calls)
        torn = _torn() if finished.stop == "length" else None
        runtime = agent.runtime.with_tools(self._shown, deps=self._deps)
        most = agent.result_chars(len(calls))
        calling = Calling(calls, runtime, agent.session, agent.parent, self._queue.put, most, self._conversation)
        self._running.calling, self._running.runtime = calling, calling.runtime
        try:
            results = await (calling.refuse(torn) if torn is not None else calling.run())
        except asyncio.CancelledError:
            self._keep([*calling.interrupted(self._why_stopped), *self._cancelled(final)], finished)
            raise
        self._waiting = tuple(one for call in calls for one in calling.waiting.get(call.id, ()))
        if self._waiting:
            return 0
        worst = 0
        noted: list[ToolResult] = []
        for call, result in zip(calls, results, strict=True):
            tool = self._shown.get(call.name)
            times = self._repeats.count(call, result, tool)
            worst = max(worst, times)
            kept = replace(bounded(result, most, tool))
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
        failed = any(not one.success for one in results)
        for at, call in enumerate(final):
            try:
                noted.append(await self._output.take(call, torn=torn, failed=failed))
                self._waiting = self._output.waiting.get(call.id, ())
                if self._waiting:
                    return 0
            except asyncio.CancelledError:
                self._keep([*noted, *self._cancelled(final[at:])], finished)
                raise
            except Exception:
                failure = phrase("The program around it failed.")
                self._keep([*noted, *(cancelled(one, failure) for one in final[at:])], finished)
                raise
        self._keep(noted, finished)
        return worst

    @property
    def _why_stopped(self) -> str:
        return self._stopped.problem if self._stopped is not None and self._stopped.problem else INTERRUPTED

    def _cancelled(self, calls: Sequence[RawCall]) -> list[ToolResult]:
        return [cancelled(call, self._why_stopped) for call in calls]

    def _keep(self, results: Iterable[ToolResult], finished: Finished) -> None:
        given = {result.call_id: result for result in results}
        kept = ToolResults(tuple(given[call.id] for call in finished.message.calls))
        self._conversation.add(kept, output={"value": self._output.value} if self._output.taken else None)

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
        said = phrase("`{name}` declined to continue.", name=self._active.model.name)
        return self._failed(ModelError(ModelFault.REFUSED, said, suggestion=_OTHERWISE))

    def _keep_what_was_said(self) -> None:
        """An answer that broke off was seen by the person; the model must know of it too."""
        if self._hearing.text.strip():
            self._conversation.add(AssistantMessage(self._hearing.text))
            self._words = self._hearing.text
            self._hearing.text = ""


def _begins_turn(message: Message) -> bool:
    return isinstance(message, UserMessage) and bool(message.turn)


def _torn() -> StoppedError:
    return StoppedError(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        phrase("The call was not run: the answer was cut off by its length limit, so its arguments may be incomplete."),
        phrase("Call it again with less in one answer, for example by writing a long file in several parts."),
    )


async def end_task(task: asyncio.Task[Any]) -> None:
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
