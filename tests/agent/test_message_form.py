"""Messages are kept as JSON and come back as they were, but for their secrets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from ferrule import Attachment, ErrorInfo, ErrorKind, RawCall, ToolResult
from ferrule.agent.saved_sessions import from_form, to_form
from ferrule.core.model import AssistantMessage, Message, ToolResults, UserMessage

from .strategies import conversations


@given(conversations(6))
def test_what_is_kept_comes_back(messages: list[Message]) -> None:
    for message in messages:
        assert from_form(json.loads(json.dumps(to_form(message)))) == message


def test_a_failed_result_and_what_a_provider_keeps_come_back() -> None:
    error = ErrorInfo(ErrorKind.TIMEOUT, "Too slow.")
    result = ToolResult(
        "c", "t", False, error.words, "Too slow.", None, error, {}, [Attachment("image/png", b"\0\xff", after=0)]
    )
    kept = {"anthropic": [{"signature": "sk-0123456789abcdef0123"}]}
    for message in (ToolResults((result,)), AssistantMessage("a", (RawCall("t", None, id="c"),), "hm", kept)):
        assert from_form(json.loads(json.dumps(to_form(message)))) == message


def test_secrets_that_can_be_recognised_are_not_kept() -> None:
    key = "sk-0123456789abcdef0123456789abcdef"
    messages: list[Message] = [
        UserMessage(f"My key is {key}."),
        AssistantMessage(
            f"I see {key}.", (RawCall("Bash", {"command": f"export KEY={key}", "password": "x"}, id="c"),)
        ),
        ToolResults((ToolResult("c", "Bash", True, f"KEY={key}", f"KEY={key}"),)),
    ]
    text = json.dumps([to_form(message) for message in messages])
    assert key not in text
    assert "[redacted]" in text


def test_a_form_that_is_none_is_refused() -> None:
    for wrong in ({"type": "other"}, {"type": "user"}, {"type": "results", "results": [{}]}):
        with pytest.raises((KeyError, ValueError)):
            from_form(wrong)
