"""MCP both ways: serve a runtime's tools, and use the tools of other servers. Needs the extra `mcp`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ferrule.core.elicitation import current_elicitor
from ferrule.core.errors import MissingExtra
from ferrule.mcp_client.ports import Ports
from ferrule.mcp_client.server_config import ConfigProblem, ServerConfig, from_json
from ferrule.mcp_client.servers import Servers
from ferrule.policy.decide import RulePolicy
from ferrule.registry.registry import Registry
from ferrule.workspace.data_folder import data_folder

try:
    from ferrule.mcp_server.server import McpServer
except ModuleNotFoundError as error:
    if (error.name or "").startswith("ferrule"):
        raise
    raise MissingExtra("MCP", "mcp") from error

if TYPE_CHECKING:
    from ferrule.pipeline.run import Runtime

__all__ = ["McpServer", "Ports", "ServerConfig", "Servers", "current_elicitor", "open_servers"]

logger = logging.getLogger("ferrule.mcp")
_START_SECONDS = 30.0


async def open_servers(
    runtime: Runtime,
    servers: Mapping[str, ServerConfig | Mapping[str, Any]],
    *,
    ports: Ports | None = None,
    wait: float = _START_SECONDS,
) -> Servers:
    """Start MCP servers and put their tools into a runtime's registry; `close()` of what it gives ends them.

    A server is written as in a `.mcp.json`: `{"command": "uvx", "args": ["mcp-server-git"]}` or `{"url": "https://…"}`.
    One that does not start is logged, and the others work. A `RulePolicy` asks again about a tool whose definition has
    changed since it was allowed. `ports` are how a server reaches the user and the model, where it may.
    """
    registry = runtime.tools
    if not isinstance(registry, Registry):
        raise TypeError(
            "MCP servers bring tools of their own: give the Runtime a list of tools or a Registry, no view."
        )
    configs = [_config(name, one) for name, one in servers.items()]
    opened = Servers(configs, registry, folders=runtime.session.folders, data=data_folder() / "mcp", ports=ports)
    if isinstance(runtime.policy, RulePolicy):
        runtime.policy.doubt_through(opened.approvals)
    try:
        await opened.start(wait=wait)
    except BaseException:
        await opened.close()
        raise
    for name, one in opened.joined.items():
        if one.server.problem or not one.server.listed:
            why = one.server.problem or f"no answer within {wait:g} s"
            logger.warning("MCP server %s did not start: %s", name, why)
    return opened


def _config(name: str, given: ServerConfig | Mapping[str, Any]) -> ServerConfig:
    if isinstance(given, ServerConfig):
        return given
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - written by hand
        raise TypeError(
            f'mcp_servers: `{name}` must be a table like {{"command": "uvx", "args": [...]}}, not {given!r}.'
        )
    try:
        return from_json(name, dict(given))
    except (ConfigProblem, TypeError, ValueError) as problem:
        raise ValueError(f"mcp_servers: {problem}.") from None
