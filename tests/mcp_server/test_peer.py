"""A tool reaches the client in the middle of a call, in either era."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types
from mcp.shared.exceptions import MCPError

from ferrule import tool
from ferrule.core.elicitation import current_elicitor
from ferrule.mcp_server.asking import Peer, current_peer
from tests.mcp_server.fixture_server import client_roots
from tests.mcp_server.serving import answering, both_eras, client_of, serving, text_of

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


def the_peer() -> Peer:
    found = current_peer()
    assert found is not None
    return found


@tool(kind="readonly")
async def ask_name() -> str:
    """Ask."""
    said = await the_peer().elicit("Your name?", FORM)
    return f"{said.action} {said.content.get('name')}"


@tool(kind="readonly")
async def ask_as_any_tool() -> str:
    """Ask, without knowing of MCP."""
    elicitor = current_elicitor()
    if elicitor is None:
        return "nobody can be asked"
    return str((await elicitor.elicit("Your name?", FORM)).content["name"])


@tool(kind="readonly")
async def list_folders() -> list[str]:
    """List the client's folders."""
    return [str(root.uri) for root in (await client_roots()).roots]


@both_eras
@pytest.mark.parametrize("own_loop", [False, True])
async def test_a_tool_asks_the_person(era: str, own_loop: bool) -> None:
    """Whichever loop it runs on."""
    server = serving([ask_name], own_loop=own_loop)
    async with client_of(server, era, elicitation_callback=answering(name="Ann")) as client:
        assert text_of(await client.call_tool("ask_name", {})) == "accept Ann"


@both_eras
@pytest.mark.parametrize("own_loop", [False, True])
async def test_a_tool_that_knows_nothing_of_mcp_asks_the_person(era: str, own_loop: bool) -> None:
    server = serving([ask_as_any_tool], own_loop=own_loop)
    async with client_of(server, era, elicitation_callback=answering(name="Ann")) as client:
        assert text_of(await client.call_tool("ask_as_any_tool", {})) == "Ann"
    async with client_of(serving([ask_as_any_tool]), era) as client:
        assert text_of(await client.call_tool("ask_as_any_tool", {})) == "nobody can be asked"


@both_eras
async def test_a_tool_learns_the_clients_folders(era: str) -> None:
    async def roots(_context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])  # pyright: ignore[reportArgumentType]

    async with client_of(serving([list_folders]), era, list_roots_callback=roots) as client:
        result = await client.call_tool("list_folders", {})
    assert result.structured_content == {"result": ["file:///work"]}


async def test_what_the_client_lacks_is_an_error_in_words_or_the_protocols_own() -> None:
    async with client_of(serving([ask_name]), "handshake") as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error
    assert "it has no `elicitation`" in text_of(result)
    async with client_of(serving([ask_name]), "stateless") as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("ask_name", {})
    assert refused.value.error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert refused.value.error.data == {"requiredCapabilities": {"elicitation": {}}}


async def test_a_client_that_fails_to_ask_is_said_so() -> None:
    async def broken(_context: Any, _params: Any) -> types.ErrorData:
        return types.ErrorData(code=-1, message="the dialog broke")

    async with client_of(serving([ask_name]), "handshake", elicitation_callback=broken) as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error
    assert "The client could not be asked: the dialog broke" in text_of(result)


def test_there_is_no_client_outside_of_a_call() -> None:
    assert current_peer() is None


@tool(kind="readonly")
async def ask_for_another() -> str:
    """Ask what a server behind us wants opened."""
    said = await the_peer().elicit("Pay.", {}, server="behind", url="https://pay.example/")
    return said.action


@both_eras
async def test_an_address_goes_to_the_client_as_one(era: str) -> None:
    seen: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        seen.append(params)
        return types.ElicitResult(action="accept")

    async with client_of(serving([ask_for_another]), era, elicitation_callback=answer) as client:
        assert text_of(await client.call_tool("ask_for_another", {})) == "accept"
    assert (seen[0].message, seen[0].url) == ("The MCP server behind asks: Pay.", "https://pay.example/")
