"""Words of a model or a tool, made safe for a terminal: what would steer it, hide or turn the text is shown instead."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Joiners that emoji and several scripts are written with; they move nothing.
_JOINERS = "\u200c\u200d\u00ad"
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_LINE_ENDS = re.compile(r"\r+\n")


def visible(text: str) -> str:
    """The text with control characters, marks that turn its order, and lone surrogates as visible escapes."""
    if text.isprintable():
        return text
    return "".join(map(_shown, _LINE_ENDS.sub("\n", text)))


def one_line(text: str) -> str:
    """The same on one line: line ends are shown, tabs are spaces."""
    return visible(text.strip()).replace("\n", "⏎").replace("\t", " ")


@cache
def _shown(character: str) -> str:
    if character in "\n\t" or character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
