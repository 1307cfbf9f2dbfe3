"""How many of something, in words."""

from __future__ import annotations


def amount(number: int, what: str) -> str:
    """`1 line`, `1,200 lines`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
