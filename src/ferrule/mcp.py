"""MCP both ways: serve a runtime's tools, and use the tools of other servers. Needs the extra `mcp`."""

from ferrule.core.elicitation import current_elicitor
from ferrule.mcp_client.server_config import ServerConfig
from ferrule.mcp_client.servers import Servers
from ferrule.mcp_server.server import McpServer

__all__ = ["McpServer", "ServerConfig", "Servers", "current_elicitor"]
