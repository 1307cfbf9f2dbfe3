"""What may run: rules, modes, commands that are understood before they are allowed, and hooks."""
