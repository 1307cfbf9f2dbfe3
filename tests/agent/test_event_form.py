"""An agent's events as JSON: the form that `--stream-json` documents."""

from __future__ import annotations

import json
from typing import get_args, get_origin

from inline_snapshot import snapshot

from ferrule import RawCall, Runtime, ToolResult
from ferrule.agent.agent_events import (
    VERSION,
    AgentEvent,
    AgentNotice,
    Answered,
    CallAsked,
    Compacted,
    Ending,
    OutputDelta,
    Steered,
    TurnEnded,
    TurnStarted,
    call_form,
    to_form,
)
from ferrule.core.events import Done, PartialOutput, Pending, Progress, Question
from ferrule.core.model import AssistantMessage, CallDelta, Preparing, Retrying, TextDelta, ThinkingDelta, Usage

from .room import add

CALL = RawCall("Read", '{"file_path": "a"}', id="c")
QUESTION = Question(Runtime([add]).build(RawCall("add", {"a": 1, "b": 2}, id="c"), add), "it writes", "add")
EVENTS: list[AgentEvent] = [
    TurnStarted(1, "go"),
    ThinkingDelta("hm"),
    TextDelta("a"),
    CallDelta("c", "Read", '{"file'),
    OutputDelta('{"a": 1', lambda: {"a": 1}),
    Retrying(1, 2.5, "busy"),
    Preparing("fetching"),
    Answered(AssistantMessage("a", (CALL,)), Usage(1, 2)),
    CallAsked(CALL, "reading `a`"),
    Pending("c", "Read"),
    QUESTION,
    Progress("c", "Read", 1, 2, "half"),
    PartialOutput("c", "Read", b"\xff"),
    Done("c", "Read", ToolResult("c", "Read", True, "text", "short")),
    Steered("more"),
    Compacted(10, 5, "s"),
    AgentNotice("n"),
    TurnEnded(Ending.LIMIT, "t", Usage(1, 2, cost=0.5), 3, "p", "s", "steps"),
]


def test_every_event_has_a_form_of_plain_json() -> None:
    assert {type(one) for one in EVENTS} == {get_origin(one) or one for one in get_args(AgentEvent)}
    forms = [json.loads(json.dumps(to_form(event))) for event in EVENTS]
    assert {form["type"]: sorted(form.keys() - {"type"}) for form in forms} == snapshot(
        {
            "turn_started": ["text", "turn"],
            "thinking": ["text"],
            "text": ["text"],
            "call_delta": ["call_id", "text", "tool"],
            "output_delta": ["text"],
            "retrying": ["attempt", "restarted", "seconds", "why"],
            "preparing": ["text"],
            "answered": ["calls", "text", "usage"],
            "call_asked": ["arguments", "call_id", "doing", "tool"],
            "call_pending": ["call_id", "parent_id", "summary", "tool"],
            "question": ["always", "call_id", "preview", "reason", "summary", "tool", "warning"],
            "call_progress": ["call_id", "done", "message", "tool", "total"],
            "call_partial": ["call_id", "content", "dropped", "tool"],
            "call_done": ["call_id", "result", "tool"],
            "steered": ["text"],
            "compacted": ["after_tokens", "before_tokens", "summary"],
            "noted": ["text"],
            "turn_ended": ["ending", "limit", "problem", "steps", "suggestion", "text", "usage"],
        }
    )
    assert VERSION == 1


def test_arguments_that_are_no_json_stay_the_text_that_came() -> None:
    assert call_form(CALL)["arguments"] == {"file_path": "a"}
    assert call_form(RawCall("Read", "{half"))["arguments"] == "{half"
    assert call_form(RawCall("Read", b"{half"))["arguments"] == "{half"
