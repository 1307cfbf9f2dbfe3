"""Ferrule as a gateway: servers behind it, under its rules, to whoever is in front of it (O7)."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult

from tests.mcp_client.test_official_servers import PEERS, everything
from tests.needs import needs, slow

PLAIN = Path(__file__).parents[1] / "mcp_client" / "plain_peer.py"
EXTRA = [sys.executable, "-I", str(PLAIN), "good"]


def gateway(tmp_path: Path, *arguments: str, behind: Sequence[str] = EXTRA) -> StdioServerParameters:
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    settings = tmp_path / "ferrule.toml"
    command, *rest = behind
    settings.write_text(f"[mcp_servers.peer]\ncommand = {json.dumps(command)}\nargs = {json.dumps(rest)}\n")
    environment = {**os.environ, "FERRULE_CONFIG": str(settings), "FERRULE_DATA": str(tmp_path / "data")}
    words = ["-m", "ferrule", "mcp", "--workspace", str(workspace), "--allow", "mcp__peer__*", *arguments]
    return StdioServerParameters(command=sys.executable, args=words, env=environment)


async def tools_of(client: Client) -> set[str]:
    names: set[str] = set()
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        names |= {tool.name for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            return names


async def until_listed(client: Client, name: str) -> None:
    import asyncio

    while name not in await tools_of(client):
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", [slow("legacy"), "auto"])
async def test_tools_behind_it_are_listed_and_called(tmp_path: Path, mode: str) -> None:
    async with Client(gateway(tmp_path, "--deny", "mcp__peer__die"), mode=mode) as client:
        await until_listed(client, "mcp__peer__echo")
        called: Any = await client.call_tool("mcp__peer__echo", {"text": "through"})
        assert called.content[0].text == "through"
        added: Any = await client.call_tool("mcp__peer__add", {"a": 1, "b": 2})
        assert added.structured_content == {"sum": 3}
        image: Any = await client.call_tool("mcp__peer__image", {})
        assert [block.type for block in image.content] == ["image"]
        pictured: Any = await client.call_tool("mcp__peer__pictured", {})
        assert [getattr(block, "text", block.type) for block in pictured.content] == [
            "Before:", "image", "The picture above.",
        ]  # fmt: skip
        annotated: Any = await client.call_tool("mcp__peer__annotated", {})
        all_of_us, person = annotated.content
        assert (all_of_us.text, all_of_us.annotations) == ("for all", None)
        assert (person.text, person.annotations.audience, person.annotations.priority) == ("for you", ["user"], 0.5)
        found: Any = await client.call_tool("mcp__peer__resources", {})
        link, note, sound = found.content  # each once, with what the server says of it
        assert (link.type, link.title, link.size, note.resource.text, sound.type) == (
            "resource_link", "Letter A", 3, "a note", "audio",
        )  # fmt: skip
        denied: Any = await client.call_tool("mcp__peer__die", {})
        assert denied.is_error


@pytest.mark.slow
@pytest.mark.parametrize("mode", [slow("legacy"), "auto"])
async def test_what_an_official_server_answers_is_passed_on_as_it_is(tmp_path: Path, mode: str) -> None:
    needs((PEERS / "python" / ".installed").exists(), "the official MCP servers: scripts/mcp-peers")
    command, calls = everything(tmp_path)
    names = (
        "echo", "get-resource-links", "get-resource-reference", "get-structured-content", "get-sum", "get-tiny-image",
        "gzip-file-as-resource",
    )  # fmt: skip

    async def answer(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        given = (await client.call_tool(name, arguments)).model_dump_json(exclude_none=True)
        known = json.loads(re.sub(r"created at \d+:\d\d:\d\d", "created at some time", given))
        return {key: known.get(key) for key in ("content", "structured_content", "is_error")}

    direct = StdioServerParameters(command=command[0], args=list(command[1:]))
    async with Client(direct, mode="legacy") as alone, Client(gateway(tmp_path, behind=command), mode=mode) as through:
        await until_listed(through, "mcp__peer__echo")
        for name in names:
            wanted = await answer(alone, name, calls[name])
            assert await answer(through, f"mcp__peer__{name}", calls[name]) == wanted


@pytest.mark.parametrize("mode", [slow("legacy"), "auto"])
async def test_a_question_from_behind_reaches_the_client_in_front(tmp_path: Path, mode: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with Client(gateway(tmp_path), mode=mode, elicitation_callback=answer) as client:
        await until_listed(client, "mcp__peer__ask")
        result: Any = await client.call_tool("mcp__peer__ask", {})
        assert json.loads(result.content[0].text) == {"action": "accept", "content": {"name": "Ada"}}
    assert asked == ["The MCP server peer asks: Who?"]


async def test_tools_that_come_behind_it_come_in_front_of_it(tmp_path: Path) -> None:
    async with Client(gateway(tmp_path), mode="legacy") as client:
        await until_listed(client, "mcp__peer__grow")
        await client.call_tool("mcp__peer__grow", {})
        await until_listed(client, "mcp__peer__extra")
