"""Tools of other MCP servers: found, watched, called, and never trusted."""
