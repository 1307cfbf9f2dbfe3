"""The calls of one answer: run as one batch, shown while they run, and read by the model within bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from string import Formatter
from typing import TYPE_CHECKING, Any, cast

from ferrule.agent.agent_events import CALLING, CallAsked, parsed
from ferrule.agent.conversation import Hearing, cancelled
from ferrule.agent.limits import running
from ferrule.agent.turn_log import TurnStateError, WaitingCall, approval_needed, path_of, shown_hash
from ferrule.core.errors import ErrorKind, Stage, StoppedError, ToolError
from ferrule.core.events import Done, Pending
from ferrule.core.model import (
    ModelError,
    ModelRequest,
    UserMessage,
)
from ferrule.core.phrases import phrase
from ferrule.core.secrets import redact_text, redact_value
from ferrule.core.shown_text import flattened, head_and_tail
from ferrule.pipeline.batch import may_refer
from ferrule.pipeline.confirm import Choice, denial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.agent.conversation import Conversation
    from ferrule.agent.limits import Meter
    from ferrule.core.call import RawCall
    from ferrule.core.context import Session, ToolContext
    from ferrule.core.events import CallEvent
    from ferrule.core.model import Model
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.pipeline.confirm import Answer, Question
    from ferrule.pipeline.run import Runtime
    from ferrule.pipeline.stages import Call


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
        known: Any = tool.input_schema.get("properties", {})
        for names in _PAGES:
            if all(name in known for name in names):
                listed = " and ".join(f"`{name}`" for name in names)
                return f"Call `{tool.name}` again with {listed} for the part you need."
    return "Ask for less at once for the part you need."


# Notices when a model makes the same call again and again and gets the same result each time.


NOTED = 3


class Repeats:
    """Counts calls of one turn that were made before with the same arguments and gave the same.

    A tool that may change things and does something new begins the count anew: tests that are run again after an edit
    are no loop, however they end. A command's exit code is a result like any other.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], int] = {}

    def count(self, call: RawCall, result: ToolResult, tool: Tool[Any] | None) -> int:
        """How often this call has come to this result by now."""
        key = call.name, str(call.arguments), hash(result.llm_content)
        ran = result.success or result.metadata.get("exit_code") is not None
        if key not in self._seen and ran and tool is not None and not tool.read_only:
            self._seen.clear()
        self._seen[key] = times = self._seen.get(key, 0) + 1
        return times


def note(times: int) -> str:
    """What the model reads below a result that it had before."""
    return (
        f"\n\n[This call was made {times} times with the same arguments and the same result. Making it again changes "
        "nothing: try another approach, or say what is blocking you.]"
    )


def without_note(result: ToolResult) -> ToolResult:
    """A result as its tool gave it."""
    text, found, _ = result.llm_content.rpartition("\n\n[This call was made ")
    return replace(result, llm_content=text) if found else result


# The agent's model as a tool may ask it (T8): one prompt, one answer, counted into the turn.


