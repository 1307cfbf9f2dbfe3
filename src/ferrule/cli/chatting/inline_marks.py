"""Markdown inside a line, as models write it: `code`, **strong**, *slanted*, ~~struck~~, [links](address).

Marks beside Chinese characters count too, which strict Markdown does not see as marks. A link's address is always
shown: what is clicked must be what is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferrule.cli.chatting.paint import Paint

_MARKS = re.compile(
    r"\\(?P<literal>[!-/:-@\[-`{-~])"
    r"|(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|\*\*(?P<strong>\S(?:.*?\S)?)\*\*(?!\*)"
    r"|(?<![\w*])\*(?P<slanted>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|(?<!\w)__(?P<strong_too>\S(?:.*?\S)?)__(?!\w)"
    r"|(?<!\w)_(?P<slanted_too>[^\s_](?:[^_]*[^\s_])?)_(?!\w)"
    r"|~~(?P<struck>\S(?:.*?\S)?)~~"
    r"|!?\[(?P<link>[^\]\n]*)\]\((?P<address>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)"
)
_MOST = 5000  # characters of a line that is looked at; an unclosed mark makes looking slow, and nobody reads so much


def inline(text: str, paint: Paint, style: str = "") -> str:
    """The text with its marks turned into styles. It must be safe already."""
    if len(text) > _MOST:
        return _painted(paint, style, text)
    pieces: list[str] = []
    at = 0
    for found in _MARKS.finditer(text):
        pieces.append(_painted(paint, style, text[at : found.start()]))
        pieces.append(_marked(found, paint, style))
        at = found.end()
    pieces.append(_painted(paint, style, text[at:]))
    return "".join(pieces)


def _marked(found: re.Match[str], paint: Paint, style: str) -> str:
    if (literal := found["literal"]) is not None:
        return _painted(paint, style, literal)
    if (code := found["code"]) is not None:
        return paint("code", code[1:-1] if len(code) > 2 and code[0] == code[-1] == " " and code.strip() else code)
    if (strong := found["strong"] or found["strong_too"]) is not None:
        return inline(strong, paint, "strong")
    if (slanted := found["slanted"] or found["slanted_too"]) is not None:
        return inline(slanted, paint, style or "slanted")
    if (struck := found["struck"]) is not None:
        return inline(struck, paint, "faint")
    words, address = found["link"], found["address"]
    shown = inline(words, paint, style)
    return shown if address in (words, f"mailto:{words}") else f"{shown} ({_painted(paint, 'place', address)})"


def _painted(paint: Paint, style: str, text: str) -> str:
    return paint(style, text) if style else text
