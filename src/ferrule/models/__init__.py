"""Models behind one protocol: OpenAI-compatible, Anthropic, Gemini, and one that runs on this machine."""
