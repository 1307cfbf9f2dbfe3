"""The loop with a model: what it is told, what it asks for, what comes back, and when to stop."""
