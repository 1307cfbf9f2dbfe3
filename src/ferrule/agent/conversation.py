"""A conversation as an agent keeps it: every call has a result, and what grows too long is made shorter (M1).

Old results are shortened first, then old messages become a summary. What always stays, word for word: the first
request, everything the person said, and the last exchanges with their calls and results together.
"""

from __future__ import annotations

import json
import os
from contextvars import ContextVar
from dataclasses import asdict, replace
from time import time
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from ferrule.agent.agent_events import plain
from ferrule.agent.turn_log import (
    ConversationJournal,
    Entry,
    OpenTurn,
    SubAgentJournal,
    WaitingCall,
    from_form,
    id_in,
    path_of,
    result_form,
    result_of,
    to_form,
    usage_of,
    waiting_form,
    without_secrets,
)
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.model import (
    AssistantMessage,
    CallDelta,
    Finished,
    Message,
    ModelError,
    ModelFault,
    ModelRequest,
    Preparing,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.phrases import joined, phrase
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.core.secrets import redact_text, redact_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.core.context import Session
    from ferrule.core.model import Model
    from ferrule.records.spans import ChatSpan, TurnSpan


class DamagedLogError(ValueError):
    """Entries that do not make a conversation."""


_WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What reading JSON that is something else raises."""
LOST = phrase("The program ended during this call; whether it ran is unknown. Check before you repeat it.")


_LEFT_WAITING = phrase("The user went on without it.")


class Conversation:
    """What was said so far, what it cost, and how many turns it had.

    `open` is the turn that has not ended, if there is one: it runs, it waits, or its program was ended.
    """

    def __init__(
        self,
        messages: Iterable[Message] = (),
        *,
        usage: Usage = Usage(),  # noqa: B008 - frozen
        turn: int = 0,
        journal: ConversationJournal | None = None,
    ) -> None:
        self.messages: list[Message] = list(messages)
        self.usage = usage
        self.turn = turn
        self.journal = journal
        self.open: OpenTurn | None = None
        self.handed_to: list[str] = []
        """The names of the tools by which the conversation was handed over, one after the other."""
        self.found_tools: list[str] = []
        """The names of the tools that were found by `search_tools`, in that order."""
        self._ids = {call.id for message in self.messages for call in _calls(message)}
        self._uncounted: Usage | None = None
        self._unwritten_steps = 0

    # As it goes on

    def begin_turn(self, message: UserMessage) -> None:
        """The user says something. A turn that had not ended is over with that."""
        self.settle(_LEFT_WAITING if self.open is not None and self.open.waiting else LOST)
        self.open = OpenTurn()
        self.add(message)

    def add(self, message: Message, *, torn: bool = False, output: dict[str, Any] | None = None) -> None:
        """Say something more. `torn`: the answer was cut off; `output`: with these results the output was taken."""
        form = None
        if self.journal is not None:
            form = to_form(message, self.open) | ({"torn": True} if torn else {})
            if output is not None:
                form["output"] = redact_value(plain(output["value"]))
        self.messages.append(message)
        if self.open is not None and isinstance(message, ToolResults):
            self.open.forget_calls()
        if form is not None:
            self._write(form)

    def replace(self, messages: Sequence[Message]) -> None:
        """Compaction: fewer messages that stand for all."""
        self.messages = list(messages)
        if self.journal is not None:
            self._write({"type": "compacted", "messages": [to_form(message) for message in self.messages]})

    def count(self, usage: Usage, *, steps: int = 0, seconds: float = 0.0) -> None:
        """What the turn has used; kept with the next entry."""
        if self.open is not None:
            self.open.usage += usage
            self.open.steps += steps
            self.open.seconds = seconds or self.open.seconds
        self._uncounted = usage if self._uncounted is None else self._uncounted + usage
        self._unwritten_steps += steps

    async def began(self, call_id: str) -> None:
        """A call that must not run twice is about to run: that is kept before it does."""
        if self.open is not None and self.journal is not None:
            self._write({"type": "began", "call": call_id})
            await self.journal.settled()
            self.open.began.add(call_id)

    def finished(self, result: ToolResult, data: Any = None) -> None:
        """A call has its result, as the model will read it; `data` is kept where another call refers to it."""
        if self.open is not None and self.journal is not None:
            entry: Entry = {"type": "done", "result": result_form(result)}
            if data is not None:
                values = plain(data)
                if without_secrets(values) is values:  # what is not whole is no data
                    self.open.data[result.call_id] = values
                    entry["data"] = json.dumps(values)  # text, which keeps the order of keys, and 1.0
            self._write(entry)
            self.open.done[result.call_id] = result

    def hand_over(self, name: str) -> None:
        """Another agent answers from here on: the one that this tool stands for."""
        self.handed_to.append(name)
        self._write({"type": "handed_over", "to": name})

    def find(self, names: list[str]) -> None:
        """These tools are shown from here on."""
        self.found_tools += names
        self._write({"type": "found", "tools": names})

    def pause(self, waiting: Sequence[WaitingCall], seconds: float) -> str:
        """The turn waits for these calls. Returns its state; a sub-agent's is in that of the turn above."""
        assert self.open is not None  # noqa: S101 - it is what waits
        self.open.seconds = seconds
        self.open.pause(waiting, None)
        if self.journal is None:
            return ""
        # Answers that count once what else the calls wait for is there.
        answers = {
            path_of(name): [bound_to, said.choice, redact_text(said.reason)]
            for name, (bound_to, said) in self.open.answers.items()
        }
        entry: Entry = {"type": "paused", "waiting": [waiting_form(one) for one in waiting], "answers": answers}
        if not isinstance(self.journal, SubAgentJournal) and self.journal.expires is not None:
            entry |= {"expires": time() + self.journal.expires}
            self.open.expires = entry["expires"]
        self._write(entry | {"seconds": round(seconds, 3)})
        return self.journal.state()

    def resume(self, answers: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        """The turn goes on with what was given. No other process can resume it after that."""
        assert self.open is not None  # noqa: S101 - it is what goes on
        if not isinstance(self.journal, SubAgentJournal):
            self._write({"type": "resumed", "answers": dict(answers), "results": dict(results)})
        self.open.waiting, self.open.expires = (), None
        self.give(answers, results)

    def end_turn(self, ending: str, usage: Usage, model: str) -> None:
        """The turn is over."""
        self.usage += usage
        self._uncounted, self._unwritten_steps = None, 0
        if isinstance(self.journal, SubAgentJournal):
            return  # it is over with the call that it works for, whose result comes next
        self.open = None
        self._write({"type": "turn", "turn": self.turn, "ending": str(ending), "usage": asdict(usage), "model": model})

    @property
    def last_calls(self) -> tuple[RawCall, ...]:
        """The calls of the last message."""
        return _calls(self.messages[-1]) if self.messages else ()

    def inside(self, call_id: str | None) -> Conversation:
        """The conversation of the sub-agent that works for a call of the last answer, as far as it has come; an empty
        one for a sub-agent that works for another call.
        """
        found = self.open.inside.get(call_id) if self.open is not None and call_id is not None else None
        if found is None:
            found = Conversation()
            found.share_ids(self)
            if self.open is not None and call_id is not None and self.journal is not None:
                self.open.inside[call_id] = found
        if self.journal is not None and call_id is not None:
            found.journal = SubAgentJournal(self.journal, call_id)
        return found

    def share_ids(self, other: Conversation) -> None:
        """Never give a call an id that the other conversation has: events name calls by their ids."""
        if self._ids is not other._ids:
            other._ids |= self._ids
            self._ids = other._ids

    def _write(self, entry: Entry) -> None:
        if self.journal is None:
            return
        if self._uncounted is not None:
            entry = entry | {"used": asdict(self._uncounted), "steps": self._unwritten_steps}
            if self.open is not None and self.open.seconds:
                entry["seconds"] = round(self.open.seconds, 3)
            self._uncounted, self._unwritten_steps = None, 0
        self.journal.write(entry)

    # As it was kept

    def dump(self) -> str:
        """The conversation as versioned JSON, without secrets that can be recognised; `load` reads it."""
        document: dict[str, Any] = {
            "ferrule_conversation": 1,
            "turn": self.turn,
            "usage": asdict(self.usage),
            "messages": [to_form(message) for message in self.messages],
        }
        if self.handed_to:
            document["handed_to"] = self.handed_to
        if self.found_tools:
            document["found_tools"] = self.found_tools
        return json.dumps(document)

    @classmethod
    def load(cls, text: str | bytes) -> Conversation:
        """A conversation that `dump` wrote, or that a saved session holds, also one of Ferrule 0.1.

        Raises `ValueError` for anything else, and says what is wrong.
        """
        try:
            whole = text.decode() if isinstance(text, bytes) else text
            first, _, rest = whole.partition("\n")
            read: Any = json.loads(first or "null")
            head = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
            if not ("ferrule_conversation" in head or "ferrule_session" in head):
                raise DamagedLogError("this is not a conversation that Ferrule wrote")
            version = head.get("ferrule_conversation", head.get("ferrule_session"))
            if version != 1:
                raise DamagedLogError(f"it has version {version!r}, and this Ferrule reads version 1")
            if "ferrule_session" in head:
                found = cls.replay(json.loads(line) for line in rest.split("\n") if line.strip())
                found.settle(LOST)
                return found
            messages = [from_form(one) for one in head["messages"]]
            if (problem := well_formed(messages)) and problem != _UNANSWERED:
                raise DamagedLogError(problem)
            found = cls(messages, usage=usage_of(head["usage"]), turn=int(head["turn"]))
            found.handed_to = [str(name) for name in head.get("handed_to", ())]
            found.found_tools = [str(name) for name in head.get("found_tools", ())]
            found.settle(_LEFT_WAITING)
        except _WRONG as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise DamagedLogError(f"The conversation cannot be loaded: {why}.") from None
        return found

    @classmethod
    def replay(cls, entries: Iterable[Entry]) -> Conversation:
        """The conversation that entries make; raises `DamagedLogError` with the number of the first wrong one."""
        found = cls()
        for number, entry in enumerate(entries, 1):
            try:
                found.apply(entry)
            except _WRONG as error:
                raise DamagedLogError(f"entry {number}: {type(error).__name__}: {error}") from None
        problem = well_formed(found.messages)
        if problem is not None and problem != _UNANSWERED:
            raise DamagedLogError(problem)
        return found

    def apply(self, entry: Entry) -> None:
        """Do again what an entry says."""
        if path := entry.get("in"):
            self._apply_used(entry)  # what a sub-agent uses counts for all above it
            open_turn = self.open
            if open_turn is None:
                raise ValueError("a sub-agent works in no turn")
            inner = open_turn.inside.setdefault(str(path[0]), Conversation())
            inner.share_ids(self)
            inner.apply({**entry, "in": path[1:]})
            return
        kind = entry["type"]
        if kind == "user":
            message = from_form(entry)
            assert isinstance(message, UserMessage)  # noqa: S101
            if message.turn or self.open is None:
                self.open = OpenTurn()
            self.turn = max(self.turn, message.turn)  # also of a turn that a kill ended
            self.messages.append(message)
        elif kind in ("assistant", "results"):
            message = from_form(entry, self.open)
            self.messages.append(message)
            self._ids.update(call.id for call in _calls(message))
            if self.open is not None:
                self.open.forget_calls()
                self.open.torn = bool(entry.get("torn"))
                self.open.redacted = {str(one["id"]) for one in entry.get("calls", ()) if one.get("redacted")}
                self.open.output = {"value": entry["output"]} if "output" in entry else None
        elif kind == "compacted":
            self.messages = [from_form(one) for one in entry["messages"]]
        elif kind == "turn":
            self.usage, self.turn = self.usage + usage_of(entry["usage"]), int(entry["turn"])
            self.open = None
        elif kind == "handed_over":
            self.handed_to.append(str(entry["to"]))
        elif kind == "found":
            self.found_tools += map(str, entry["tools"])
        elif self.open is None:
            raise ValueError(f"`{kind}` belongs to a turn")
        elif kind == "began":
            self.open.began.add(str(entry["call"]))
        elif kind == "done":
            result = result_of(entry["result"])
            self.open.done[result.call_id] = result
            if "data" in entry:
                self.open.data[result.call_id] = json.loads(entry["data"])
        elif kind == "paused":
            self.open.pause([WaitingCall(**one) for one in entry["waiting"]], entry.get("expires"))
            self.give(entry["answers"], {})
        elif kind == "resumed":
            self.open.waiting, self.open.expires = (), None
            self.give(entry["answers"], entry["results"])
        else:
            raise ValueError(f"`{kind}` is not a kind of entry")
        self._apply_used(entry)

    def _apply_used(self, entry: Entry) -> None:
        if self.open is not None and "used" in entry:
            self.open.usage += usage_of(entry["used"])
            if not entry.get("in"):
                self.open.steps += int(entry["steps"])
        if self.open is not None and not entry.get("in"):
            self.open.seconds = float(entry.get("seconds", self.open.seconds))

    def give(self, answers: Mapping[str, Any], results: Mapping[str, Any]) -> None:
        """Take what a program gave for waiting calls, by the ids that `WaitingCall` has."""
        from ferrule.pipeline.confirm import Answer, Choice

        assert self.open is not None  # noqa: S101 - they belong to a turn
        for path, (bound_to, choice, reason) in answers.items():
            inner, call_id = self.waiting_call(path)
            inner.answers[call_id] = bound_to, Answer(Choice(choice), reason)
        for path, given in results.items():
            inner, call_id = self.waiting_call(path)
            inner.results[call_id] = given

    def waiting_call(self, path: str) -> tuple[OpenTurn, str]:
        """The open turn that a waiting call belongs to, and the call's id in it."""
        assert self.open is not None  # noqa: S101
        above, slash, below = path.partition("/")
        return self.open.inside[id_in(above)].waiting_call(below) if slash else (self.open, id_in(path))

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
        """Give results to calls that have none, as after a crash: no model takes a conversation without them.

        A call that had come to its end keeps its result.
        """
        if self.messages and isinstance(last := self.messages[-1], AssistantMessage) and last.calls:
            done = self.open.done if self.open is not None else {}
            self.add(ToolResults(tuple(done.get(call.id) or cancelled(call, why) for call in last.calls)))

    def _new_id(self) -> str:
        while (made := f"call_{os.urandom(6).hex()}") in self._ids:
            pass
        return made


def cancelled(call: RawCall, why: str, suggestion: str | None = None) -> ToolResult:
    """The result of a call that has none of its own."""
    said = joined(" ", [phrase("`{name}` did not finish.", name=call.name), why])
    error = ErrorInfo(ErrorKind.CANCELLED, said, suggestion=suggestion)
    return ToolResult(call.id, call.name, False, error.words, error.message, None, error)


_UNANSWERED = phrase("the last calls have no results")


def well_formed(messages: Sequence[Message]) -> str | None:
    """What is wrong with a conversation, if anything: the laws that every provider holds its callers to."""
    if messages and not isinstance(messages[0], UserMessage):
        return phrase("it does not start with a user message")
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResults):
            if [result.call_id for result in message.results] != waiting:
                return phrase("some results do not match the calls before them")
            waiting = []
        elif waiting:
            return phrase("calls have no results")
        else:
            waiting = [call.id for call in _calls(message)]
    return _UNANSWERED if waiting else None


def said_by_user(message: Message) -> str:
    """What the user said in a message, without what was added for the model; empty where it is no word of theirs."""
    if not isinstance(message, UserMessage) or is_summary(message) or is_note(message):
        return ""
    return message.typed or message.text


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Where each turn that is still whole begins, the oldest first: one that was summarised is none."""
    return [at for at, one in enumerate(messages) if isinstance(one, UserMessage) and one.turn]


def _calls(message: Message) -> tuple[RawCall, ...]:
    return message.calls if isinstance(message, AssistantMessage) else ()


# One answer of a model, heard while it is given: what can be shown goes on at once, and nothing said is lost.


# What the agent itself says to a model in the person's place, marked as such.


GO_ON = "[Your answer was cut off, because it reached its length limit. Continue exactly where it stopped.]"
SAY_SOMETHING = "[Your answer was empty. Say what you found or did, or make the next call.]"
NOTES = frozenset({GO_ON, SAY_SOMETHING})
NOT_ACCEPTED = "[Your answer was not accepted: "


SUMMARY = "[The conversation so far was too long to keep in full. This summary replaces "
"""How a message begins that a summary of earlier ones is."""


def is_summary(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.text.startswith(SUMMARY)


def is_note(message: UserMessage) -> bool:
    return message.text in NOTES or message.text.startswith(NOT_ACCEPTED)


@runtime_checkable
class AgentTracer(Protocol):
    """A runtime's tracer that has spans for turns too, as `SpanTracer` has."""

    def turn(self, model: str, session: Session, text: str, agent: str) -> TurnSpan: ...


turn_span: ContextVar[TurnSpan | None] = ContextVar("turn_span", default=None)
"""The span of the turn that this code works for, also inside its tools; None if it has none."""


class Hearing:
    """Listens to one answer. `text` is what was said until now, also when the answer breaks off."""

    def __init__(self, show: Callable[[AgentEvent], None]) -> None:
        self._show = show
        self.text = ""

    async def listen(self, model: Model, request: ModelRequest) -> Finished:
        """The whole answer; raises `ModelError`. Being cancelled closes the model's stream."""
        turn = turn_span.get()
        if turn is None:
            return await self._listen(model, request, None)
        with turn.request(model.name, request) as span:
            return await self._listen(model, request, span)

    async def _listen(self, model: Model, request: ModelRequest, span: ChatSpan | None) -> Finished:
        self.text = ""
        finished: Finished | None = None
        stream = model.stream(request)
        try:
            async for event in stream:
                if span is not None:
                    span.heard(event)
                if isinstance(event, TextDelta):
                    self.text += event.text
                    self._show(event)
                elif isinstance(event, Retrying):
                    if event.restarted:
                        self.text = ""
                    self._show(event)
                elif isinstance(event, ThinkingDelta | CallDelta | Preparing):
                    self._show(event)
                elif isinstance(event, Finished):
                    finished = event
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        if finished is None:
            raise ModelError(
                ModelFault.GARBLED,
                phrase("The answer from `{name}` ended early.", name=model.name),
                suggestion=phrase("Try again; if it happens again, choose another model."),
            )
        return finished
