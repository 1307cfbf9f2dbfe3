"""Gemini: signatures, ids it never sent, and why it stops."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import tool
from ferrule.core.call import RawCall
from ferrule.core.model import (
    AssistantMessage,
    ModelEvent,
    ModelRequest,
    ModelSettings,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.result import Attachment, ToolResult
from ferrule.models.faults import Endpoint, Faults, TryAgain
from ferrule.models.gemini import GeminiForm
from ferrule.models.wire_form import Frame

from .endpoints.wire import finished

FAULTS = Faults(Endpoint("gemini", "Google Gemini", "https://x.example"), "m")


@tool(kind="readonly")
def look_up(word: str) -> str:
    """Look a word up. Use this when a word is unknown."""
    return word


def chunk(*parts: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}]}


def read(*chunks: Any, event: str = "message") -> list[ModelEvent]:
    reader = GeminiForm("gemini").reader(FAULTS, "m")
    got: list[ModelEvent] = []
    for one in chunks:
        got += reader.read(Frame(event, one))
    assert reader.is_complete
    return got + reader.finish()


def test_a_call_without_an_id_gets_one_that_is_not_sent_back() -> None:
    message = finished(read(chunk({"functionCall": {"name": "look_up", "args": {"word": "x"}}}, reason="STOP"))).message
    assert message.calls[0].id.startswith("made_")
    result = ToolResult(message.calls[0].id, "look_up", True, "found", "found")
    sent = GeminiForm("gemini").body(ModelRequest([UserMessage("go"), message, ToolResults((result,))]), "m")[
        "contents"
    ]
    assert sent[1]["parts"] == [{"functionCall": {"name": "look_up", "args": {"word": "x"}}}]
    assert sent[2]["parts"] == [{"functionResponse": {"name": "look_up", "response": {"output": "found"}}}]


def test_signatures_go_back_where_they_were() -> None:
    parts = [
        {"text": "hm ", "thought": True},
        {"text": "so", "thought": True},
        {"text": "I "},
        {"text": "look."},
        {"text": "", "thoughtSignature": "s0"},
        {"functionCall": {"name": "look_up", "args": {}}, "thoughtSignature": "s1"},
    ]
    message = finished(read(*(chunk(part) for part in parts), chunk(reason="STOP"))).message
    sent = GeminiForm("gemini").body(ModelRequest([UserMessage("go"), message]), "m")["contents"][1]["parts"]
    assert sent == [
        {"text": "hm so", "thought": True},
        {"text": "I look.", "thoughtSignature": "s0"},
        {"functionCall": {"name": "look_up", "args": {}}, "thoughtSignature": "s1"},
    ]


def test_a_call_of_another_model_is_marked_for_models_that_want_a_signature() -> None:
    message = AssistantMessage("", (RawCall("look_up", "{}", id="a"), RawCall("look_up", "{}", id="b")))
    for name, marks in (("gemini-3-pro-preview", [True, False]), ("gemini-2.5-pro", [False, False])):
        parts = GeminiForm("gemini").body(ModelRequest([message]), name)["contents"][0]["parts"]
        assert ["thoughtSignature" in part for part in parts] == marks


@pytest.mark.parametrize(
    ("reason", "stop"), [("STOP", "end"), ("MAX_TOKENS", "length"), ("SAFETY", "refused"), ("NEW", "other")]
)
def test_the_reasons_to_stop(reason: str, stop: str) -> None:
    assert finished(read(chunk({"text": "x"}, reason=reason))).stop == stop


def test_a_blocked_request_is_refused_in_words() -> None:
    last = finished(read({"promptFeedback": {"blockReason": "SAFETY"}}))
    assert (last.stop, last.message.text) == ("refused", "The request was blocked (SAFETY).")


def test_a_malformed_call_is_another_try() -> None:
    with pytest.raises(TryAgain, match="malformed"):
        read(chunk({"text": "x"}, reason="MALFORMED_FUNCTION_CALL"))


def test_thoughts_count_as_written() -> None:
    counts = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 7, "cachedContentTokenCount": 4}
    assert finished(read({**chunk({"text": "x"}, reason="STOP"), "usageMetadata": counts})).usage == Usage(10, 12, 4)


def test_a_stream_as_a_list_is_read() -> None:
    assert (
        finished(read([chunk({"text": "a"}), chunk({"text": "b"}, reason="STOP")], event="whole")).message.text == "ab"
    )


def test_a_request_as_it_goes_out() -> None:
    message = UserMessage("See.", (Attachment("image/png", b"PNG", name="a.png"),))
    request = ModelRequest(
        [message, UserMessage("Now.")],
        "Be brief.",
        [look_up],
        ModelSettings(tool_choice="required", max_output_tokens=9, temperature=0.5),
    )
    body = GeminiForm("gemini").body(request, "m")
    assert body["contents"] == [
        {
            "role": "user",
            "parts": [{"inlineData": {"mimeType": "image/png", "data": "UE5H"}}, {"text": "See."}, {"text": "Now."}],
        }
    ]
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert body["generationConfig"] == {"maxOutputTokens": 9, "temperature": 0.5}
    assert [one["name"] for one in body["tools"][0]["functionDeclarations"]] == ["look_up"]


def test_models_that_cannot_generate_are_not_listed() -> None:
    listed = [
        {"name": "models/gemini-3-pro", "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]},
        {"name": "models/aqa", "supportedGenerationMethods": ["generateAnswer"]},
    ]
    assert GeminiForm("gemini").model_names({"models": listed}) == ["gemini-3-pro"]
