"""Layers: what a command did above the workspace, read, shown, applied and kept for its session."""
