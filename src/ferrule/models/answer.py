"""Puts an answer together from the pieces it comes in: words, thoughts, and calls whose arguments arrive bit by bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ferrule.core.call import RawCall, new_call_id
from ferrule.core.model import AssistantMessage, CallStarted, Finished, TextDelta, ThinkingDelta, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferrule.core.model import ModelEvent, StopReason

_NEVER_BEGUN = "{"  # arguments of a call that was cut off before they began: the pipeline refuses them in words


class CallPieces:
    """One call while it comes in. The first id and the first name count; a repeated name is no second one."""

    __slots__ = ("announced", "id", "name", "pieces", "wire_id")

    def __init__(self) -> None:
        self.wire_id = ""  # as the server wrote it; `id` is the one this answer uses, which no other call has
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.announced = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def called(self, name: str) -> None:
        if name and name != self.name and not self.announced:
            self.name += name

    def add(self, arguments: Any) -> None:
        """A piece of JSON text, or the whole as an object."""
        if isinstance(arguments, str):
            self.pieces.append(arguments)
        elif arguments is not None:
            self.pieces = [json.dumps(arguments, ensure_ascii=False)]

    def replace(self, arguments: Any) -> None:
        self.pieces = []
        self.add(arguments)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are JSON, to which nothing could be added."""
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


class AnswerBuilder:
    """One answer. Readers of the wire forms put pieces in; `take` gives the events that follow from them."""

    def __init__(
        self, resolve: Callable[[str], str] = lambda name: name, new_id: Callable[[], str] = new_call_id
    ) -> None:
        self.calls: list[CallPieces] = []
        self._resolve = resolve
        self._new_id = new_id
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._events: list[ModelEvent] = []

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        return "".join(self._thinking)

    def say(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._events.append(TextDelta(text))

    def think(self, text: str) -> None:
        if text:
            self._thinking.append(text)
            self._events.append(ThinkingDelta(text))

    def begin_call(self, wire_id: str = "", name: str = "") -> CallPieces:
        """A new call; the one before is whole then."""
        for earlier in self.calls:
            self.announce(earlier)
        call = CallPieces()
        call.wire_id = wire_id
        call.called(name)
        self.calls.append(call)
        return call

    def announce(self, call: CallPieces) -> None:
        """Say that the call has begun, once its name cannot grow any more."""
        if call.announced:
            return
        taken = {other.id for other in self.calls}
        call.id = call.wire_id if call.wire_id and call.wire_id not in taken else self._new_id()
        call.announced = True
        self._events.append(CallStarted(call.id, self._resolve(call.name)))

    def take(self) -> list[ModelEvent]:
        events, self._events = self._events, []
        return events

    def finish(self, stop: StopReason, usage: Usage, kept: Mapping[str, Any] | None = None) -> list[ModelEvent]:
        """The last events: what was not said yet, then `Finished`.

        A call that was cut off keeps its broken arguments: they are not JSON, so it cannot run and the model reads why.
        """
        for call in self.calls:
            self.announce(call)
        if self.calls and stop == "end":
            stop = "calls"
        elif stop == "calls" and not self.calls:
            stop = "end"
        calls = tuple(self._raw(call, cut=stop != "calls" and call is self.calls[-1]) for call in self.calls)
        message = AssistantMessage(self.text, calls, self.thinking, kept or {})
        return [*self.take(), Finished(message, usage, stop)]

    def _raw(self, call: CallPieces, *, cut: bool) -> RawCall:
        arguments = call.arguments
        if not arguments.strip():
            arguments = _NEVER_BEGUN if cut else "{}"
        return RawCall(self._resolve(call.name), arguments, id=call.id)
