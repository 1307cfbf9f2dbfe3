"""The kernel's part in keeping a command to what it was allowed: the workspace, and little else."""
