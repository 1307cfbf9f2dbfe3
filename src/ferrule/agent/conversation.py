"""A conversation as an agent keeps it: it only grows, but for compaction, and every call in it has a result."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.model import AssistantMessage, Message, ToolResults, Usage, UserMessage
from ferrule.core.phrases import joined, phrase
from ferrule.core.result import ErrorInfo, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class MessageJournal(Protocol):
    """Whoever keeps a conversation beyond this process."""

    def said(self, message: Message) -> None: ...

    def compacted(self, messages: Sequence[Message]) -> None: ...

    def turn_ended(self, turn: int, ending: str, usage: Usage, model: str) -> None: ...


class Conversation:
    """What was said so far, what it cost, and how many turns it had."""

    def __init__(
        self,
        messages: Iterable[Message] = (),
        *,
        usage: Usage = Usage(),  # noqa: B008 - frozen
        turn: int = 0,
        journal: MessageJournal | None = None,
    ) -> None:
        self.messages: list[Message] = list(messages)
        self.usage = usage
        self.turn = turn
        self.journal = journal
        self._ids = {call.id for message in self.messages for call in _calls(message)}

    def add(self, message: Message) -> None:
        """Say something more."""
        self.messages.append(message)
        if self.journal is not None:
            self.journal.said(message)

    def replace(self, messages: Sequence[Message]) -> None:
        """Compaction: fewer messages that stand for all."""
        self.messages = list(messages)
        if self.journal is not None:
            self.journal.compacted(self.messages)

    def identified(self, message: AssistantMessage) -> AssistantMessage:
        """The same answer with an id for every call that no call of this conversation had before.

        Some models number their calls anew in each answer, and some give none; a result must belong to one call, and
        the record and the history know calls by their ids.
        """
        calls: list[RawCall] = []
        changed = False
        for call in message.calls:
            if not call.has_own_id or call.id in self._ids:
                changed = changed or call.has_own_id
                call = RawCall(call.name, call.arguments, id=self._new_id(), version=call.version)
            self._ids.add(call.id)
            calls.append(call)
        # What the provider keeps may name the ids that are gone.
        return replace(message, calls=tuple(calls), kept={} if changed else message.kept)

    def settle(self, why: str) -> None:
        """Give results to calls that have none, as after a crash: no model takes a conversation without them."""
        if self.messages and isinstance(last := self.messages[-1], AssistantMessage) and last.calls:
            self.add(ToolResults(tuple(cancelled(call, why) for call in last.calls)))

    def _new_id(self) -> str:
        while (made := f"call_{os.urandom(6).hex()}") in self._ids:
            pass
        return made


def cancelled(call: RawCall, why: str) -> ToolResult:
    """The result of a call that has none of its own."""
    error = ErrorInfo(ErrorKind.CANCELLED, joined(" ", [phrase("`{name}` did not finish.", name=call.name), why]))
    return ToolResult(call.id, call.name, False, error.words, error.message, None, error)


def well_formed(messages: Sequence[Message]) -> str | None:
    """What is wrong with a conversation, if anything: the laws that every provider holds its callers to."""
    if messages and not isinstance(messages[0], UserMessage):
        return phrase("it does not start with what the person said")
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResults):
            if [result.call_id for result in message.results] != waiting:
                return phrase("results do not belong to the calls before them")
            waiting = []
        elif waiting:
            return phrase("calls have no results")
        else:
            waiting = [call.id for call in _calls(message)]
    return phrase("the last calls have no results") if waiting else None


def _calls(message: Message) -> tuple[RawCall, ...]:
    return message.calls if isinstance(message, AssistantMessage) else ()
