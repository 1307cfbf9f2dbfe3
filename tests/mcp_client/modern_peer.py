"""A server of the newer era, made with the SDK: it lists, calls, asks in the middle of a call, and tells of changes."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitRequestURLParams, InputRequiredResult

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 0
server = MCPServer("modern")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
async def grow(context: Context) -> str:
    """Add a tool."""
    server.add_tool(echo, name="extra", description="One more.")
    await context.notify_tools_changed()
    return "grown"


@server.tool()
async def ask(context: Context) -> str | InputRequiredResult:
    """Ask the person who they are."""
    if context.input_responses is None:
        form = {"type": "object", "properties": {"name": {"type": "string", "default": "nobody"}}}
        params = ElicitRequestFormParams(message="Who?", requested_schema=form)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)}, request_state="kept")
    said: Any = context.input_responses["who"]
    return f"{said.action} {said.content} {context.request_state}"


@server.tool()
async def form(schema: dict[str, Any], context: Context) -> str | InputRequiredResult:
    """Ask the user to fill in a form."""
    if context.input_responses is None:
        params = ElicitRequestFormParams(message="Please fill this in.", requested_schema=schema)
        return InputRequiredResult(input_requests={"form": ElicitRequest(params=params)}, request_state="kept")
    said: Any = context.input_responses["form"]
    return json.dumps({"action": said.action, "content": said.content})


@server.tool()
async def address(url: str, context: Context) -> str | InputRequiredResult:
    """Ask the user to open an address."""
    if context.input_responses is None:
        params = ElicitRequestURLParams(message="Please pay.", url=url)
        return InputRequiredResult(input_requests={"pay": ElicitRequest(params=params)}, request_state="kept")
    said: Any = context.input_responses["pay"]
    return json.dumps({"action": said.action})


@server.tool()
async def progress(context: Context) -> str:
    """Tell how far it has come."""
    for step in (1, 2, 3):
        await context.report_progress(step, 3, f"step {step}")
    return "done"


@server.tool()
async def slow() -> str:
    """Never answer."""
    await anyio.sleep_forever()
    return "never"


for at in range(COUNT):
    server.add_tool(echo, name=f"tool_{at:04}", description=f"The tool number {at}.")

if __name__ == "__main__":
    if "--http" in sys.argv:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[-1]), log_level="error")
    else:
        server.run("stdio")
