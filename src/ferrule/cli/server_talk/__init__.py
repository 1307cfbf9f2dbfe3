"""What MCP servers ask of the user, in words: forms, addresses to open, and signing in."""
