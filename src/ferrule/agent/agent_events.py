"""What happens while an agent works: one stream that the terminal, the service, scripts and tests all read.

A turn begins with `TurnStarted` and ends with `TurnEnded`, whatever happens in between. Each step is one answer of the
model, in pieces while it is written (`TextDelta`, `ThinkingDelta`, `CallDelta`, `OutputDelta`) and then whole
(`Answered`), and the calls it asked for. A call's own events (`Pending`, `Question`, `Progress`, `PartialOutput`,
`Done`) are passed on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from ferrule.core.events import Done, PartialOutput, Pending, Progress, Question
from ferrule.core.model import (
    CallDelta,
    ModelError,
    ModelFault,
    Preparing,
    Retrying,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import TypeVar as DefaultTypeVar

    from ferrule.core.call import RawCall
    from ferrule.core.model import AssistantMessage

    OutputT = DefaultTypeVar("OutputT", default=Any)
else:
    OutputT = TypeVar("OutputT")


CALLING = "calling `{tool}`"
"""The pattern of a call that says nothing better of itself."""
TODO = "TodoWrite"
"""The tool whose steps are shown below its row. Its module imports pydantic, which the first prompt does without."""


@dataclass(slots=True, frozen=True)
class TurnStarted:
    """The user said something, and the agent begins."""

    turn: int
    text: str


@dataclass(slots=True, frozen=True)
class Answered:
    """One whole answer of the model: what it said and the calls it wants; `usage` is that of this answer."""

    message: AssistantMessage
    usage: Usage


@dataclass(slots=True, frozen=True)
class OutputDelta:
    """A piece of the output while the model writes it, as JSON text. Only an agent with an `output` has them.

    After `Retrying(restarted=True)`, and when the model tries again, the output begins anew.
    """

    text: str
    read: Callable[[], Any] = field(repr=False, compare=False)

    @property
    def partial(self) -> Any:
        """What is there by now, as plain JSON values that were not checked; read only when asked for."""
        return self.read()


@dataclass(slots=True, frozen=True)
class CallAsked:
    """A call is about to go through the pipeline. `doing` says it for the user: ``reading `a.py` ``.

    `pattern` is the same with its values in braces (``reading `{file_path}` ``), for whoever says it in another
    language; `values` belong into it.
    """

    call: RawCall
    doing: str
    pattern: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True, frozen=True)
class Steered:
    """Something the user said while the agent worked; the model reads it with the next results."""

    text: str


@dataclass(slots=True, frozen=True)
class Compacted:
    """Earlier messages were put into a summary, so that the conversation fits; tokens are estimates."""

    before_tokens: int
    after_tokens: int
    summary: str


@dataclass(slots=True, frozen=True)
class AgentNotice:
    """Something the user should know: a limit that is near, a call made again and again."""

    text: str


@dataclass(slots=True, frozen=True)
class WaitingCall:
    """A call that a paused turn waits for: for its `result` from the program, or for an `approval`.

    `id` names it for `Agent.resume`; a call of a sub-agent has the ids of the calls above it before its own. `reason`
    says why it waits, `warning` what is dangerous about it, and `preview` what it would change, if that is known.
    """

    id: str
    tool: str
    arguments: Any
    kind: Literal["result", "approval"]
    summary: str = ""
    reason: str = ""
    warning: str = ""
    preview: str = ""
    details: Any = None
    """What the tool says of what it waits for, such as the number of a ticket."""
    bound_to: str = ""
    """What an approval is bound to: a hash of what was shown."""


class Ending(StrEnum):
    """How a turn ended."""

    DONE = "done"  # the model answered, with the output that was asked for
    INTERRUPTED = "interrupted"  # the person stopped it
    LIMIT = "limit"  # steps, tokens, money or time
    LOOP = "loop"  # the same call with the same result `AgentLimits.repeats` times
    DENIED = "denied"  # a hook refused the request or the answer
    FAILED = "failed"  # the model could not be asked, or gave no valid output
    PAUSED = "paused"  # it waits for results or approvals; `Agent.resume` goes on


Limit = Literal["", "steps", "tokens", "cost", "seconds"]


@dataclass(slots=True, frozen=True)
class TurnEnded(Generic[OutputT]):
    """The turn is over, or paused. `text` is the model's last words; `problem` says why it did not end well, and
    `limit` names the field of `AgentLimits` or `Budget` that it reached, if it did.

    A paused turn has the calls that it is `waiting` for, and its `state` for `Agent.resume`.
    """

    ending: Ending
    text: str
    usage: Usage
    steps: int
    problem: str = ""
    suggestion: str = ""
    limit: Limit = ""
    _output: OutputT | None = None
    waiting: tuple[WaitingCall, ...] = ()
    state: str = field(default="", repr=False)
    _failure: Exception | None = field(default=None, repr=False, compare=False)

    @property
    def output(self) -> OutputT:
        """What the agent was to give: its words if no type was asked for. Raises `error` unless the turn is `DONE`."""
        if (error := self.error) is not None:
            raise error
        return cast("OutputT", self._output)

    @property
    def error(self) -> Exception | None:
        """Why there is no output; None if there is one.

        It is a `ModelError`, whose `fault` is `STOPPED` unless the turn `FAILED`. Where your own code failed, such as a
        validator, it is what that raised.
        """
        if self.ending is Ending.DONE or self._failure is not None:
            return self._failure
        said = phrase("The turn ended as `{ending}`.", ending=self.ending.value)
        return ModelError(ModelFault.STOPPED, f"{said} {self.problem}".rstrip(), suggestion=self.suggestion)


AgentEvent = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | CallDelta
    | OutputDelta
    | Retrying
    | Preparing
    | Answered
    | CallAsked
    | Pending
    | Question
    | Progress
    | PartialOutput
    | Done
    | Steered
    | Compacted
    | AgentNotice
    | TurnEnded[OutputT]
)
"""Everything that `Agent.run` yields. `AgentEvent[Refund]` ends with a `TurnEnded[Refund]`."""


# An agent's events as JSON, one form for `--stream-json`, the service and logs. `VERSION` grows when a form changes.


VERSION = 1

_TYPES: dict[type, str] = {
    TurnStarted: "turn_started",
    TextDelta: "text",
    ThinkingDelta: "thinking",
    CallDelta: "call_delta",
    OutputDelta: "output_delta",
    Retrying: "retrying",
    Preparing: "preparing",
    Answered: "answered",
    CallAsked: "call_asked",
    Pending: "call_pending",
    Question: "question",
    Progress: "call_progress",
    PartialOutput: "call_partial",
    Done: "call_done",
    Steered: "steered",
    Compacted: "compacted",
    AgentNotice: "noted",
    TurnEnded: "turn_ended",
}


def to_form(event: AgentEvent) -> dict[str, Any]:
    """Plain JSON values only."""
    head: dict[str, Any] = {"type": _TYPES[type(event)]}
    if isinstance(event, Answered):
        calls = [call_form(call) for call in event.message.calls]
        return head | {"text": event.message.text, "calls": calls, "usage": asdict(event.usage)}
    if isinstance(event, CallAsked):
        return head | call_form(event.call) | {"doing": event.doing}
    if isinstance(event, Done):
        return head | {"call_id": event.call_id, "tool": event.tool, "result": event.result.to_dict()}
    if isinstance(event, PartialOutput):
        content = plain(event.content)
        return head | {"call_id": event.call_id, "tool": event.tool, "content": content, "dropped": event.dropped}
    if isinstance(event, OutputDelta):
        return head | {"text": event.text}
    if isinstance(event, Question):
        return head | event.to_dict()
    if isinstance(event, TurnEnded):
        form: dict[str, Any] = {one.name: getattr(event, one.name) for one in fields(event) if one.name[0] != "_"}
        form |= {"ending": event.ending.value, "usage": asdict(event.usage)}
        if event.ending is Ending.PAUSED:
            form["waiting"] = [asdict(one) for one in event.waiting]
        else:
            del form["waiting"], form["state"]
        if event.ending is Ending.DONE and not isinstance(event.output, str):  # words are the text
            form["output"] = plain(event.output)
        return head | form
    return head | asdict(event)


def call_form(call: RawCall) -> dict[str, Any]:
    """A call as the model asked for it."""
    return {"call_id": call.id, "tool": call.name, "arguments": plain(parsed(call.arguments))}


def parsed(arguments: Any) -> Any:
    """Arguments as values; those that are no JSON stay the text that came."""
    if not isinstance(arguments, (str, bytes)):
        return arguments
    from pydantic_core import from_json

    try:
        return from_json(arguments)
    except (ValueError, TypeError):  # the latter for half a surrogate pair
        return arguments.decode("utf-8", "replace") if isinstance(arguments, bytes) else arguments


def plain(value: Any) -> Any:
    """Plain JSON values."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str, bytes_mode="base64")
