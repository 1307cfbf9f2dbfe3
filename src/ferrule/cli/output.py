"""Text that a tool or a file gave, written so that it cannot drive the terminal and a pipe gets exactly that text."""

from __future__ import annotations

import sys
import unicodedata


def write(text: str, *, err: bool = False) -> None:
    """A line of output. On a terminal control characters are shown and not obeyed; in a pipe nothing is changed."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - it is None when the caller closed it
        return
    stream.write(f"{shown(text) if stream.isatty() else text}\n")
    stream.flush()


def shown(text: str) -> str:
    """The text with its control characters, but for line ends and tabs, as visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else f"\\x{ord(c):02x}" for c in text)
