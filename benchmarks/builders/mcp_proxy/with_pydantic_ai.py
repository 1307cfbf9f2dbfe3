"""An MCP proxy on standard input and output: the tools of another server without those that delete, and one more.

Run it with the command of the other server: `python with_pydantic_ai.py uvx mcp-server-notes`.
"""

import asyncio
import sys

from fastmcp.client.transports import StdioTransport
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent
from mcp.types import Tool as McpTool
from pydantic import ValidationError
from pydantic_ai import Tool
from pydantic_ai.mcp import MCPToolset


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def result(text: str, *, failed: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=failed)


async def main(command: str, *args: str) -> None:
    notes = MCPToolset(StdioTransport(command, list(args)))
    own = Tool(count_words)

    async def list_tools(ctx: ServerRequestContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        schema = own.function_schema.json_schema
        theirs = [one for one in await notes.list_tools() if not one.name.startswith("delete_")]
        return ListToolsResult(
            tools=[McpTool(name=own.name, description=own.description, input_schema=schema), *theirs]
        )

    async def call_tool(ctx: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        if params.name.startswith("delete_"):
            return result(f"{params.name} is not allowed.", failed=True)
        if params.name != own.name:
            return await notes.client.call_tool_mcp(params.name, params.arguments or {})
        try:
            arguments = own.function_schema.validator.validate_python(params.arguments or {})
        except ValidationError as error:
            return result(str(error), failed=True)
        return result(str(count_words(**arguments)))

    server = Server(
        "proxy",
        instructions="The user's notes. Read one before you answer.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with notes, stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
