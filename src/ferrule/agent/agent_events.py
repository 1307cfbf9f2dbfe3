"""What happens while an agent works: one stream that the terminal, the service, scripts and tests all read.

A turn begins with `TurnStarted` and ends with `TurnEnded`, whatever happens in between. Each step is one answer of the
model, then the calls it asked for. A call's own events (`Pending`, `Progress`, `PartialOutput`, `Done`) are passed on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ferrule.core.events import Done, PartialOutput, Pending, Progress
from ferrule.core.model import Preparing, Retrying, TextDelta, ThinkingDelta, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.call import RawCall
    from ferrule.core.model import AssistantMessage


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


class Ending(StrEnum):
    """How a turn ended."""

    DONE = "done"  # the model answered in words
    INTERRUPTED = "interrupted"  # the person stopped it
    LIMIT = "limit"  # steps, tokens, money or time
    LOOP = "loop"  # the same call again and again
    FAILED = "failed"  # the model could not be asked


@dataclass(slots=True, frozen=True)
class TurnEnded:
    """The turn is over. `text` is the model's last words; `problem` says why it did not end well."""

    ending: Ending
    text: str
    usage: Usage
    steps: int
    problem: str = ""
    suggestion: str = ""


AgentEvent = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | Retrying
    | Preparing
    | Answered
    | CallAsked
    | Pending
    | Progress
    | PartialOutput
    | Done
    | Steered
    | Compacted
    | AgentNotice
    | TurnEnded
)


# An agent's events as JSON, one form for `--stream-json`, the service and logs. `VERSION` grows when a form changes.


VERSION = 1

_TYPES: dict[type, str] = {
    TurnStarted: "turn_started",
    TextDelta: "text",
    ThinkingDelta: "thinking",
    Retrying: "retrying",
    Preparing: "preparing",
    Answered: "answered",
    CallAsked: "call_asked",
    Pending: "call_pending",
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
    except ValueError:
        return arguments.decode("utf-8", "replace") if isinstance(arguments, bytes) else arguments


def plain(value: Any) -> Any:
    """Plain JSON values."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str, bytes_mode="base64")
