"""The runtime behind HTTP, for many tenants, users and agents: `ferrule serve`."""
