"""An agent's events as JSON, one form for `--stream-json`, the service and logs. `VERSION` grows when a form changes.

Every event has a `type`; those of a call have its `call_id` and `tool`. Words in it are never translated.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ferrule.agent.agent_events import (
    Answered,
    CallAsked,
    Compacted,
    Noted,
    Steered,
    TurnEnded,
    TurnStarted,
)
from ferrule.core.events import Done, Partial, Pending, Progress
from ferrule.core.model import Preparing, Retrying, TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from ferrule.agent.agent_events import AgentEvent
    from ferrule.core.call import RawCall

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
    Partial: "call_partial",
    Done: "call_done",
    Steered: "steered",
    Compacted: "compacted",
    Noted: "noted",
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
    if isinstance(event, Partial):
        content = _plain(event.content)
        return head | {"call_id": event.call_id, "tool": event.tool, "content": content, "dropped": event.dropped}
    return head | asdict(event)


def call_form(call: RawCall) -> dict[str, Any]:
    """A call as the model asked for it; arguments that are no JSON object stay the text that came."""
    arguments = call.arguments
    if isinstance(arguments, (str, bytes)):
        from pydantic_core import from_json

        try:
            arguments = from_json(arguments)
        except ValueError:
            arguments = arguments.decode("utf-8", "replace") if isinstance(arguments, bytes) else arguments
    return {"call_id": call.id, "tool": call.name, "arguments": _plain(arguments)}


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str, bytes_mode="base64")
