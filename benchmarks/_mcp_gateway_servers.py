"""The servers that `mcp_gateway.py` measures: `bare` is the SDK's own with one tool, or with as many as it is told.

`gateway` is ours, with a `bare` one behind it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any


async def gateway(folder: Path, tools: str) -> None:
    from ferrule import Runtime
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.mcp_client.servers import Servers
    from ferrule.mcp_server.opening import claim_stdio
    from ferrule.mcp_server.server import McpServer
    from ferrule.mcp_server.stdio import serve_stdio
    from ferrule.policy.decide import RulePolicy
    from ferrule.registry.registry import Registry

    reading, writing = claim_stdio()
    registry = Registry()
    behind = ServerConfig("bare", (sys.executable, __file__, "bare", str(folder), tools))
    servers = Servers([behind], registry, folders=[folder], data=folder / "data")
    policy = RulePolicy(allow=["mcp__bare__*"], doubts=servers.approvals)
    try:
        await servers.start()
        await serve_stdio(McpServer(Runtime(registry, policy=policy)), reading, writing)
    finally:
        await servers.close()


async def bare(count: int) -> None:
    from mcp import types
    from mcp.server.lowlevel.server import Server
    from mcp.server.stdio import stdio_server

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    names = ["echo", *(f"tool_{at:04}" for at in range(count))]
    tools = [types.Tool(name=name, description="Say it again.", input_schema=schema) for name in names]

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = (params.arguments or {})["text"]
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    what, where, *more = sys.argv[1:]
    if what == "gateway":
        asyncio.run(gateway(Path(where), more[0] if more else "0"))
    else:
        asyncio.run(bare(int(more[0]) if more else 0))