class TurnModel:
    """What a session's `model_adapter` is while an agent's turn runs."""

    def __init__(self, model: Model, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    async def complete(self, prompt: str) -> str:
        """The model's words; its failures are the tool's, in words that the model above reads."""
        turn = running.get()  # a sub-agent's, if it is one that asks
        meter = turn.meter if turn is not None else self._meter
        try:
            async with meter.request() as reached:
                if reached:
                    raise ToolError(phrase("The model was not asked: {problem}", problem=reached.problem))
                finished = await Hearing(lambda event: None).listen(self._model, ModelRequest([UserMessage(prompt)]))
                meter.add(finished.usage)
                if turn is not None:
                    turn.conversation.count(finished.usage)
        except ModelError as error:
            raise ToolError(
                phrase("The request to the model failed: {message}", message=error.message),
                suggestion=error.suggestion or None,
            ) from None
        return finished.message.text


# The calls of one answer: through the runtime as one batch, each event shown, exactly one result for each call.


class Calling:
    """Runs the calls of one answer, and shows what happens to them and to the calls that they make in turn.

    Where the conversation is kept, so is what comes of each call: one that was interrupted is run again only if it is
    repeatable, and one that waits for an approval or a result leaves the turn paused (`CallKeeper`).
    """

    def __init__(
        self,
        calls: Sequence[RawCall],
        runtime: Runtime,
        session: Session,
        parent: ToolContext | None,
        show: Callable[[AgentEvent], None],
        most: int,
        conversation: Conversation,
        *,
        data_of: Callable[[ToolResult], Any] | None = None,
    ) -> None:
        """`data_of` gives what is kept of a result for `value_of`; without it, its data, if another call uses that."""
        self._calls = calls
        self._session = session
        self._parent = parent
        self._show = show
        self._most = most
        self._conversation = conversation
        self._open = conversation.open if conversation.journal is not None else None
        # Heard here alone: ids are the model's, and calls of another agent may have the same.
        self._runtime = runtime.with_tools(
            runtime.tools, listener=self._hear, keeper=self if self._open is not None else None
        )
        self.ids = {call.id for call in calls}
        self._watched = set(self.ids)
        self._done: dict[str, ToolResult] = {}
        self._data_of = data_of
        self._refers = self._open is not None and data_of is None and any(map(may_refer, conversation.last_calls))
        self._unkept: TurnStateError | None = None
        self._held: dict[str, StoppedError] = {}
        self.waiting: dict[str, tuple[WaitingCall, ...]] = {}
        """What each call waits for, those of sub-agents included."""

    async def run(self) -> list[ToolResult]:
        """A result for each call, in order. When this is cancelled, `interrupted` has the results.

        What ended before the turn was interrupted is not run again.
        """
        open_turn = self._open
        if open_turn is None:
            self._announce(self._calls)
            return await self._runtime.batch(self._calls, session=self._session, parent=self._parent)
        known = {call.id: open_turn.done[call.id] for call in self._calls if self._is_done(call)}
        lost = {call.id: why for call in self._calls if call.id not in known and (why := self._why_lost(call))}
        rest = [call for call in self._calls if call.id not in known and call.id not in lost]
        self._announce([call for call in self._calls if call.id not in known])
        for call in self._calls:
            if call.id in lost:
                known[call.id] = await self._refused(call, lost[call.id])
        given = {call_id: self._known_data(call_id, known[call_id]) for call_id in known}
        ran = await self._runtime.batch(rest, session=self._session, parent=self._parent, given=given)
        if self._unkept is not None:
            raise self._unkept
        results = known | {call.id: result for call, result in zip(rest, ran, strict=True)}
        return [results[call.id] for call in self._calls]

    async def refuse(self, why: StoppedError) -> list[ToolResult]:
        """Run none of them, on the record."""
        self._announce(self._calls)
        return [await self._refused(call, why) for call in self._calls]

    async def _refused(self, call: RawCall, why: StoppedError) -> ToolResult:
        return await self._runtime.refuse(call, why, session=self._session, parent=self._parent)

    def interrupted(self, why: str) -> list[ToolResult]:
        """The results of calls that were cancelled: a call that had come to its end keeps its own."""
        before = self._open.done if self._open is not None else {}
        ended = before | {
            call_id: result
            for call_id, result in self._done.items()
            if result.error is None or result.error.kind not in (ErrorKind.CANCELLED, ErrorKind.DEFERRED)
        }
        return [ended.get(call.id) or cancelled(call, why, self._advice(call)) for call in self._calls]

    def _advice(self, call: RawCall) -> str | None:
        """A tool that changes something may have done so, or still do so in its thread."""
        tool = self._runtime.tools.get(call.name)
        if tool is None or tool.repeatable or (self._open is not None and call.id not in self._open.began):
            return None
        return phrase("Check whether it is done before you do it again.")

    # Going on

    def value_of(self, call: RawCall) -> tuple[bool, Any]:
        """Whether a call had ended before the turn was interrupted, and what it gave, as JSON."""
        if self._open is None or call.id not in self._open.done:
            return False, None
        return True, self._open.data.get(call.id)

    def _is_done(self, call: RawCall) -> bool:
        """Whether the call has its result. A handoff has none that could be kept: it is made again."""
        if self._open is None or call.id not in self._open.done:
            return False
        return not getattr(self._runtime.tools.get(call.name), "hands_over", False)

    def _why_lost(self, call: RawCall) -> StoppedError | None:
        """Why a call of an interrupted answer must not run."""
        assert self._open is not None  # noqa: S101
        if call.id in self._open.began and call.id not in self._open.submitted:
            return lost_call(call.name)
        if call.id in self._open.redacted:
            said = phrase("`{name}` was not run: its arguments held a secret, which is not kept.", name=call.name)
            return StoppedError(Stage.VALIDATE, ErrorKind.VALIDATION, said, phrase("Make the call again."))
        return None

    def _known_data(self, call_id: str, result: ToolResult) -> Any:
        """What a call gave, for those that refer to it; why they cannot, if it failed or was not kept whole."""
        assert self._open is not None  # noqa: S101
        if not result.success:
            said = phrase("it uses the result of `{source}`, which failed", source=call_id)
        elif call_id not in self._open.data:
            said = phrase("it uses the result of `{source}`, which could not be kept whole", source=call_id)
        else:
            return self._open.data[call_id]
        return StoppedError(
            Stage.VALIDATE,
            ErrorKind.VALIDATION,
            phrase("The call was not run: {reason}.", reason=said),
            phrase("Make both calls again."),
        )

    def wait_inside(self, call_id: str, waiting: Sequence[WaitingCall]) -> None:
        """A sub-agent's turn waits, and so does the call that it works for."""
        self.waiting[call_id] = tuple(replace(one, id=f"{path_of(call_id)}/{one.id}") for one in waiting)

    # As the pipeline's `CallKeeper`

    def answer(self, question: Question) -> Answer | None:
        found = self._open.answers.get(question.invocation.call_id) if self._open is not None else None
        return found[1] if found is not None and found[0] == shown_hash(question) else None

    def answered(self, question: Question, answer: Answer) -> None:
        if self._open is not None:
            self._open.answers[question.invocation.call_id] = shown_hash(question), answer

    def has_answer(self, call_id: str) -> bool:
        return self._open is not None and call_id in self._open.answers

    def wait_for(self, call: Call, question: Question | None) -> None:
        call_id, invocation = call.raw.id, call.invocation
        if question is not None:
            waiting = approval_needed(path_of(call_id), question)
        else:
            arguments = redact_value(json.loads(invocation.tool.params.dump(invocation.params)))
            summary = redact_text(invocation.summary)
            waiting = WaitingCall(path_of(call_id), invocation.tool.name, arguments, "result", summary)
        self.waiting[call_id] = (waiting,)

    def _wait_for_tool(self, result: ToolResult) -> None:
        """A tool that had begun says itself that its result comes later."""
        call = next(one for one in self._calls if one.id == result.call_id)
        reason = redact_text(result.error.message) if result.error is not None else ""
        details = redact_value(result.error.details) if result.error is not None and result.error.details else None
        arguments = redact_value(parsed(call.arguments))
        self.waiting[call.id] = (
            WaitingCall(path_of(call.id), call.name, arguments, "result", call.name, reason, details=details),
        )

    def is_waiting(self, call_id: str) -> bool:
        return call_id in self.waiting

    def hold(self, call_id: str, why: StoppedError) -> None:
        self._held[call_id] = why

    async def begin(self, call: Call) -> None:
        tool = call.invocation.tool
        if (why := self._held.get(call.raw.id)) is not None:
            raise why
        if not (tool.repeatable or getattr(tool, "continues", False)):
            await self.begin_inside(call.raw.id, tool.name)

    async def begin_inside(self, call_id: str, name: str) -> None:
        try:
            await self._conversation.began(call_id)
        except TurnStateError as error:
            self._unkept = error
            said = phrase("`{name}` was not run: {why}", name=name, why=error.message)
            raise StoppedError(Stage.EXECUTE, ErrorKind.EXECUTION, said) from None

    def given(self, call: Call) -> tuple[bool, Any]:
        assert self._open is not None  # noqa: S101 - only then it is the keeper
        _, answer = self._open.answers.get(call.raw.id, ("", None))
        if answer is not None and answer.choice is Choice.NO:  # whatever the policy would say by now
            raise denial(call.raw.name, answer.reason)
        found = self._open.results.get(call.raw.id)
        if found is None:
            if (waits := self._open.submitted.get(call.raw.id)) is not None:
                self.waiting[call.raw.id] = (waits,)
                said = phrase("`{name}` still has no result.", name=call.raw.name)
                raise StoppedError(Stage.EXECUTE, ErrorKind.DEFERRED, said)
            return False, None
        if "error" in found:
            raise StoppedError(Stage.EXECUTE, ErrorKind.EXECUTION, found["error"], found["suggestion"])
        return True, found["value"]

    # What happens, as it happens

    @property
    def runtime(self) -> Runtime:
        """What the sub-agents that the calls start work in: their events are heard here too."""
        return self._runtime.whole

    def _announce(self, calls: Sequence[RawCall]) -> None:
        for call in calls:
            self._show(CallAsked(call, *doing(self._runtime.tools.get(call.name), call)))

    def _hear(self, event: CallEvent) -> None:
        if event.call_id in self._watched:
            if isinstance(event, Done):
                self._watched.discard(event.call_id)
                if event.call_id in self.ids:
                    self._keep(event.result)
        elif isinstance(event, Pending) and event.parent_id in self._watched:
            self._watched.add(event.call_id)
        else:
            return
        self._show(event)

    def _keep(self, result: ToolResult) -> None:
        kept = self._done[result.call_id] = bounded(result, self._most, self._runtime.tools.get(result.tool))
        if self._open is None or result.call_id in self.waiting:
            return
        if result.error is not None and result.error.kind in (ErrorKind.CANCELLED, ErrorKind.DEFERRED):
            if result.error.kind is ErrorKind.DEFERRED and result.call_id not in self._held:
                self._wait_for_tool(result)
            return
        try:
            data = result.data if self._refers else None
            self._conversation.finished(kept, self._data_of(result) if self._data_of is not None else data)
        except TurnStateError as error:
            self._unkept = error


def lost_call(name: str) -> StoppedError:
    """Why a call that was interrupted is not run again."""
    return StoppedError(
        Stage.EXECUTE,
        ErrorKind.UNKNOWN,
        phrase(
            "The program ended while `{tool}` ran, so it is not known how far it came. It was not run again.", tool=name
        ),
        phrase("Look at what it may have changed before you call it again."),
    )


# What a call does, said to the person while it runs: «reading `a.py`».


_MOST_SHOWN = 120


def doing(tool: Tool[Any] | None, call: RawCall) -> tuple[str, str, Mapping[str, str]]:
    """The words in English, their pattern, and the values that belong into it."""
    values = {"tool": flattened(call.name, _MOST_SHOWN)}
    if tool is not None and (pattern := tool.doing):
        named = [name for _, name, _, _ in Formatter().parse(pattern) if name]
        read = parsed(call.arguments)  # this is shown, never run
        given: Mapping[str, Any] = cast("Mapping[str, Any]", read) if isinstance(read, Mapping) else {}
        if not given.keys() >= set(named):
            given = {**_defaults(tool), **given}
        if given.keys() >= set(named):
            values |= {name: flattened(str(given[name]), _MOST_SHOWN) for name in named}
            return pattern.format(**values), pattern, values
    return CALLING.format(**values), CALLING, values


def _defaults(tool: Tool[Any]) -> dict[str, Any]:
    known: dict[str, Any] = tool.input_schema.get("properties", {}) if tool.fault is None else {}
    return {name: one["default"] for name, one in known.items() if one.get("default") is not None}
