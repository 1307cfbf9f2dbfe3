"""OpenAI Responses both ways (T9, T10)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.result import Attachment
from ferrule.dialects import DialectError, Loss, dialect
from tests.dialects.raw import RawTool, objects, success

responses = dialect("openai-responses")
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_9",
    "name": "get_weather",
    "arguments": '{"city": "Oslo"}',
    "status": "completed",
}


def test_a_definition_always_says_whether_it_is_strict() -> None:
    """Here `strict` is on by default, so leaving it out would turn it on."""
    assert responses.definition(RawTool(objects(), "now")) == snapshot(
        {
            "type": "function",
            "name": "now",
            "description": "Does it.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        }
    )


@pytest.mark.parametrize(
    "payload",
    [
        {"id": "resp_1", "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, CALL]},
        [{"type": "message", "role": "assistant", "content": []}, CALL],
        CALL,
    ],
)
def test_calls_are_found_wherever_they_are(payload: Any) -> None:
    assert responses.calls(payload) == [RawCall("get_weather", '{"city": "Oslo"}', id="call_9")]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([{"name": "a"}], "output[0]: `type` is missing."),
        ([{"type": "function_call"}], "output[0]: `name` is missing."),
        ([5], "output[0]: expected an object or a list, got integer 5."),
        ({"output": "x"}, 'output: expected an object or a list, got string "x".'),
    ],
)
def test_a_malformed_call_says_what_and_where(payload: Any, message: str) -> None:
    with pytest.raises(DialectError) as raised:
        responses.calls(payload)
    assert str(raised.value) == message


def test_results_carry_images_and_documents() -> None:
    losses: list[Loss] = []
    attachments = [
        Attachment("image/png", b"123"),
        Attachment("application/pdf", b"%PDF", name="a.pdf"),
        Attachment("audio/wav", b"1"),
    ]
    result = success("See:", attachments=attachments)
    assert responses.results([success("12"), result], losses) == snapshot(
        [
            {"type": "function_call_output", "call_id": "call_a", "output": "12"},
            {
                "type": "function_call_output",
                "call_id": "call_a",
                "output": [
                    {"type": "input_text", "text": "See:"},
                    {"type": "input_image", "image_url": "data:image/png;base64,MTIz"},
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,JVBERg==",
                    },
                    {"type": "input_text", "text": "[attachment (audio/wav), 1 bytes, not shown]"},
                ],
            },
        ]
    )
    assert [loss.path for loss in losses] == ["attachments[2]"]


def test_a_broken_attachment_says_where() -> None:
    part = {"type": "input_image", "image_url": "data:image/png;base64,%%%"}
    with pytest.raises(DialectError, match=r"output\[0\]\.image_url: expected base64 text"):
        responses.read_result({"call_id": "x", "output": [part]})
