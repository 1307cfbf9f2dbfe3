"""Long lists of names, written as running text."""

from __future__ import annotations


def names(text: str) -> tuple[str, ...]:
    """The words of `text`, which may run over several lines."""
    return tuple(text.split())
