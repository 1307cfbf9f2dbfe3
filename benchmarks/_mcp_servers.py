"""The servers that `mcp_echo.py` measures: `python _mcp_servers.py ours|bare stdio|http`, both with the same echo."""

from __future__ import annotations

import asyncio
import sys
from typing import Any


def ours() -> Any:
    from ferrule import Runtime, tool
    from ferrule.mcp_server.server import McpServer

    @tool(kind="readonly")
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    return McpServer(Runtime([echo]))


def bare() -> Any:
    from mcp import types
    from mcp.server.lowlevel.server import Server

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="echo", description="Say it again.", input_schema=schema)])

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = (params.arguments or {})["text"]
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)


async def main(whose: str, transport: str) -> None:
    if transport == "stdio":
        await _stdio(whose)
    else:
        await _http(whose)


async def _stdio(whose: str) -> None:
    if whose == "ours":
        from ferrule.mcp_server.opening import claim_stdio
        from ferrule.mcp_server.stdio import serve_stdio

        reading, writing = claim_stdio()
        await serve_stdio(ours(), reading, writing)
        return
    from mcp.server.stdio import stdio_server

    server = bare()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _http(whose: str) -> None:
    import socket

    import uvicorn

    from ferrule.mcp_server.http import ListenAddress, serve_http

    if whose == "ours":
        await serve_http(ours(), ListenAddress("127.0.0.1", 0), ready=lambda port: print(port, flush=True))
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(bare().streamable_http_app(), log_config=None, access_log=False)
        await uvicorn.Server(config).serve([listening])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
