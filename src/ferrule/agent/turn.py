"""One turn: the model is asked, its calls run, it reads the results, until it answers in words (M1)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferrule.agent.agent_events import Answered, CallAsked, Ending, Noted, Steered, TurnEnded, TurnStarted
from ferrule.agent.conversation import cancelled
from ferrule.agent.doing import doing
from ferrule.agent.hearing import GO_ON, SAY_SOMETHING, Hearing
from ferrule.agent.limits import Meter
from ferrule.core.errors import ErrorKind, Stage, Stopped, ToolError
from ferrule.core.events import Done, Partial, Pending, Progress
from ferrule.core.model import (
    AssistantMessage,
    Finished,
    ModelError,
    ModelFault,
    ModelRequest,
    ToolResults,
    UserMessage,
)
from ferrule.core.phrases import phrase
from ferrule.pipeline.format import head_and_tail

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence

    from ferrule.agent.agent import Agent
    from ferrule.agent.agent_events import AgentEvent
    from ferrule.core.call import RawCall
    from ferrule.core.context import Session, ToolContext
    from ferrule.core.events import CallEvent
    from ferrule.core.model import Model, Usage
    from ferrule.core.result import Attachment, ToolResult
    from ferrule.core.tool import Tool
    from ferrule.pipeline.run import Runtime


# Results as the model reads them: bounded, with how much was left out and how to get it.


_PAGES = (("offset", "limit"), ("head_limit",), ("limit",))


def bounded(result: ToolResult, most: int, tool: Tool[Any] | None = None) -> ToolResult:
    """The result as it stands in the conversation. Its typed data is for programs, and would only fill the memory."""
    text = result.llm_content
    if len(text) > most:
        text, left_out = head_and_tail(text, most)
        text += f"\n[{left_out:,} characters were left out, because the result was too long. {_how_to_get_it(tool)}]"
    return replace(result, llm_content=text, data=None, metadata={})


def _how_to_get_it(tool: Tool[Any] | None) -> str:
    if tool is not None and tool.fault is None:
        schema = tool.input_schema
        known: Any = schema.get("properties", {}) if isinstance(schema, dict) else {}
        for names in _PAGES:
            if all(name in known for name in names):
                listed = " and ".join(f"`{name}`" for name in names)
                return f"Call `{tool.name}` again with {listed} for the part you need."
    return "Ask for less at once for the part you need."


# Notices when a model makes the same call again and again and gets the same result each time.


NOTED = 3
ENDED = 5


class Repeats:
    """Counts calls of one turn that were made before with the same arguments and gave the same.

    A tool that may change things and does something new begins the count anew: tests that are run again after an edit
    are no loop, however they end.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], int] = {}

    def count(self, call: RawCall, result: ToolResult, tool: Tool[Any] | None) -> int:
        """How often this call has come to this result by now."""
        key = call.name, str(call.arguments), hash(result.llm_content)
        if key not in self._seen and result.success and tool is not None and not tool.read_only:
            self._seen.clear()
        self._seen[key] = times = self._seen.get(key, 0) + 1
        return times


def note(times: int) -> str:
    """What the model reads below a result that it had before."""
    return (
        f"\n\n[This call was made {times} times with the same arguments and the same result. Making it again changes "
        "nothing: try another approach, or say what holds you up.]"
    )


# The agent's model as a tool may ask it (T8): one prompt, one answer, counted into the turn.


class TurnModel:
    """What a session's `model_adapter` is while an agent's turn runs."""

    def __init__(self, model: Model, count: Callable[[Usage], None]) -> None:
        self._model = model
        self._count = count

    async def complete(self, prompt: str) -> str:
        """The model's words; its failures are the tool's, in words that the model above reads."""
        try:
            finished = await Hearing(lambda event: None).listen(self._model, ModelRequest([UserMessage(prompt)]))
        except ModelError as error:
            raise ToolError(
                phrase("The model could not be asked: {message}", message=error.message),
                suggestion=error.suggestion or None,
            ) from None
        self._count(finished.usage)
        return finished.message.text


# Events on their way to whoever reads the stream; what nobody reads in time does not fill the memory.


_MOST = 1000


class EventQueue:
    """First in, first out. Of a slow reader's events the oldest progress and partial output give way, and say so."""

    def __init__(self) -> None:
        self._events: deque[AgentEvent] = deque()
        self._dropped: dict[str, int] = {}
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, event: AgentEvent) -> None:
        if len(self._events) >= _MOST and isinstance(event, (Progress, Partial)):
            self._make_room()
        self._events.append(event)
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def next(self) -> AgentEvent | None:
        """The oldest event; None when closed and empty."""
        while not self._events:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        event = self._events.popleft()
        if isinstance(event, Partial) and (dropped := self._dropped.pop(event.call_id, 0)):
            return replace(event, dropped=event.dropped + dropped)
        return event

    def _make_room(self) -> None:
        for position, event in enumerate(self._events):
            if isinstance(event, (Progress, Partial)):
                if isinstance(event, Partial):
                    self._dropped[event.call_id] = self._dropped.get(event.call_id, 0) + 1 + event.dropped
                del self._events[position]
                return


# The calls of one answer: through the runtime as one batch, each event shown, exactly one result for each call.


