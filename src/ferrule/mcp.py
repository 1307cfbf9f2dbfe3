"""MCP both ways: serve a runtime's tools, and use the tools of other servers. Needs the extra `mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.elicitation import current_elicitor
from ferrule.core.errors import MissingExtraError
from ferrule.mcp_client.bounds import START_SECONDS
from ferrule.mcp_client.server_config import Ports, ServerConfig
from ferrule.mcp_client.servers import Servers, open_into

try:
    from ferrule.mcp_server.http import asgi_app
    from ferrule.mcp_server.server import McpServer
    from ferrule.mcp_server.stdio import serve
except ModuleNotFoundError as error:
    if (error.name or "").startswith("ferrule"):
        raise
    raise MissingExtraError("MCP", "mcp") from error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.pipeline.run import Runtime

__all__ = [
    "McpServer", "Ports", "ServerConfig", "Servers", "asgi_app", "current_elicitor", "open_servers", "serve",
]  # fmt: skip


async def open_servers(
    runtime: Runtime,
    servers: Mapping[str, ServerConfig | Mapping[str, Any]],
    *,
    ports: Ports | None = None,
    wait: float = START_SECONDS,
) -> Servers:
    """Start MCP servers and put their tools into a runtime's registry; `close()` of what it gives ends them.

    A server is written as in a `.mcp.json`: `{"command": "uvx", "args": ["mcp-server-git"]}` or `{"url": "https://…"}`.
    One that does not start is logged, and the others work. A `RulePolicy` asks again about a tool whose definition has
    changed since it was allowed. `ports` are how a server reaches the user and the model, where it may.
    """
    return await open_into(
        runtime.tools, servers, folders=runtime.session.folders, policy=runtime.policy, ports=ports, wait=wait
    )
