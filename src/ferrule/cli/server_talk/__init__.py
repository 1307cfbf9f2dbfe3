"""What MCP servers ask of the person, in words: forms, addresses to open, and signing in."""
