"""The Model Context Protocol both ways (T9, T10, O7)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.function_tool import raw_tool, tool
from ferrule.core.result import Attachment
from ferrule.dialects import DialectError, Loss, dialect
from tests.dialects.raw import objects, success

mcp = dialect("mcp")


def test_a_definition() -> None:
    @tool(kind="readonly", display_name="Find files")
    def find(pattern: str, limit: int = 10) -> list[str]:
        """Find files by name."""
        raise NotImplementedError

    assert mcp.definition(find) == snapshot(
        {
            "name": "find",
            "title": "Find files",
            "description": "Find files by name.",
            "inputSchema": {
                "additionalProperties": False,
                "properties": {"pattern": {"type": "string"}, "limit": {"default": 10, "type": "integer"}},
                "required": ["pattern"],
                "type": "object",
            },
            "outputSchema": {
                "type": "object",
                "properties": {"result": {"items": {"type": "string"}, "type": "array"}},
                "required": ["result"],
            },
            "annotations": {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": True,
            },
        }
    )


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (True, {"type": "object"}),
        (False, {"type": "object", "not": {}}),
        ({"anyOf": [{"required": ["a"]}]}, {"anyOf": [{"required": ["a"]}], "type": "object"}),
    ],
)
def test_any_schema_goes_out_whole(schema: Any, shown: Any) -> None:
    assert mcp.definition(raw_tool("probe", schema, lambda arguments: None))["inputSchema"] == shown


def test_a_definition_is_read_in_either_spelling() -> None:
    read = mcp.read_definition(
        {
            "name": "a",
            "inputSchema": objects(),
            "outputSchema": objects(),
            "annotations": {"title": "A", "readOnlyHint": True},
        }
    )
    assert (read.title, read.output_schema, read.annotations) == (
        "A",
        objects(),
        {"title": "A", "readOnlyHint": True},
    )
    assert mcp.read_definition({"name": "a", "input_schema": objects()}).schema == objects()


@pytest.mark.parametrize(
    "payload",
    [
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "a", "arguments": {"x": 1}}},
        [{"method": "tools/call", "id": "7", "params": {"name": "a", "arguments": {"x": 1}}}],
    ],
)
def test_a_request_is_a_call(payload: Any) -> None:
    assert mcp.calls(payload) == [RawCall("a", {"x": 1}, id="7")]


def test_params_alone_are_a_call() -> None:
    (call,) = mcp.calls({"name": "a"})
    assert (call.name, call.arguments) == ("a", None)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"method": "tools/list"}, "calls[0].method: expected tools/call, got 'tools/list'."),
        ({"method": "tools/call"}, "calls[0].params: expected an object or a list, got null."),
        ({"arguments": {}}, "calls[0]: `name` is missing."),
    ],
)
def test_a_malformed_call_says_what_and_where(payload: Any, message: str) -> None:
    with pytest.raises(DialectError) as raised:
        mcp.calls(payload)
    assert str(raised.value) == message


def test_a_result_with_data_and_attachments() -> None:
    attachments = [
        Attachment("image/png", b"1"),
        Attachment("audio/wav", b"2"),
        Attachment("text/csv", b"3", name="a b.csv"),
        Attachment("text/html", uri="https://example.org/page"),
    ]
    assert mcp.results([success("4 files", data=[1], attachments=attachments)]) == snapshot(
        [
            {
                "content": [
                    {"type": "text", "text": "4 files"},
                    {"type": "image", "data": "MQ==", "mimeType": "image/png"},
                    {"type": "audio", "data": "Mg==", "mimeType": "audio/wav"},
                    {
                        "type": "resource",
                        "resource": {"uri": "attachment:a%20b.csv", "mimeType": "text/csv", "text": "3"},
                    },
                    {
                        "type": "resource_link",
                        "uri": "https://example.org/page",
                        "name": "page",
                        "mimeType": "text/html",
                    },
                ],
                "isError": False,
                "structuredContent": {"result": [1]},
                "_meta": {"ferrule/wrapped": True},
            }
        ]
    )


def test_a_text_that_is_attached_is_text_and_comes_back_as_it_was() -> None:
    """A model can read it; what is no UTF-8 is carried in base64."""
    for media, data, key in (
        ("text/csv", "ä,b".encode(), "text"),
        ("application/json", b"{}", "text"),
        ("text/plain", b"\xff", "blob"),
        ("application/zip", b"a", "blob"),
    ):
        (sent,) = mcp.results([success("", attachments=[Attachment(media, data, name="x")])])
        (block,) = sent["content"]
        assert key in block["resource"]
        assert mcp.read_result(sent).attachments == [Attachment(media, data, name="x")]


def test_data_without_a_json_form_never_crashes() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no")

    endless: list[Any] = []
    endless.append(endless)
    for data in (Odd(), {"a": "\ud800"}, {1: {2}}, float("nan"), b"\xff", endless):
        losses: list[Loss] = []
        mcp.write_result(success(data=data), losses)
        assert [loss.path for loss in losses] == ["data"]


def test_text_resources_are_read() -> None:
    block = {"type": "resource", "resource": {"uri": "file:///x", "text": "hi"}}
    (read,) = mcp.read_result({"content": [block]}).attachments
    assert read == Attachment("text/plain", b"hi", uri="file:///x")
    with pytest.raises(DialectError, match="a block of the type 'film'"):
        mcp.read_result({"content": [{"type": "film"}]})


@pytest.mark.parametrize("told", ["yes", "true", 1, {}])
def test_a_failure_that_is_told_oddly_does_not_pass_for_a_success(told: Any):
    with pytest.raises(DialectError, match="isError: expected true or false"):
        dialect("mcp").read_result({"content": [{"type": "text", "text": "The disk is full."}], "isError": told})
