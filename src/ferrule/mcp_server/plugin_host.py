"""The child's side of a plugin: runs in the plugin's own environment, inside its box, and serves its tools over MCP.

Ferrule's own packages come after the plugin's on the path, so that what a plugin brings counts in its own process.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ferrule.core.plugin import Plugin
    from ferrule.mcp_server.opening import Lines, Opened


def main(entry: str, name: str, version: str) -> None:
    """Serve the plugin that `entry` names on the standard streams, until they end."""
    from ferrule.mcp_server.opening import claim_stdio
    from ferrule.plugins.discovery import load_entry

    reading, writing = claim_stdio()  # before its code is imported, which may print
    plugin, broken = load_entry(entry, name, version)
    for one in broken:
        sys.stderr.write(f"{one.source}: {one.reason}\n")
    asyncio.run(_serve(plugin, reading, writing))


async def _serve(plugin: Plugin, reading: int, writing: int) -> None:
    from ferrule.core.context import Session
    from ferrule.mcp_server.opening import serve_promptly
    from ferrule.mcp_server.shown_tools import Definitions
    from ferrule.pipeline.run import Runtime
    from ferrule.plugins.plugin import HeldByTheBox

    runtime = Runtime(plugin.tools, policy=HeldByTheBox(), own_loop=True)

    @asynccontextmanager
    async def running() -> AsyncGenerator[None]:
        from ferrule.pipeline.additions import end_plugins, start_plugin

        await start_plugin(plugin, own_loop=True)
        try:
            yield
        finally:
            await runtime.session.close()
            await end_plugins([plugin], own_loop=True)

    async def serve(lines: Lines, opened: Opened) -> None:
        from ferrule.mcp_server.server import McpServer
        from ferrule.mcp_server.sessions import RuntimeSession
        from ferrule.mcp_server.stdio import serve_lines

        # All tools, also those that are not for every caller: the host knows who calls.
        server = McpServer(runtime.tools, portable=False, open_session=lambda: RuntimeSession(runtime, Session.close))
        await serve_lines(server, lines, opened)

    await serve_promptly(Definitions(runtime.tools, portable=False), running(), serve, reading, writing)
