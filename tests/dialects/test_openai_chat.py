"""OpenAI Chat Completions both ways (T9, T10)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.result import Attachment, ErrorInfo, ToolResult
from ferrule.dialects import DialectError, Loss, dialect
from tests.dialects.raw import RawTool, objects, success

chat = dialect("openai")
CALL = {
    "id": "call_9",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
}
RESPONSE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
        }
    ],
}


def test_a_definition() -> None:
    schema = {
        **objects(city={"type": "string", "minLength": 1}, tags={"type": "array"}),
        "required": ["city"],
    }
    assert chat.definition(RawTool(schema, "get_weather")) == snapshot(
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Does it.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "minLength": 1},
                        "tags": {"type": "array", "items": {}},
                    },
                    "required": ["city"],
                },
                "strict": False,
            },
        }
    )


def test_a_boolean_schema() -> None:
    definition = chat.definition(RawTool(True))
    assert definition["function"]["parameters"] == {"type": "object", "properties": {}}


def test_a_definition_is_read() -> None:
    read = chat.read_definition({"type": "function", "function": {"name": "now", "strict": True}})
    assert (read.name, read.description, read.strict) == ("now", "", True)
    assert read.schema == {"type": "object", "properties": {}}


class Dumps:
    def model_dump(self) -> Any:
        return RESPONSE


@pytest.mark.parametrize(
    "payload",
    [RESPONSE, RESPONSE["choices"][0], RESPONSE["choices"][0]["message"], [CALL], (CALL,), CALL, Dumps()],
)
def test_calls_are_found_wherever_they_are(payload: Any) -> None:
    assert chat.calls(payload) == [RawCall("get_weather", '{"city": "Oslo"}', id="call_9")]


@pytest.mark.parametrize("payload", [{"role": "assistant", "content": "Hi."}, [], {"choices": []}])
def test_an_answer_in_words_has_no_calls(payload: Any) -> None:
    assert chat.calls(payload) == []


def test_broken_arguments_pass_untouched_and_a_missing_id_is_made() -> None:
    (call,) = chat.calls({"function": {"name": "now", "arguments": '{"a": '}})
    assert call.arguments == '{"a": '
    assert call.id


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([{"id": "x"}], "tool_calls[0]: `function` is missing."),
        ([CALL, {"function": {}}], "tool_calls[1].function: `name` is missing."),
        (
            [{"function": {"name": 5}}],
            "tool_calls[0].function.name: expected a non-empty string, got integer 5.",
        ),
        (
            [{"function": {"name": "a", "arguments": [1]}}],
            "tool_calls[0].function.arguments: expected an object or JSON text, got an array.",
        ),
        ([{"id": 5, "function": {"name": "a"}}], "tool_calls[0].id: expected a string, got integer 5."),
        ([{"type": "custom"}], "tool_calls[0]: a call of the type 'custom'; only functions were offered."),
        ({"choices": 5}, "choices: expected an object or a list, got integer 5."),
        ({"tool_calls": {"a": 1}}, "tool_calls: expected a list, got an object."),
        ("hello", 'payload: expected an object or a list, got string "hello".'),
        (None, "payload: expected an object or a list, got null."),
        ({}, "tool_calls[0]: `function` is missing."),
    ],
)
def test_a_malformed_call_says_what_and_where(payload: Any, message: str) -> None:
    with pytest.raises(DialectError) as raised:
        chat.calls(payload)
    assert str(raised.value) == message


def test_results() -> None:
    error = ErrorInfo(ErrorKind.NOT_FOUND, "No city Olso.", suggestion="Did you mean Oslo?")
    failure = ToolResult("call_b", "probe", False, "No city Olso.", "failed", error=error)
    assert chat.results([success("12 °C"), failure]) == snapshot(
        [
            {"role": "tool", "tool_call_id": "call_a", "content": "12 °C"},
            {
                "role": "tool",
                "tool_call_id": "call_b",
                "content": """\
Error (not_found_error): No city Olso.

Suggestion: Did you mean Oslo?\
""",
            },
        ]
    )
    read = chat.read_result(chat.write_result(failure))
    assert read.error == error


def test_an_image_becomes_a_line_of_text_and_a_loss() -> None:
    losses: list[Loss] = []
    result = success("See:", attachments=[Attachment("image/png", b"123", name="plot.png")])
    assert chat.results([result], losses)[0]["content"] == "See:\n[attachment plot.png (image/png), 3 bytes, not shown]"
    assert [loss.path for loss in losses] == ["attachments[0]"]


def test_a_success_that_reads_like_an_error_is_reported() -> None:
    losses: list[Loss] = []
    chat.write_result(success("Error (timeout_error): in the log"), losses)
    assert [loss.path for loss in losses] == ["success"]


def test_text_that_is_not_unicode_is_mended_and_reported() -> None:
    losses: list[Loss] = []
    assert chat.write_result(success("a\ud800b"), losses)["content"] == "a\ufffdb"
    assert [loss.path for loss in losses] == ["llm_content"]


def test_parts_of_text_are_read() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert chat.read_result({"role": "tool", "tool_call_id": "x", "content": parts}).llm_content == "a\nb"
