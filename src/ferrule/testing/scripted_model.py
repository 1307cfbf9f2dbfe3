"""Fakes for tests: a model, a caller and a user that follow a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self, cast

from ferrule.core.call import RawCall
from ferrule.core.model import (
    AssistantMessage,
    CallDelta,
    CallStarted,
    Finished,
    ModelError,
    ModelFault,
    TextDelta,
    ThinkingDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.pipeline.confirm import Answer, Choice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from ferrule.core.context import Session
    from ferrule.core.events import CallEvent, Question
    from ferrule.core.model import Message, ModelEvent, ModelRequest, StopReason
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime


@dataclass(slots=True, frozen=True)
class ScriptedCall:
    """A call of the script. One without an id gets `call_1`, `call_2`, … by its place in the whole script."""

    name: str
    arguments: str | bytes | Mapping[str, Any] | None = None
    id: str | None = None
    version: str | None = None


def call(
    name: str,
    arguments: str | bytes | Mapping[str, Any] | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the providers' word
    version: str | None = None,
) -> ScriptedCall:
    """One call for a script. Arguments are a mapping, or text as a model would send it, broken text included."""
    return ScriptedCall(name, arguments, id, version)


Calls = ScriptedCall | RawCall | Sequence[ScriptedCall | RawCall]
Turn = Calls | Callable[["ScriptedCaller"], Calls]
"""One answer of the pretended model: a call, several calls, or a function of what came back so far."""


class ScriptedCaller:
    """Plays turns one after the other; the calls of one turn run as one batch, as a model's would.

    A turn that depends on earlier results is a function: it gets this caller and gives the turn's calls.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._script = list(turns)
        self._begin()

    def _begin(self) -> None:
        self.calls: list[RawCall] = []
        self.turns: list[list[ToolResult]] = []
        self.events: list[CallEvent] = []
        """Everything the runtime reported while the script played, calls made by tools included."""

    async def play(self, runtime: Runtime, *, session: Session | None = None) -> list[ToolResult]:
        """Play the whole script from its beginning; gives every result, in the order asked."""
        self._begin()
        unsubscribe = runtime.subscribe(self.events.append)
        try:
            for turn in self._script:
                calls = self._named(turn(self) if callable(turn) else turn)
                self.calls += calls
                self.turns.append(await runtime.batch(calls, session=session))
        finally:
            unsubscribe()
        return self.results

    def run(self, runtime: Runtime, *, session: Session | None = None) -> list[ToolResult]:
        """`play`, for a test that is not async."""
        return asyncio.run(self.play(runtime, session=session))

    # What came back

    @property
    def results(self) -> list[ToolResult]:
        """Every result so far, in the order asked."""
        return [result for turn in self.turns for result in turn]

    def result(self, call_id: str) -> ToolResult:
        """The result of one call."""
        for result in self.results:
            if result.call_id == call_id:
                return result
        known = ", ".join(f"`{result.call_id}`" for result in self.results) or "none"
        raise AssertionError(f"There is no result of a call `{call_id}`. The calls that have one: {known}.")

    @property
    def text(self) -> str:
        """What the model read: the text of every result, separated by empty lines."""
        return "\n\n".join(result.llm_content for result in self.results)

    @property
    def transcript(self) -> str:
        """What the model wrote and read: each call, then its result. Made to be pinned by a snapshot."""
        pairs = zip(self.calls, self.results, strict=True)
        return "\n\n".join(f"[{one.id}] {one.name} {_shown(one)}\n{result.llm_content}" for one, result in pairs)

    def expect_success(self) -> list[ToolResult]:
        """Every result, if all succeeded; otherwise fails the test with what the failed ones said."""
        failed = [f"{result.call_id} {result.tool}: {result.llm_content}" for result in self.results if result.error]
        if failed:
            raise AssertionError(f"{len(failed)} of {len(self.results)} calls failed.\n" + "\n".join(failed))
        return self.results

    def _named(self, calls: Calls) -> list[RawCall]:
        listed = [calls] if isinstance(calls, (ScriptedCall, RawCall)) else list(calls)
        named: list[RawCall] = []
        taken = {one.id for one in self.calls}
        for place, one in enumerate(listed, len(self.calls) + 1):
            if isinstance(one, ScriptedCall):
                one = RawCall(one.name, one.arguments, id=one.id or f"call_{place}", version=one.version)
            if one.id in taken:
                raise ValueError(f"Two calls of the script have the id `{one.id}`; a result could belong to either.")
            taken.add(one.id)
            named.append(one)
        return named


def _shown(call: RawCall) -> str:
    arguments = call.arguments
    if isinstance(arguments, bytes):
        return arguments.decode("utf-8", "backslashreplace")
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False, default=str)


