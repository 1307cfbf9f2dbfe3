"""Clients hear that the tools changed, once for what changes together, and not of what they do not see (R8)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from mcp import types
from mcp.shared.subscriptions import ToolsListChanged

from ferrule import Registry, Runtime, raw_tool
from ferrule.mcp_server.server import McpServer
from tests.mcp_server.serving import client_of


def raw(name: str) -> Any:
    return raw_tool(name, {"type": "object"}, lambda arguments: "", kind="readonly", description="Do it.")


class Heard:
    """What a client with a handshake was told."""

    def __init__(self) -> None:
        self.count = 0
        self.news = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.count += 1
            self.news.set()


async def test_a_client_with_a_handshake_is_told_once_for_many_changes() -> None:
    registry, heard = Registry([raw("first")]), Heard()
    async with client_of(McpServer(Runtime(registry)), "handshake", message_handler=heard) as client:
        assert client.server_capabilities.tools == types.ToolsCapability(list_changed=True)
        await client.list_tools()
        for at in range(200):
            registry.register(raw(f"tool_{at}"))
        await asyncio.wait_for(heard.news.wait(), 20)
        assert len((await client.list_tools(cache_mode="refresh")).tools) == 201
        heard.news.clear()
        registry.unregister("first")
        await asyncio.wait_for(heard.news.wait(), 20)
    assert heard.count == 2


async def test_a_subscriber_is_told_in_the_stateless_era() -> None:
    registry = Registry([raw("first")])
    async with (
        client_of(McpServer(Runtime(registry)), "stateless") as client,
        client.listen(tools_list_changed=True) as events,
    ):
        registry.register(raw("second"))
        async for event in events:
            assert event == ToolsListChanged()
            break


async def test_a_change_from_another_thread_is_heard() -> None:
    registry, heard = Registry([raw("first")]), Heard()
    async with client_of(McpServer(Runtime(registry)), "handshake", message_handler=heard) as client:
        await client.list_tools()
        thread = threading.Thread(target=registry.register, args=(raw("second"),))
        thread.start()
        await asyncio.wait_for(heard.news.wait(), 20)
        thread.join()


async def test_a_change_that_clients_do_not_see_is_not_told() -> None:
    registry, heard = Registry([raw("shown_one"), raw("hidden_one")]), Heard()
    shown = registry.filtered(lambda tool: tool.name.startswith("shown"))
    async with client_of(McpServer(Runtime(shown)), "handshake", message_handler=heard) as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["shown_one"]
        registry.unregister("hidden_one")
        await asyncio.sleep(0.2)  # long enough for what would have been told
        assert heard.count == 0
        registry.register(raw("shown_two"))
        await asyncio.wait_for(heard.news.wait(), 20)
