"""Responses: items, reasoning that travels encrypted, and servers that leave events out."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import tool
from ferrule.core.call import RawCall
from ferrule.core.model import (
    AssistantMessage,
    Message,
    ModelError,
    ModelEvent,
    ModelFault,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ThinkingDelta,
    ToolResults,
    UserMessage,
)
from ferrule.core.result import Attachment, ToolResult
from ferrule.models.faults import Endpoint, Faults
from ferrule.models.openai import OpenAIResponsesForm
from ferrule.models.wire_form import Frame

from .endpoints.wire import finished

FAULTS = Faults(Endpoint("openai", "OpenAI", "https://x.example"), "m")
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look_up", "arguments": "{}"}


@tool(kind="readonly")
def look_up(word: str) -> str:
    """Look a word up. Use this when a word is unknown."""
    return word


def ended(*output: Any, **more: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output), **more}}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
        **more,
    }


def read(*events: Any) -> list[ModelEvent]:
    reader = OpenAIResponsesForm("openai").reader(FAULTS, "m")
    got: list[ModelEvent] = []
    for event in events:
        got += reader.read(event if isinstance(event, Frame) else Frame(event["type"], event))
    assert reader.is_complete
    return got + reader.finish()


def test_a_stream_with_its_last_event_alone_is_read() -> None:
    last = finished(read(ended(said("Hello"), CALL)))
    assert (last.message.text, [call.id for call in last.message.calls], last.stop) == ("Hello", ["call_1"], "calls")


def test_nothing_is_said_twice() -> None:
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "content_index": 0, "delta": "Hello"}
    for index in ({"output_index": 0}, {}):
        done = {"type": "response.output_item.done", **index, "item": said("Hello")}
        events = read({**delta, **index}, done, ended(said("Hello")))
        assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta("Hello")]


def test_calls_without_their_beginning_or_their_end_are_read() -> None:
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"word": 1}'}
    done = {"type": "response.output_item.done", "output_index": 0, "item": {**CALL, "arguments": '{"word": 1}'}}
    assert finished(read(delta, done, ended())).message.calls == (RawCall("look_up", '{"word": 1}', id="call_1"),)
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}}
    assert finished(read(added, delta, ended())).message.calls == (RawCall("look_up", '{"word": 1}', id="call_1"),)


def test_parts_of_a_summary_are_paragraphs() -> None:
    def part(text: str) -> list[Any]:
        return [
            {"type": "response.reasoning_summary_part.added"},
            {"type": "response.reasoning_summary_text.delta", "delta": text},
        ]

    events = read(*part("First."), *part("Second."), ended(said("x")))
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "First.\n\nSecond."


@pytest.mark.parametrize(("reason", "stop"), [("max_output_tokens", "length"), ("content_filter", "refused")])
def test_an_incomplete_response_says_why(reason: str, stop: str) -> None:
    event = ended(said("x"), status="incomplete", incomplete_details={"reason": reason})
    assert finished(read({**event, "type": "response.incomplete"})).stop == stop


def test_a_refusal_is_told() -> None:
    delta = {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "No."}
    item = said("")
    item["content"] = [{"type": "refusal", "refusal": "No."}]
    last = finished(read(delta, ended(item)))
    assert (last.message.text, last.stop) == ("No.", "refused")


def test_a_response_that_failed_is_an_error() -> None:
    failed = {"status": "failed", "error": {"code": "invalid_prompt", "message": "This prompt is not allowed"}}
    with pytest.raises(Exception, match="not allowed"):
        read({"type": "response.failed", "response": failed})
    with pytest.raises(ModelError) as caught:
        read({"type": "error", "error": {"type": "invalid_request_error", "message": "context window exceeded"}})
    assert caught.value.fault is ModelFault.TOO_LONG


def test_a_request_as_it_goes_out() -> None:
    talk: list[Message] = [
        UserMessage("See.", (Attachment("image/png", b"PNG"),)),
        AssistantMessage("I look.", (RawCall("look_up", "{}", id="call_1"),)),
        ToolResults((ToolResult("call_1", "look_up", False, "no", "no"),)),
    ]
    body = OpenAIResponsesForm("openai").body(
        ModelRequest(
            talk, "Be brief.", [look_up], ModelSettings(tool_choice="none", max_output_tokens=5, temperature=0.1)
        ),
        "m",
    )
    assert body["input"] == [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "See."},
                {"type": "input_image", "image_url": "data:image/png;base64,UE5H"},
            ],
        },
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "Error (unknown_error): no"},
    ]
    assert (body["store"], body["stream"], body["instructions"]) == (False, True, "Be brief.")
    assert (body["tool_choice"], body["max_output_tokens"], body["temperature"]) == ("none", 16, 0.1)
    assert body["include"] == ["reasoning.encrypted_content"]


def test_reasoning_goes_back_in_its_place() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "status": None}
    message = finished(read(ended(reasoning, said("I look.", phase="commentary"), CALL))).message
    sent = OpenAIResponsesForm("openai").body(ModelRequest([message]), "m")["input"]
    assert [item["type"] for item in sent] == ["reasoning", "message", "function_call", "function_call_output"]
    assert sent[0] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    assert sent[1]["phase"] == "commentary"
    changed = AssistantMessage("Something else.", message.calls, kept=message.kept)
    sent = OpenAIResponsesForm("openai").body(ModelRequest([changed]), "m")["input"]
    assert sent[0] == {"role": "assistant", "content": "Something else."}
