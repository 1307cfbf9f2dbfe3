"""Messages: the prompt cache, signed thinking, and what Anthropic refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule import tool
from ferrule.core.call import RawCall
from ferrule.core.model import (
    AssistantMessage,
    Message,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.result import Attachment, ToolResult
from ferrule.models.anthropic import AnthropicForm
from ferrule.models.faults import Endpoint, Faults
from ferrule.models.wire_form import Frame

from .endpoints.wire import finished

FAULTS = Faults(Endpoint("anthropic", "Anthropic", "https://x.example"), "m")
CACHED = {"type": "ephemeral"}


@tool(kind="readonly")
def look_up(word: str) -> str:
    """Look a word up. Use this when a word is unknown."""
    return word


def read(*events: Any) -> list[ModelEvent]:
    reader = AnthropicForm("anthropic").reader(FAULTS, "m")
    got: list[ModelEvent] = []
    for event in events:
        got += reader.read(Frame(event["type"], event))
    assert reader.is_complete
    return got + reader.finish()


def body(messages: list[Message], **more: Any) -> dict[str, Any]:
    return AnthropicForm("anthropic").body(ModelRequest(messages, **more), "claude-sonnet-4-5")


def block(index: int, begun: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "content_block_start", "index": index, "content_block": begun}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


def stopped(reason: str = "end_turn", **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


CALL = RawCall("look_up", '{"word": "x"}', id="toolu_1")
RESULT = ToolResult("toolu_1", "look_up", True, "found", "found")


def test_the_cache_is_marked_on_tools_system_and_the_last_two_turns() -> None:
    talk: list[Message] = [
        UserMessage("one"),
        AssistantMessage("two"),
        UserMessage("three"),
        AssistantMessage("", (CALL,)),
        ToolResults((RESULT,)),
    ]
    sent = body(talk, system="Be brief.", tools=[look_up, look_up])
    assert sent["system"] == [{"type": "text", "text": "Be brief.", "cache_control": CACHED}]
    assert ["cache_control" in one for one in sent["tools"]] == [False, True]
    marked = ["cache_control" in json.dumps(turn) for turn in sent["messages"]]
    assert marked == [False, False, True, False, True]
    assert json.dumps(sent).count("cache_control") == 4  # more are refused


def test_the_person_speaks_after_the_results_in_one_turn() -> None:
    sent = body([UserMessage("go"), AssistantMessage("", (CALL,)), ToolResults((RESULT,)), UserMessage("faster")])
    assert [turn["role"] for turn in sent["messages"]] == ["user", "assistant", "user"]
    assert [one["type"] for one in sent["messages"][-1]["content"]] == ["tool_result", "text"]


def test_nothing_empty_is_sent() -> None:
    sent = body(
        [
            UserMessage(""),
            AssistantMessage("  "),
            AssistantMessage(" ", (CALL,)),
            ToolResults((RESULT,)),
            UserMessage(" ", (Attachment("image/png", b"PNG"),)),
        ]
    )
    texts = [one["text"] for turn in sent["messages"] for one in turn["content"] if one["type"] == "text"]
    assert texts == ["(nothing)"]
    assert [one["type"] for one in sent["messages"][-1]["content"]] == ["tool_result", "image"]


def test_how_much_it_may_write() -> None:
    assert body([UserMessage("x")])["max_tokens"] == 32_000
    assert body([UserMessage("x")], settings=ModelSettings(max_output_tokens=7))["max_tokens"] == 7
    unknown = AnthropicForm("anthropic").body(ModelRequest([UserMessage("x")]), "nobody-knows")
    assert unknown["max_tokens"] == 8_192


def test_calls_of_the_past_need_tools_even_where_none_may_be_called() -> None:
    sent = body([UserMessage("go"), AssistantMessage("", (CALL,)), ToolResults((RESULT,))])
    assert sent["tool_choice"] == {"type": "none"}
    assert len(sent["tools"]) == 1
    assert "tools" not in body([UserMessage("go")])


@pytest.mark.parametrize(
    ("choice", "sent"), [("auto", None), ("none", {"type": "none"}), ("required", {"type": "any"})]
)
def test_the_choice_of_tools(choice: str, sent: Any) -> None:
    assert (
        body([UserMessage("go")], tools=[look_up], settings=ModelSettings(tool_choice=choice)).get("tool_choice")
        == sent
    )


def test_thinking_goes_back_word_for_word_between_what_was_said() -> None:
    events = [
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "S1"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "R"}),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "I look."}),
        *block(
            3,
            {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"word": "x"}'},
        ),
        *block(4, {"type": "thinking", "thinking": "", "signature": "S2"}),
        stopped("tool_use"),
    ]
    message = finished(read(*events)).message
    assert message.thinking == "hm"
    form = AnthropicForm("anthropic")
    again = ModelRequest([UserMessage("go"), message, ToolResults((RESULT,))])
    assert form.body(again, "m")["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "S1"},
        {"type": "redacted_thinking", "data": "R"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"word": "x"}},
        {"type": "thinking", "thinking": "", "signature": "S2"},
    ]
    plain = form.body(again, "another")["messages"][1]["content"]
    assert [one["type"] for one in plain] == ["text", "tool_use"]


def test_usage_counts_all_that_was_read() -> None:
    start = {
        "type": "message_start",
        "message": {
            "usage": {
                "input_tokens": 10,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 20,
                "output_tokens": 1,
            }
        },
    }
    assert finished(read(start, stopped(output_tokens=7))).usage == Usage(130, 7, 100, 20)


def test_a_gateway_that_counts_at_the_end_is_believed() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}
    assert finished(read(start, stopped(input_tokens=9, output_tokens=7))).usage == Usage(9, 7)


def test_a_refusal_is_told_with_its_reason() -> None:
    event = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "Not this."}}}
    last = finished(read(event))
    assert (last.message.text, last.stop) == ("Not this.", "refused")


def test_events_nobody_knows_yet_are_passed_over() -> None:
    events = [
        {"type": "ping"},
        {"type": "brand_new"},
        *block(0, {"type": "server_tool_use"}, {"type": "new_delta"}),
        stopped(),
    ]
    assert finished(read(*events)).message.text == ""
