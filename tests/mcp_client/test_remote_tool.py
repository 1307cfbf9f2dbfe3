"""A server's tool as one of ours: asked about, described, scheduled, and its results checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import RulePolicy
from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING
from ferrule.core.call import RawCall
from ferrule.core.tool import Invocation, Kind
from ferrule.mcp_client.remote_tool import Definition, RemoteTool
from ferrule.mcp_client.server_config import ServerConfig
from ferrule.pipeline.run import Runtime
from ferrule.registry.registry import Registry

CONFIG = ServerConfig("peer", ("x",), timeout=7.0)


class Answers:
    def __init__(self, payload: dict[str, Any]) -> None:
        self.payload = payload

    async def call(self, tool: RemoteTool, arguments: Mapping[str, Any], context: Any) -> dict[str, Any]:
        return self.payload


def made(payload: dict[str, Any] | None = None, **definition: Any) -> RemoteTool:
    told = {"name": "do", "inputSchema": {"type": "object"}, **definition}
    return RemoteTool(CONFIG, Definition(told), Answers(payload or {"content": []}).call)


async def run(tool: RemoteTool) -> Any:
    return await Runtime(Registry([tool]), policy=RulePolicy(allow=["*"])).run(RawCall(tool.name, {}))


def test_it_executes_whatever_it_claims() -> None:
    tool = made(annotations={"readOnlyHint": True, "destructiveHint": False})
    assert (tool.kind, tool.read_only, tool.idempotent, tool.timeout) == (Kind.EXECUTE, False, True, 7.0)
    assert tool.touches == READS_ANYTHING
    assert made().touches == WRITES_ANYTHING


def test_a_person_sees_its_own_name_and_not_its_title() -> None:
    tool = made(title="Harmless look around", name="delete_all")
    assert Invocation(tool, {"a": 1}, "c").summary == 'peer: delete_all {"a":1}'


@pytest.mark.parametrize(
    ("said", "short", "text"),
    [
        ("One line.", "One line.", "One line."),
        ("One line.\n\nMore\nlines.", "One line.", "One line.\n\nMore\nlines."),
        ("Two\nlines.\n\nMore.", "Two\nlines.\n\nMore.", "Two\nlines.\n\nMore."),
        ("", "do, a tool of the MCP server peer.", "do, a tool of the MCP server peer."),
    ],
)
def test_its_description_is_the_servers(said: str, short: str, text: str) -> None:
    description = made(description=said).description
    assert (description.short, description.text) == (short, text)


async def test_words_are_made_where_there_are_none() -> None:
    assert (await run(made())).llm_content == "Done. There is no output."
    assert (await run(made({"content": [], "structuredContent": {"a": 1}}))).llm_content == '{"a":1}'
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    assert (await run(made({"content": [link]}))).llm_content == snapshot("[application/octet-stream: file:///x]")


async def test_a_picture_that_is_attached_is_not_spelt_out_too() -> None:
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    result = await run(made({"content": [picture], "structuredContent": {"content": [picture]}}))
    assert result.llm_content == "[image/png, 8 bytes]"
    result = await run(made({"content": [picture], "structuredContent": {"width": 1}}))
    assert result.llm_content == '{"width":1}'


async def test_an_error_of_our_own_kind_keeps_its_kind() -> None:
    told = "Error (not_found_error): No such file.\n\nSuggestion: Look elsewhere."
    result = await run(made({"content": [{"type": "text", "text": told}], "isError": True}))
    assert (result.error.kind.value, result.error.message, result.error.suggestion) == snapshot(
        ("not_found_error", "No such file.", "Look elsewhere.")
    )
    silent = await run(made({"content": [], "isError": True}))
    assert silent.llm_content == snapshot("Error (execution_error): The tool failed and did not say why.")


async def test_a_long_error_is_cut() -> None:
    result = await run(made({"content": [{"type": "text", "text": "x" * 100_000}], "isError": True}))
    assert len(result.error.message) == 20_000


async def test_an_odd_block_is_an_error() -> None:
    assert (await run(made({"content": [{"type": "hologram"}]}))).llm_content == snapshot("""\
Error (execution_error): `do` of the MCP server `peer` gave a result that does not fit the protocol: content[0]: a block of the type 'hologram'; expected text, image, audio, resource or resource_link.

Suggestion: It has already taken effect; calling it again would repeat it. Its author has to fix this.\
""")  # noqa: E501


async def test_an_output_schema_that_is_none_is_an_error() -> None:
    tool = made({"content": [], "structuredContent": {}}, outputSchema={"type": "no such type"})
    assert (await run(tool)).llm_content.splitlines()[0] == snapshot(
        'Error (execution_error): `mcp__peer__do` ran, but what it returned cannot be checked: its schema is not a valid JSON Schema. type: expected "array", "boolean", "integer", "null", "number", "object", "string" or array, got string "no such type".'  # noqa: E501
    )


async def test_a_long_result_is_bounded_like_any_other() -> None:
    result = await run(made({"content": [{"type": "text", "text": "x" * 1_000_000}]}))
    assert len(result.llm_content) < 101_000


async def test_of_thousands_of_attachments_the_first_are_kept_and_the_rest_is_said() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    result = await run(
        made({"content": [{"type": "text", "text": "a"}, *[image] * 5_000, {"type": "text", "text": "b"}]})
    )
    assert len(result.attachments) == 100
    assert result.llm_content == "a\nb\n[… 4,900 of 5,000 attachments left out …]"


async def test_structured_content_of_another_kind_is_not_called_arguments() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}}
    result = await run(made({"content": [], "structuredContent": [1]}, outputSchema=schema))
    assert "does not fit its declared type: expected object" in result.llm_content
