"""A scripted model: gives its answers in order, streamed as a real one streams, and keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ferrule.core.call import RawCall
from ferrule.core.model import (
    AssistantMessage,
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
from ferrule.testing.scripted_caller import ScriptedCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.model import Message, ModelEvent, ModelRequest, StopReason

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


Answer = str | Said | ScriptedCall | RawCall | ModelError
Given = Answer | Awaitable[Answer] | AsyncIterator["ModelEvent"]
Reply = Answer | Callable[["ModelRequest"], Given]
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
            return ModelError(
                ModelFault.REFUSED,
                f"The script has {len(self._replies)} replies and was asked for one more.",
                suggestion="Add a reply to the script.",
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
