"""Settings, and the one place where the parts are wired together."""
