"""What is kept of a conversation: entries of plain JSON, one for each thing that happens.

A message is an entry. So is a call that begins, its result, a pause, and what a program gave to go on. Together they
make the conversation again, also in the middle of a turn: what is done, what was running, and what the turn waits for.
An entry with `in` belongs to the sub-agent that works for that call. Secrets that can be recognised are left out.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ferrule.agent.agent_events import WaitingCall, parsed, plain
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.model import AssistantMessage, ToolResults, Usage, UserMessage
from ferrule.core.result import Attachment, ErrorInfo, ToolResult
from ferrule.core.secrets import REDACTED, redact_text, redact_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.model import Message
    from ferrule.pipeline.confirm import Answer, Question

Entry = dict[str, Any]


class TurnStateError(Exception):
    """A turn cannot be kept or resumed; the words say why and what to do."""

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(f"{message} {suggestion}".rstrip())
        self.message = message
        self.suggestion = suggestion


class ConversationJournal:
    """Keeps a conversation beyond this process, entry by entry."""

    expires: float | None = None
    """For how many seconds a paused turn can be resumed."""

    def write(self, entry: Entry) -> None:
        """Keep an entry; raises `TurnStateError` if the turn must not go on without it."""
        raise NotImplementedError

    async def settled(self) -> None:
        """Wait until what was written is kept; raises `TurnStateError` if it cannot be."""

    def leave(self) -> None:
        """Keep what was written, and nothing more: the turn goes on elsewhere."""

    def close(self) -> None:
        """Keep nothing more."""

    def state(self) -> str:
        """All of it, for `Agent.resume`; empty if it can only be resumed from where it is kept."""
        return ""


class SubAgentJournal(ConversationJournal):
    """The part of a journal that belongs to a sub-agent."""

    def __init__(self, journal: ConversationJournal, call_id: str) -> None:
        self._journal = journal
        self._call_id = call_id

    def write(self, entry: Entry) -> None:
        self._journal.write({**entry, "in": [self._call_id, *entry.get("in", ())]})

    async def settled(self) -> None:
        await self._journal.settled()


# Messages as JSON and back


def to_form(message: Message, open_turn: OpenTurn | None = None) -> Entry:
    """Plain JSON values. What a provider wants back word for word stays as it is: it would not take it otherwise.

    Results that the turn has kept already are named and not repeated.
    """
    if isinstance(message, UserMessage):
        form: Entry = {"type": "user", "text": redact_text(message.text)}
        attachments = [_attachment_form(one) for one in message.attachments]
        return _with(form, attachments=attachments, typed=redact_text(message.typed), turn=message.turn)
    if isinstance(message, AssistantMessage):
        form = {"type": "assistant", "text": redact_text(message.text)}
        calls = [_call_form(call) for call in message.calls]
        return _with(form, calls=calls, thinking=redact_text(message.thinking), kept=plain(dict(message.kept)))
    known = open_turn.done if open_turn is not None else {}
    return {"type": "results", "results": [_named_or_whole(one, known.get(one.call_id)) for one in message.results]}


def from_form(form: Mapping[str, Any], open_turn: OpenTurn | None = None) -> Message:
    """The message again; raises `KeyError`, `TypeError` or `ValueError` where the form is none."""
    match form["type"]:
        case "user":
            attachments = tuple(_attachment(one) for one in form.get("attachments", ()))
            typed, turn = str(form.get("typed", "")), int(form.get("turn", 0))
            return UserMessage(str(form["text"]), attachments, typed, turn)
        case "assistant":
            calls = tuple(
                RawCall(str(one["name"]), one["arguments"], id=str(one["id"]), version=one.get("version"))
                for one in form.get("calls", ())
            )
            return AssistantMessage(str(form["text"]), calls, str(form.get("thinking", "")), form.get("kept", {}))
        case "results":
            known = open_turn.done if open_turn is not None else {}
            return ToolResults(
                tuple(
                    replace(known[one["of"]], llm_content=known[one["of"]].llm_content + one.get("note", ""))
                    if "of" in one
                    else result_of(one)
                    for one in form["results"]
                )
            )
        case other:
            raise ValueError(f"`{other}` is not a kind of message")


def _with(form: Entry, **more: Any) -> Entry:
    return form | {key: value for key, value in more.items() if value}


def _call_form(call: RawCall) -> Entry:
    given = call.arguments
    given = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
    values = plain(parsed(given))
    kept = without_secrets(values)
    # A call whose arguments are not whole cannot be run again.
    arguments = plain(given) if kept is values else kept
    redacted = kept is not values
    return _with({"id": call.id, "name": call.name, "arguments": arguments}, version=call.version, redacted=redacted)


def without_secrets(values: Any) -> Any:
    """Plain values without the secrets that can be recognised; the very same object if there are none."""
    kept = redact_value(values)
    if kept == values:
        return values
    # What differs may be no more than the form of a text that is JSON, or a bound on what is looked at.
    text = json.dumps(values)
    return values if redact_text(text) == text and json.dumps(kept).count(REDACTED) <= text.count(REDACTED) else kept


def _named_or_whole(result: ToolResult, known: ToolResult | None) -> Entry:
    if known is None or not result.llm_content.startswith(known.llm_content):
        return result_form(result)
    return _with({"of": result.call_id}, note=redact_text(result.llm_content[len(known.llm_content) :]))


def result_form(result: ToolResult) -> Entry:
    form = {
        "call_id": result.call_id,
        "tool": result.tool,
        "success": result.success,
        "llm_content": redact_text(result.llm_content),
        "display_content": redact_text(result.display_content),
    }
    error: Entry | None = None
    if result.error is not None:
        error = {"type": result.error.kind.value, "message": redact_text(result.error.message)}
        error = _with(error, suggestion=redact_text(result.error.suggestion or ""))
    return _with(form, error=error, attachments=[_attachment_form(one) for one in result.attachments])


def result_of(form: Mapping[str, Any]) -> ToolResult:
    error = form.get("error")
    return ToolResult(
        call_id=str(form["call_id"]),
        tool=str(form["tool"]),
        success=bool(form["success"]),
        llm_content=str(form["llm_content"]),
        display_content=str(form["display_content"]),
        error=ErrorInfo(ErrorKind(error["type"]), str(error["message"]), suggestion=error.get("suggestion"))
        if error
        else None,
        attachments=[_attachment(one) for one in form.get("attachments", ())],
    )


def usage_of(form: Mapping[str, Any]) -> Usage:
    cost = form.get("cost")
    counts = {name: int(value) for name, value in form.items() if name != "cost"}
    return Usage(**counts, cost=None if cost is None else float(cost))


def _attachment_form(one: Attachment) -> Entry:
    data = b64encode(one.data).decode() if one.data is not None else None
    uri, name = redact_text(one.uri or ""), redact_text(one.name or "")
    form = _with({"media_type": one.media_type}, data=data, uri=uri, name=name)
    return form if one.after is None else form | {"after": one.after}


def _attachment(form: Mapping[str, Any]) -> Attachment:
    data = b64decode(form["data"]) if "data" in form else None
    return Attachment(str(form["media_type"]), data, form.get("uri"), form.get("name"), after=form.get("after"))


# A turn that has not ended


def approval_needed(call_id: str, question: Question) -> WaitingCall:
    """What is kept of a question that is answered later."""
    invocation = question.invocation
    arguments = json.loads(invocation.tool.params.dump(invocation.params))
    return WaitingCall(
        call_id,
        invocation.tool.name,
        redact_value(arguments),
        "approval",
        redact_text(question.summary),
        redact_text(question.reason),
        redact_text(question.warning or ""),
        redact_text(question.preview),
        bound_to=shown_hash(question),
    )


def shown_hash(question: Question) -> str:
    """A hash of what a question is about: the arguments, what the call touches, and the changes that it shows."""
    invocation = question.invocation
    effects = question.effects.as_data(None) if question.effects is not None else None
    about = [
        invocation.tool.name,
        invocation.tool.version,
        invocation.tool.params.dump(invocation.params).decode(),
        invocation.summary,
        sorted(repr(touch) for touch in invocation.touches),
        effects,
        question.preview if effects is None else "",
    ]
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(slots=True)
class OpenTurn:
    """What a turn that has not ended has come to. What belongs to calls is of the last answer alone."""

    usage: Usage = Usage()  # noqa: RUF009 - frozen
    steps: int = 0
    seconds: float = 0.0
    """How long it has worked, as far as that is known."""
    began: set[str] = field(default_factory=set[str])
    """Calls that had begun and must not begin again."""
    done: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    """What calls gave that others of the same answer refer to, as far as it could be kept."""
    redacted: set[str] = field(default_factory=set[str])
    """Calls whose arguments held a secret, which is not kept."""
    torn: bool = False
    """Whether the answer was cut off by its length limit."""
    output: dict[str, Any] | None = None
    """The output as JSON in `value`, once it was taken."""
    waiting: tuple[WaitingCall, ...] = ()
    submitted: dict[str, WaitingCall] = field(default_factory=dict[str, WaitingCall])
    """Calls whose result comes from elsewhere: they have begun, and do not begin again without it."""
    expires: float | None = None
    answers: dict[str, tuple[str, Answer]] = field(default_factory=dict[str, "tuple[str, Answer]"])
    """Answers to questions, with the hash of what was shown."""
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the program gave for calls that it runs."""
    inside: dict[str, Any] = field(default_factory=dict[str, Any])
    """The `Conversation`s of sub-agents, by the call that each works for."""

    def forget_calls(self) -> None:
        """The calls of the last answer all have results."""
        self.began, self.done, self.data, self.redacted, self.torn = set(), {}, {}, set(), False
        self.waiting, self.submitted, self.expires = (), {}, None
        self.answers, self.results, self.inside, self.output = {}, {}, {}, None

    def pause(self, waiting: Sequence[WaitingCall], expires: float | None) -> None:
        """The turn waits for these calls of the last answer, or of its sub-agents."""
        self.waiting, self.expires = tuple(waiting), expires
        own = {id_in(one.id): one for one in waiting if "/" not in one.id}
        self.submitted = {call_id: one for call_id, one in own.items() if one.kind == "result"}
        # What was only tried, and waits for approval, has not begun.
        self.began -= {call_id for call_id, one in own.items() if one.kind == "approval"}


def path_of(call_id: str) -> str:
    """A call's id as a part of what names a waiting call: there a slash comes before the calls of a sub-agent."""
    return call_id.replace("%", "%25").replace("/", "%2F")


def id_in(path: str) -> str:
    return path.replace("%2F", "/").replace("%25", "%")


def waiting_form(one: WaitingCall) -> Entry:
    return {key: value for key, value in asdict(one).items() if value or key in ("id", "arguments")}


def given_form(value: Any) -> Entry:
    """What a program gave as the result of a call: a value, or the error that came of it."""
    from ferrule.core.errors import ToolError

    if isinstance(value, ToolError):
        return {"error": redact_text(value.message), "suggestion": redact_text(value.suggestion or "") or None}
    if isinstance(value, BaseException):
        return {"error": redact_text(str(value)) or type(value).__name__, "suggestion": None}
    return {"value": without_secrets(plain(value))}
