"""The `ferrule` program; but however busy the machine is, it has its MCP servers before the first turn."""

from __future__ import annotations

from ferrule.app import build
from ferrule.cli import mcp_servers as mcp_state
from ferrule.cli.main import main

if __name__ == "__main__":
    build._SERVERS_SECONDS = mcp_state._SECONDS_TO_LIST = 60.0
    main()
