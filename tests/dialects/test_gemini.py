"""Google Gemini both ways (T9, T10)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.result import Attachment, ErrorInfo, ToolResult
from ferrule.dialects import DialectError, dialect
from tests.dialects.raw import RawTool, objects, success

gemini = dialect("gemini")
CALL = {"functionCall": {"id": "fc-1", "name": "get_weather", "args": {"city": "Oslo"}}}
SNAKE = {"function_call": {"id": "fc-1", "name": "get_weather", "args": {"city": "Oslo"}}, "text": None}


def test_a_definition_says_in_words_what_its_schema_cannot() -> None:
    schema = objects(
        unit={"enum": ["C", "F", None]},
        loud={"const": True},
        days={"type": "integer", "exclusiveMinimum": 0, "default": 3},
        where={"oneOf": [{"type": "string", "pattern": "^[A-Z]"}, {"type": "array", "uniqueItems": True}]},
        meta={"allOf": [{"type": "object"}, {"minProperties": 1}]},
    )
    exported = gemini.export(RawTool(schema))
    assert exported.definition == snapshot(
        {
            "name": "probe",
            "description": "Does it.",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {
                    "unit": {"anyOf": [{"type": "string", "enum": ["C", "F"]}, {"type": "null"}]},
                    "loud": {"type": "boolean", "description": "One of: true."},
                    "days": {"type": "integer", "description": "More than 0. Default: 3."},
                    "where": {
                        "anyOf": [
                            {"type": "string", "description": "Must match the regular expression `^[A-Z]`."},
                            {"type": "array", "description": "Items must be unique."},
                        ]
                    },
                    "meta": {"type": "object", "description": "At least 1 field."},
                },
            },
        }
    )
    assert [str(loss) for loss in exported.losses] == snapshot(
        [
            "probe: enum at #/properties/loud: moved into the description",
            "probe: exclusiveMinimum at #/properties/days: moved into the description",
            "probe: default at #/properties/days: moved into the description",
            "probe: oneOf at #/properties/where: became an anyOf; a value may now fit several",
            "probe: pattern at #/properties/where/anyOf/0: moved into the description",
            "probe: uniqueItems at #/properties/where/anyOf/1: moved into the description",
            "probe: minProperties at #/properties/meta: moved into the description",
        ]
    )


def test_both_forms_of_parameters_are_read() -> None:
    older = {
        "name": "a",
        "parameters": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "nullable": True}}},
    }
    assert gemini.read_definition(older).schema == objects(n={"type": ["integer", "null"]})
    assert gemini.read_definition({"name": "a", "parametersJsonSchema": objects()}).schema == objects()


@pytest.mark.parametrize(
    "payload",
    [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hm."}, CALL]}}]},
        {"role": "model", "parts": [CALL]},
        [CALL],
        CALL,
        CALL["functionCall"],
        SNAKE,
    ],
)
def test_calls_are_found_wherever_they_are(payload: Any) -> None:
    assert gemini.calls(payload) == [RawCall("get_weather", {"city": "Oslo"}, id="fc-1")]


def test_an_id_that_gemini_never_sent_does_not_go_back() -> None:
    first, second = gemini.calls([{"functionCall": {"name": "a"}}, {"functionCall": {"name": "a"}}])
    assert first.id != second.id
    part = gemini.write_result(ToolResult(first.id, "a", True, "1", ""))
    assert part == {"functionResponse": {"name": "a", "response": {"output": "1"}}}
    assert gemini.read_result(part, first).call_id == first.id


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([{"functionCall": {"args": {}}}], "parts[0].functionCall: `name` is missing."),
        (
            [{"functionCall": {"name": "a", "args": [1]}}],
            "parts[0].functionCall.args: expected an object or JSON text, got an array.",
        ),
        ([{"functionCall": "a"}], 'parts[0].functionCall: expected an object or a list, got string "a".'),
        ({"candidates": {}}, None),
    ],
)
def test_a_malformed_call_says_what_and_where(payload: Any, message: str | None) -> None:
    if message is None:
        assert gemini.calls(payload) == []
        return
    with pytest.raises(DialectError) as raised:
        gemini.calls(payload)
    assert str(raised.value) == message


def test_results_go_into_one_turn() -> None:
    image = success(
        "See:",
        attachments=[Attachment("image/png", b"123", name="a.png"), Attachment("text/html", uri="file:///x")],
    )
    failed = ToolResult("fc-2", "probe", False, "Too slow.", "", error=ErrorInfo(ErrorKind.TIMEOUT, "Too slow."))
    assert gemini.results([image, failed]) == snapshot(
        [
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "call_a",
                            "name": "probe",
                            "response": {"output": "See:\n[attachment (text/html): file:///x]"},
                            "parts": [
                                {
                                    "inlineData": {
                                        "mimeType": "image/png",
                                        "data": "MTIz",
                                        "displayName": "a.png",
                                    }
                                }
                            ],
                        }
                    },
                    {
                        "functionResponse": {
                            "id": "fc-2",
                            "name": "probe",
                            "response": {"error": "Error (timeout_error): Too slow."},
                        }
                    },
                ],
            }
        ]
    )


def test_a_response_without_known_keys_is_the_output() -> None:
    read = gemini.read_result({"functionResponse": {"name": "a", "response": {"t": 12}}})
    assert (read.data, read.llm_content) == ({"t": 12}, '{"t":12}')