_PIECE = 8
_CHARACTERS_A_TOKEN = 4


@dataclass(slots=True, frozen=True)
class Said:
    """One whole answer of the script. Without `usage` tokens are estimated from the characters."""

    text: str = ""
    calls: tuple[ScriptedCall | RawCall, ...] = ()
    thinking: str = ""
    stop: StopReason | None = None
    usage: Usage | None = None
    kept: Mapping[str, Any] | None = None


def say(
    text: str = "",
    *calls: ScriptedCall | RawCall,
    thinking: str = "",
    stop: StopReason | None = None,
    usage: Usage | None = None,
    kept: Mapping[str, Any] | None = None,
) -> Said:
    """An answer of text and calls: `say("Let me look.", call("Read", {"file_path": "a.py"}))`."""
    return Said(text, calls, thinking, stop, usage, kept)


ScriptedAnswer = str | Said | ScriptedCall | RawCall | ModelError
Given = ScriptedAnswer | Awaitable[ScriptedAnswer] | AsyncIterator["ModelEvent"]
Reply = ScriptedAnswer | Callable[["ModelRequest"], Given]
"""Words, words with calls, a call alone, an error to raise, or a function of the request.

A function gives any of these, may be async, or gives the stream of events itself.
"""


class ScriptedModel:
    """Implements `Model` without a model: one reply for each request, in order.

    A call of the script without an id gets `call_1`, `call_2`, … by its place in the whole script; a `RawCall` is sent
    as it is. When the script is at its end the model fails with `ModelError`, and `check` says so.
    """

    def __init__(
        self,
        replies: Sequence[Reply] = (),
        *,
        name: str = "scripted/test",
        context_tokens: int | None = None,
        cost_per_token: float | None = None,
    ) -> None:
        self._replies = list(replies)
        self._name = name
        self._cost = cost_per_token
        self._calls = 0
        self.context_tokens = context_tokens
        self.requests: list[ModelRequest] = []
        """Every request, with the messages as they were then."""
        self.streaming = 0
        """How many streams are open now; one that was left early is closed."""
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_priced(self) -> bool:
        """Whether the script says what its answers cost."""
        costs = [one.usage.cost for one in self._replies if isinstance(one, Said) and one.usage is not None]
        return self._cost is not None or any(cost is not None for cost in costs)

    async def close(self) -> None:
        self.closed = True

    def check(self) -> None:
        """Fail the test unless there was exactly one request for each reply."""
        asked, scripted = len(self.requests), len(self._replies)
        if asked != scripted:
            raise AssertionError(f"The script has {scripted} replies, and the model was asked {asked} times.")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        from dataclasses import replace

        self.requests.append(replace(request, messages=tuple(request.messages), tools=tuple(request.tools)))
        self.streaming += 1
        try:
            given = self._next(request)
            if isawaitable(given):
                given = await given
            if isinstance(given, AsyncIterator):
                async for event in given:
                    yield event
                return
            if isinstance(given, ModelError):
                raise given
            async for event in self._told(_as_said(given), request):
                yield event
        finally:
            self.streaming -= 1

    def _next(self, request: ModelRequest) -> Given:
        if len(self.requests) > len(self._replies):
            read = request.messages[-1]
            words = read.results[-1].llm_content if isinstance(read, ToolResults) else read.text
            return ModelError(
                ModelFault.REFUSED,
                f"The script has no reply to request {len(self.requests)}.",
                suggestion=f"Add a reply to the script. The model read last:\n{words}",
            )
        reply = self._replies[len(self.requests) - 1]
        return reply(request) if callable(reply) else reply

    async def _told(self, said: Said, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for piece in _pieces(said.thinking):
            yield ThinkingDelta(piece)
            await asyncio.sleep(0)
        for piece in _pieces(said.text):
            yield TextDelta(piece)
            await asyncio.sleep(0)
        calls = tuple(self._named(one) for one in said.calls)
        for one in calls:
            yield CallStarted(one.id, one.name)
            await asyncio.sleep(0)
            for piece in _pieces(_shown(one)):
                yield CallDelta(one.id, one.name, piece)
        message = AssistantMessage(said.text, calls, said.thinking, said.kept or {})
        usage = said.usage or self._estimated(request, message)
        yield Finished(message, usage, said.stop or ("calls" if calls else "end"))

    def _named(self, one: ScriptedCall | RawCall) -> RawCall:
        self._calls += 1
        if isinstance(one, RawCall):
            return one
        return RawCall(one.name, one.arguments, id=one.id or f"call_{self._calls}", version=one.version)

    def _estimated(self, request: ModelRequest, message: AssistantMessage) -> Usage:
        read = len(request.system) + sum(map(_length, request.messages))
        tokens = read // _CHARACTERS_A_TOKEN + 1, _length(message) // _CHARACTERS_A_TOKEN + 1
        return Usage(*tokens, cost=None if self._cost is None else sum(tokens) * self._cost)


def _as_said(answer: object) -> Said:
    if isinstance(answer, Said):
        return answer
    if isinstance(answer, str):
        return Said(answer)
    if isinstance(answer, (ScriptedCall, RawCall)):
        return Said(calls=(answer,))
    raise TypeError(f"A reply is text, say(…), call(…), a ModelError or a function of the request, not {answer!r}.")


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _length(message: Message) -> int:
    if isinstance(message, UserMessage):
        return len(message.text)
    if isinstance(message, ToolResults):
        return sum(len(result.llm_content) for result in message.results)
    return len(message.text) + len(message.thinking) + sum(len(str(one.arguments)) + 20 for one in message.calls)


# A script for the scripted model in a JSON file, so that the command line can be tested and shown without a model.


_KEYS = {"text", "calls", "thinking", "stop", "usage", "wait", "error"}


class ScriptError(ValueError):
    """A script cannot be read; says where and why."""


def scripted_model(path: Path) -> ScriptedModel:
    """The model that a file describes; raises `ScriptError`."""
    try:
        given = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ScriptError(f"The script {path} could not be read: {error.strerror}.") from None
    except ValueError as error:
        raise ScriptError(f"The script {path} is not JSON: {error}.") from None
    if not isinstance(given, list):
        raise ScriptError(f"The script {path} is not a list of replies.")
    replies = [_reply(one, f"{path}, reply {number}") for number, one in enumerate(cast("list[Any]", given), 1)]
    return ScriptedModel(replies, name=f"scripted/{path.stem}")


def _reply(given: Any, place: str) -> Reply:
    if isinstance(given, str):
        return given
    if not isinstance(given, dict) or not _KEYS.issuperset(cast("dict[str, Any]", given)):
        raise ScriptError(f"{place}: a reply is text or an object with {', '.join(sorted(_KEYS))}.")
    form = cast("dict[str, Any]", given)
    try:
        answer = _answer(form)
        seconds = float(form.get("wait", 0))
    except (KeyError, TypeError, ValueError) as error:
        raise ScriptError(f"{place}: {type(error).__name__}: {error}.") from None
    if not seconds:
        return answer

    async def later(request: ModelRequest) -> ScriptedAnswer:
        await asyncio.sleep(seconds)
        return answer

    return later


def _answer(form: dict[str, Any]) -> ScriptedAnswer:
    if error := form.get("error"):
        return ModelError(ModelFault(error["fault"]), error["message"], suggestion=error.get("suggestion", ""))
    calls = tuple(call(one["name"], one.get("arguments"), id=one.get("id")) for one in form.get("calls", ()))
    usage = Usage(**form["usage"]) if "usage" in form else None
    return Said(form.get("text", ""), calls, form.get("thinking", ""), form.get("stop"), usage)


# A scripted person: answers questions in order, and fails the test when the questions are not the expected ones.


class ScriptedAsker:
    """Give it to a runtime as `ask`, with the answers in order: `ScriptedAsker("once", "no")`.

    A runtime turns whatever an asker raises into a result, so a wrong question cannot fail the test there and then.
    It is answered with "no", kept, and raised by `check`, which leaving a `with` block calls.
    """

    def __init__(self, *answers: Answer | Choice | str) -> None:
        self._answers = [one if isinstance(one, Answer) else Answer(Choice(one)) for one in answers]
        self.questions: list[Question] = []
        """Every question, as the user would have seen it."""

    async def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        if len(self.questions) > len(self._answers):
            return Answer(Choice.NO, "the test's script has no answer to this question")
        return self._answers[len(self.questions) - 1]

    def check(self) -> None:
        """Fail the test unless there was exactly one question for each answer."""
        if problem := self._problem():
            raise AssertionError(problem)

    def _problem(self) -> str | None:
        asked, scripted = len(self.questions), len(self._answers)
        if asked > scripted:
            listed = "\n".join(f"- {one.summary} ({one.reason})" for one in self.questions[scripted:])
            return f"Questions came that the script has no answer to ({scripted} expected):\n{listed}"
        if asked < scripted:
            left = ", ".join(answer.choice.value for answer in self._answers[asked:])
            return f"{scripted} questions were expected and {asked} came. Answers never used: {left}."
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.check()
        elif problem := self._problem():
            error.add_note(problem)  # most likely the cause of the failure that is under way
