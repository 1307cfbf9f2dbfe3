"""Tokens and money in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.cli.words import _

if TYPE_CHECKING:
    from ferrule.core.model import Usage


def usage_words(usage: Usage) -> str:
    """`1,200 tokens read (900 from the cache), 56 written, $0.0031`; nothing where nothing was counted."""
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    read = _("{n} tokens read").format(n=f"{usage.input_tokens:,}")
    if usage.cache_read_tokens:
        read += _(" ({n} from the cache)").format(n=f"{usage.cache_read_tokens:,}")
    written = _("{n} written").format(n=f"{usage.output_tokens:,}")
    cost = [money(usage.cost)] if usage.cost is not None else []
    return _(", ").join([read, written, *cost])


def money(dollars: float) -> str:
    """As many digits as tell something."""
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"
