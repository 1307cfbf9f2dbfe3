"""Bash that keeps its state between commands, and owns whatever they start."""