class Calling:
    """Runs the calls of one answer, and shows what happens to them and to the calls that they make in turn."""

    def __init__(
        self,
        calls: Sequence[RawCall],
        runtime: Runtime,
        session: Session,
        parent: ToolContext | None,
        show: Callable[[AgentEvent], None],
    ) -> None:
        self._calls = calls
        self._runtime = runtime
        self._session = session
        self._parent = parent
        self._show = show
        self._watched: set[str] = {call.id for call in calls}
        self._done: dict[str, ToolResult] = {}

    async def run(self) -> list[ToolResult]:
        """A result for each call, in order. When this is cancelled, `interrupted` has the results."""
        with self._watching():
            return await self._runtime.batch(self._calls, session=self._session, parent=self._parent)

    async def refuse(self, why: Stopped) -> list[ToolResult]:
        """Run none of them, on the record."""
        with self._watching():
            return [
                await self._runtime.refuse(call, why, session=self._session, parent=self._parent)
                for call in self._calls
            ]

    def interrupted(self, why: str) -> list[ToolResult]:
        """The results of calls that were cancelled: a call that had come to its end keeps its own."""
        ended = {
            call_id: result
            for call_id, result in self._done.items()
            if result.error is None or result.error.kind != ErrorKind.CANCELLED
        }
        return [ended.get(call.id) or cancelled(call, why) for call in self._calls]

    @contextmanager
    def _watching(self) -> Generator[None]:
        for call in self._calls:
            self._show(CallAsked(call, *doing(self._runtime.tools.get(call.name), call)))
        unsubscribe = self._runtime.subscribe(self._hear)
        try:
            yield
        finally:
            unsubscribe()

    def _hear(self, event: CallEvent) -> None:
        if event.call_id in self._watched:
            if isinstance(event, Done):
                self._watched.discard(event.call_id)
                self._done[event.call_id] = event.result
        elif isinstance(event, Pending) and event.parent_id in self._watched:
            self._watched.add(event.call_id)
        else:
            return
        self._show(event)


logger = logging.getLogger("ferrule.agent")

_MOST_GOING_ON = 3
_MOST_EMPTY = 2

INTERRUPTED = phrase("The person stopped it.")
_OTHERWISE = phrase("Say it in other words, or choose another model.")


class Turn:
    """A turn while it runs. Its work is a task of its own: stopping it never depends on who reads the events."""

    def __init__(self, agent: Agent, text: str, attachments: Sequence[Attachment]) -> None:
        self._agent = agent
        self._conversation = agent.conversation
        self._text = text
        self._attachments = tuple(attachments)
        self._queue = EventQueue()
        self._hearing = Hearing(self._queue.put)
        self._repeats = Repeats()
        self._task: asyncio.Task[TurnEnded] | None = None
        self._stopped: TurnEnded | None = None
        self._words = ""
        """The model's last words: those of its last answer, and of the ones it was cut off in before."""
        self.failure: Exception | None = None
        """Why the model gave no answer, where it gave none."""
        self.meter = Meter(agent.limits, agent.above)

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
        conversation.add(UserMessage(self._text, self._attachments))
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
            logger.exception("The turn broke")
            self._keep_what_was_said()
            self.failure = error
            problem = phrase("The program failed while it worked with the model: {kind}.", kind=type(error).__name__)
            return self._ended(
                Ending.FAILED, problem, phrase("The log says more. Nothing of the conversation is lost.")
            )

    async def _steps(self) -> TurnEnded:
        empty = cut_off = 0
        while True:
            self._deliver_steering()
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
                    return self._ended(Ending.LOOP, problem, phrase("Say what it should do instead."))
                cut_off = 0
                continue
            self._words = self._words + message.text if cut_off else message.text
            if finished.stop == "length":
                cut_off += 1
                if cut_off <= _MOST_GOING_ON:
                    self._conversation.add(UserMessage(GO_ON))
                    continue
                self._queue.put(
                    Noted(phrase("The answer was cut off by the model's length limit, and may not be whole."))
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
                Noted(
                    phrase(
                        "The price of `{name}` is not known, so no cost limit can be held to.", name=agent.model.name
                    )
                )
            )
        return replace(finished, message=self._conversation.identified(finished.message))

    async def _listen(self) -> Finished:
        agent = self._agent
        request = ModelRequest(tuple(self._conversation.messages), agent.system, agent.tools.tools())
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
        runtime = agent.runtime.seeing(agent.tools)
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
                    Noted(
                        phrase(
                            "The same call of `{name}` came to the same result {times} times.",
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

    def _deliver_steering(self) -> None:
        while self._agent.steering:
            text = self._agent.steering.popleft()
            self._conversation.add(UserMessage(text))
            self._queue.put(Steered(text))

    def _refused(self, message: AssistantMessage) -> TurnEnded:
        if message.text.strip():
            self._conversation.add(AssistantMessage(message.text))
            self._words = message.text
        said = phrase("`{name}` would not go on.", name=self._agent.model.name)
        return self._failed(ModelError(ModelFault.REFUSED, said, suggestion=_OTHERWISE))

    def _keep_what_was_said(self) -> None:
        """An answer that broke off was seen by the person; the model must know of it too."""
        if self._hearing.text.strip():
            self._conversation.add(AssistantMessage(self._hearing.text))
            self._words = self._hearing.text
            self._hearing.text = ""


def _torn() -> Stopped:
    return Stopped(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        phrase("The call was not run: the answer was cut off by its length limit, so its arguments may not be whole."),
        phrase("Make the call again with less in one answer, for example a long file in several parts."),
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
