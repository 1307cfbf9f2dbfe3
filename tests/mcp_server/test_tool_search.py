"""X5: a client of a server with many tools is listed few, and those that it finds."""

from __future__ import annotations

import asyncio

from ferrule import Registry, RulePolicy, Runtime
from ferrule.mcp_server.server import McpServer
from ferrule.registry.search_tools import ToolSearch
from tests.mcp_server.serving import both_eras, client_of, text_of
from tests.mcp_server.test_list_changes import Heard, raw


def server(policy: RulePolicy | None = None) -> McpServer:
    registry = Registry([raw("read_clock"), raw("send_mail"), raw("secret_mail"), *(raw(f"x{at}") for at in range(60))])
    return McpServer(Runtime(registry, policy=policy).with_search(ToolSearch(pinned=["read_clock"])))


@both_eras
async def test_what_a_search_finds_is_listed_and_can_be_called(era: str) -> None:
    async with client_of(server(RulePolicy(deny=["secret_mail"])), era) as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["read_clock", "search_tools"]
        found = await client.call_tool("search_tools", {"queries": ["mail"]})
        assert text_of(found) == "You can call these tools now:\n- send_mail(): Do it."
        listed = [one.name for one in (await client.list_tools(cache_mode="refresh")).tools]
        assert sorted(listed) == ["read_clock", "search_tools", "send_mail"]
        assert not (await client.call_tool("send_mail", {})).is_error
        assert not (await client.call_tool("x7", {})).is_error  # a client may know its name from elsewhere


async def test_a_client_is_told_that_the_list_grew() -> None:
    heard = Heard()
    async with client_of(server(), "handshake", message_handler=heard) as client:
        await client.list_tools()
        await client.call_tool("search_tools", {"queries": ["mail"]})
        await asyncio.wait_for(heard.news.wait(), 20)
    assert heard.count == 1
