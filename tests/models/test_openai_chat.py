"""Chat Completions: how calls are put together from what servers really send, and what is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import tool
from ferrule.core.call import RawCall
from ferrule.core.model import (
    AssistantMessage,
    CallStarted,
    Finished,
    Message,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ThinkingDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.result import Attachment, ToolResult
from ferrule.models.faults import Endpoint, Faults, TryAgain
from ferrule.models.openai import MISTRAL_IDS, Accent, OpenAIChatForm
from ferrule.models.wire_form import Frame

from .endpoints.wire import chat_chunk, finished

FAULTS = Faults(Endpoint("x", "X", "https://x.example"), "m")
DONE = Frame("done", None)


@tool(kind="readonly", strict=True)
def look_up(word: str, exact: bool = False) -> str:
    """Look a word up. Use this when a word is unknown."""
    return word


def read(*frames: Any) -> list[ModelEvent]:
    reader = OpenAIChatForm("x").reader(FAULTS, "m")
    events: list[ModelEvent] = []
    for frame in frames:
        events += reader.read(frame if isinstance(frame, Frame) else Frame("message", frame))
    assert reader.is_complete
    return events + reader.finish()


def calls(*pieces: dict[str, Any], finish: str = "tool_calls") -> list[tuple[str, str]]:
    chunks = [chat_chunk({"tool_calls": [piece]}) for piece in pieces]
    return [(call.name, call.arguments) for call in finished(read(*chunks, chat_chunk({}, finish))).message.calls]


def piece(name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**more, "type": "function", "function": function}


# Pieces of calls


@given(st.data())
def test_however_calls_are_cut_they_are_the_same(data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=8)), min_size=1, max_size=3))
    pieces: list[list[dict[str, Any]]] = []
    for index, (name, word) in enumerate(wanted):
        text = json.dumps({"word": word})
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        first = piece(name, "", index=index, id=f"id{index}")
        pieces.append([first, *(piece(None, part, index=index) for part in parts)])
    woven: list[dict[str, Any]] = []  # pieces of parallel calls may come in any order between them
    while any(pieces):
        woven.append(data.draw(st.sampled_from([left for left in pieces if left])).pop(0))
    got = sorted(calls(*woven))
    assert got == sorted((name, json.dumps({"word": word})) for name, word in wanted)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([piece("a", '{"x"', id="1"), piece(None, ": 1}")], [("a", '{"x": 1}')]),
        ([piece("a", "{}", id="1"), piece("b", "{}", id="2")], [("a", "{}"), ("b", "{}")]),
        ([piece("a", '{"x": 1}'), piece("a", '{"x": 2}')], [("a", '{"x": 1}'), ("a", '{"x": 2}')]),
        ([piece("a", "{}", index=0, id="1"), piece("b", "{}", index=0, id="2")], [("a", "{}"), ("b", "{}")]),
        ([piece("a", '{"x"', index=0, id="1"), piece("a", ": 1}", index=0, id="1")], [("a", '{"x": 1}')]),
        ([piece("a", '{"x"', index=0, id="1"), piece("a", ": 1}", index=0, id="9")], [("a", '{"x": 1}')]),
        ([piece("a", '{"x": 1}', index=0), piece("a", "", index=0)], [("a", '{"x": 1}')]),
        ([piece(None, '{"x"', index=0, id="1"), piece("a", ": 1}", index=0)], [("a", '{"x": 1}')]),
        (
            [piece("look_", None, index=0, id="1"), piece("up", None, index=0), piece(None, "{}", index=0)],
            [("look_up", "{}")],
        ),
        ([piece("a", {"x": 1}, index=0, id="1")], [("a", '{"x": 1}')]),
        ([piece("a", "", index=0, id="1")], [("a", "{}")]),
        ([piece("a", None, index=0, id="1")], [("a", "{}")]),
        ([piece("a", "{broken", index=0, id="1")], [("a", "{broken")]),
        ([piece("a", "{}", index=0, id=None), piece("b", "{}", index=1, id=None)], [("a", "{}"), ("b", "{}")]),
        ([piece(None, "{}", index=0, id="1")], [("", "{}")]),
    ],
    ids=[
        "no index",
        "no index, two ids",
        "neither index nor id",
        "one index for all",
        "everything repeated",
        "another id in every piece",
        "an empty last piece",
        "the name later",
        "the name in pieces",
        "an object",
        "empty",
        "no arguments",
        "broken",
        "ids are null",
        "no name",
    ],
)
def test_the_accents_of_servers(pieces: list[dict[str, Any]], expected: list[tuple[str, str]]) -> None:
    assert calls(*pieces) == expected


def test_several_calls_in_one_chunk_and_the_older_single_call() -> None:
    both = chat_chunk({"tool_calls": [piece("a", "{}", index=0, id="1"), piece("b", "{}", index=1, id="2")]}, "stop")
    last = finished(read(both))
    assert [call.name for call in last.message.calls] == ["a", "b"]
    assert last.stop == "calls"
    older = [
        chat_chunk({"function_call": {"name": "a", "arguments": '{"x"'}}),
        chat_chunk({"function_call": {"arguments": ": 1}"}}, "function_call"),
    ]
    assert finished(read(*older)).message.calls[0].arguments == '{"x": 1}'


def test_a_call_is_announced_when_its_arguments_begin() -> None:
    events = read(
        chat_chunk({"tool_calls": [piece("look_up", "", index=0, id="1")]}),
        chat_chunk({"tool_calls": [piece(None, "{}", index=0)]}),
        chat_chunk({}, "tool_calls"),
    )
    assert events[0] == CallStarted("1", "look_up")


# The rest of an answer


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "refused"),
        ("model_length", "length"),
        ("odd", "other"),
        ("STOP", "end"),
    ],
)
def test_the_reasons_to_stop(reason: str, stop: str) -> None:
    assert finished(read(chat_chunk({"content": "x"}, reason))).stop == stop


def test_a_server_that_never_says_why_it_stopped() -> None:
    assert finished(read(chat_chunk({"content": "x"}), DONE)).stop == "end"
    reader = OpenAIChatForm("x").reader(FAULTS, "m")
    reader.read(DONE)
    assert not reader.is_complete


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_under_any_name(field: str) -> None:
    events = read(chat_chunk({field: "hm"}), chat_chunk({"content": "x"}, "stop"))
    assert events[:2] == [ThinkingDelta("hm"), TextDelta("x")]
    assert ("x" in finished(events).message.kept) is (field == "reasoning_content")  # others refuse it sent back


def test_thoughts_of_a_reseller_are_joined_and_sent_back() -> None:
    def detail(**more: Any) -> dict[str, Any]:
        return chat_chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, **more}]})

    message = finished(
        read(detail(text="a"), detail(text="b"), detail(signature="s"), chat_chunk({"content": "x"}, "stop"))
    ).message
    assert message.thinking == "ab"
    sent = OpenAIChatForm("x").body(ModelRequest([message]), "m")["messages"][0]
    assert sent["reasoning_details"] == [{"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"}]


def test_content_in_parts_and_refusals() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "x"}]
    assert read(chat_chunk({"content": parts}, "stop"))[:2] == [ThinkingDelta("hm"), TextDelta("x")]
    last = finished(read(chat_chunk({"refusal": "I will not."}, "stop")))
    assert (last.message.text, last.stop) == ("I will not.", "refused")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(10, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, Usage(10, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}, Usage(10, 5, 4)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cache_write_tokens": 3}},
            Usage(10, 5, 0, 3),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.25}, Usage(10, 5, cost=0.25)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None}, Usage(10, 5)),
    ],
)
def test_usage_in_every_form(usage: dict[str, Any], expected: Usage) -> None:
    end = {**chat_chunk({}), "choices": [], "usage": usage}
    assert finished(read(chat_chunk({"content": "x"}, "stop"), end)).usage == expected
    groq = {**chat_chunk({}, "stop"), "x_groq": {"usage": usage}}
    assert finished(read(chat_chunk({"content": "x"}), groq)).usage == expected
    moonshot = chat_chunk({"content": "x"}, "stop")
    moonshot["choices"][0]["usage"] = usage
    assert finished(read(moonshot)).usage == expected


def test_a_server_that_gives_up_is_asked_again() -> None:
    with pytest.raises(TryAgain):
        read(chat_chunk({}, "insufficient_system_resource"))


# Requests

TALK: list[Message] = [
    UserMessage("What is a ferrule?", (Attachment("image/png", b"PNG"),)),
    AssistantMessage("Let me see.", (RawCall("look_up", '{"word": "ferrule"}', id="call_1"),)),
    ToolResults((ToolResult("call_1", "look_up", True, "a ring", "a ring"),)),
]


def test_a_request_as_it_goes_out() -> None:
    request = ModelRequest(
        TALK,
        "Be brief.",
        [look_up],
        ModelSettings(tool_choice="required", max_output_tokens=100, temperature=0.5),
    )
    body = OpenAIChatForm("x").body(request, "m")
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is a ferrule?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}},
                ],
            },
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look_up", "arguments": '{"word": "ferrule"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "a ring"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": body["tools"],
        "tool_choice": "required",
        "max_tokens": 100,
        "temperature": 0.5,
    }
    assert body["tools"][0]["function"]["name"] == "look_up"


def test_accents_change_what_is_asked() -> None:
    request = ModelRequest(TALK, tools=[look_up], settings=ModelSettings(max_output_tokens=100))
    openai = OpenAIChatForm("openai", Accent(limit_field="max_completion_tokens", strict=None)).body(request, "m")
    assert openai["max_completion_tokens"] == 100
    assert openai["tools"][0]["function"]["strict"] is True
    assert OpenAIChatForm("x").body(request, "m")["tools"][0]["function"]["strict"] is False
    mistral = OpenAIChatForm("mistral", Accent(ids=MISTRAL_IDS, usage_asked=False)).body(request, "m")
    sent = mistral["messages"][1]["tool_calls"][0]["id"]
    assert MISTRAL_IDS.allowed.fullmatch(sent)
    assert mistral["messages"][2]["tool_call_id"] == sent
    assert "stream_options" not in mistral


def test_text_alone_is_a_string() -> None:
    message = UserMessage("Read this.", (Attachment("text/plain", b"words", name="a.txt"),))
    sent = OpenAIChatForm("x").body(ModelRequest([message]), "m")["messages"][0]
    assert sent["content"] == "Read this.\n\na.txt:\nwords"


def test_tools_with_names_that_no_provider_takes_come_back_under_their_own() -> None:
    @tool(name="house/look.up", kind="readonly")
    def odd(word: str) -> str:
        """Look a word up. Use this when a word is unknown."""
        return word

    form = OpenAIChatForm("x")
    shown = form.body(ModelRequest([UserMessage("x")], tools=[odd]), "m")["tools"][0]["function"]["name"]
    assert "/" not in shown
    reader = form.reader(FAULTS, "m")
    reader.read(Frame("message", chat_chunk({"tool_calls": [piece(shown, "{}", index=0, id="1")]}, "tool_calls")))
    last = reader.finish()[-1]
    assert isinstance(last, Finished)
    assert last.message.calls[0].name == "house/look.up"
    sent = form.body(ModelRequest([last.message]), "m")["messages"]
    assert sent[0]["tool_calls"][0]["function"]["name"] == shown
