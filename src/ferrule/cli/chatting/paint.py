"""Colours, as few as help, in words of meaning; none at all where the person wants plain text."""

from __future__ import annotations

_CODES = {
    "strong": "1",
    "faint": "2",
    "slanted": "3",
    "good": "32",
    "bad": "31",
    "warned": "33",
    "code": "36",
    "title": "1;4",
    "place": "36",
}


class Paint:
    """Puts a style around words. What is painted must be safe already, and hold no line end."""

    def __init__(self, coloured: bool) -> None:
        self.coloured = coloured

    def __call__(self, style: str, words: str) -> str:
        if not self.coloured or not words:
            return words
        return f"\x1b[{_CODES[style]}m{words}\x1b[0m"

    def diff_line(self, line: str) -> str:
        """One line of a unified diff."""
        if line.startswith(("+++", "---")):
            return self("strong", line)
        style = {"+": "good", "-": "bad", "@": "place", "\\": "faint"}.get(line[:1])
        return self(style, line) if style else line
