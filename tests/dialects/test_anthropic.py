"""Anthropic Messages both ways (T9, T10)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.result import Attachment, ErrorInfo, ToolResult
from ferrule.dialects import DialectError, dialect
from tests.dialects.raw import RawTool, objects, success

anthropic = dialect("anthropic")
CALL = {"type": "tool_use", "id": "toolu_01", "name": "get_weather", "input": {"city": "Oslo"}}
MESSAGE: dict[str, Any] = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "…", "signature": "x"},
        {"type": "text", "text": "Let me look."},
        CALL,
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
    ],
    "stop_reason": "tool_use",
}


def test_a_definition() -> None:
    assert anthropic.definition(RawTool(objects(city={"type": "string"}), "get.weather")) == snapshot(
        {
            "name": "get_weather",
            "description": "Does it.",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    )


def test_a_strict_definition_keeps_optional_fields_optional() -> None:
    fields = objects(city={"type": "string", "minLength": 2}, days={"type": "integer", "minimum": 1, "default": 3})
    schema = {**fields, "required": ["city"], "additionalProperties": False}
    assert anthropic.definition(RawTool(schema, strict=True)) == snapshot(
        {
            "name": "probe",
            "description": "Does it.",
            "input_schema": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "At least 2 characters."},
                    "days": {"type": "integer", "default": 3, "description": "At least 1."},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
            "strict": True,
        }
    )


def test_a_field_name_it_refuses_is_said_in_words() -> None:
    schema = {**objects(größe={"type": "integer"}), "required": ["größe"], "additionalProperties": False}
    exported = anthropic.export(RawTool(schema))
    assert exported.definition["input_schema"] == {"type": "object", "properties": {}}
    assert 'Also takes a required field "größe": {"type": "integer"}.' in exported.definition["description"]
    assert [loss.keyword for loss in exported.losses] == [
        "properties/größe",
        "additionalProperties",
        "required",
    ]


def test_definitions_are_read_and_its_own_tools_are_not() -> None:
    assert anthropic.read_definition({"name": "a", "input_schema": {"type": "object"}}).schema == {"type": "object"}
    with pytest.raises(DialectError, match="one of Anthropic's own tools"):
        anthropic.read_definition({"type": "bash_20250124", "name": "bash"})


@pytest.mark.parametrize("payload", [MESSAGE, {"role": "assistant", "content": [CALL]}, [CALL], CALL])
def test_calls_are_found_wherever_they_are(payload: Any) -> None:
    assert anthropic.calls(payload) == [RawCall("get_weather", {"city": "Oslo"}, id="toolu_01")]


def test_words_are_no_calls() -> None:
    assert anthropic.calls({"role": "assistant", "content": "Hi."}) == []


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([{"type": "tool_use", "id": "x"}], "content[0]: `name` is missing."),
        (
            [{"type": "tool_use", "name": "a", "input": 5}],
            "content[0].input: expected an object or JSON text, got integer 5.",
        ),
        ({"content": 5}, "content: expected an object or a list, got integer 5."),
        ({"role": "assistant"}, "content[0]: `type` is missing."),
    ],
)
def test_a_malformed_call_says_what_and_where(payload: Any, message: str) -> None:
    with pytest.raises(DialectError) as raised:
        anthropic.calls(payload)
    assert str(raised.value) == message


def test_results_go_into_one_user_message() -> None:
    image = success(
        "See:", attachments=[Attachment("image/png", b"123"), Attachment("application/pdf", b"1", name="a")]
    )
    failed = ToolResult("call_b", "probe", False, "Too slow.", "", error=ErrorInfo(ErrorKind.TIMEOUT, "Too slow."))
    assert anthropic.results([image, failed]) == snapshot(
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_a",
                        "content": [
                            {"type": "text", "text": "See:"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": "MTIz"},
                            },
                            {
                                "type": "document",
                                "source": {"type": "base64", "media_type": "application/pdf", "data": "MQ=="},
                                "title": "a",
                            },
                        ],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_b",
                        "content": "Error (timeout_error): Too slow.",
                        "is_error": True,
                    },
                ],
            }
        ]
    )
    assert anthropic.results([]) == []


def test_text_that_is_no_object_cannot_be_a_call_here() -> None:
    with pytest.raises(DialectError, match="The arguments of `now` are not JSON"):
        anthropic.write_call(RawCall("now", "{"))
    with pytest.raises(DialectError, match="The arguments of `now` are an empty array"):
        anthropic.write_call(RawCall("now", "[]"))
