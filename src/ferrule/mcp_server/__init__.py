"""The same runtime as an MCP server: every tool of ours out, through the same seven stages."""
