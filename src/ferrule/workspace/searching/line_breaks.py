r"""A line break in a pattern means the end of a line, however the lines of a file end.

Who writes `first\nsecond` has seen two lines, and not whether they end in `\n` or `\r\n`. A pattern that is about `\r`
itself stays as it is, and so does one whose line breaks might mean something else.
"""

from __future__ import annotations

import re

from ferrule.workspace.searching.replacement import names_carriage_return

_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
# A set within a set, quoted text, blanks that mean nothing, and look-behind, whose length must be fixed.
_UNSURE = re.compile(r"\\Q|\(\?[a-zA-Z-]*x|\(\?#|\(\?<[=!]")
_SET_IN_SET = re.compile(r"\[.*(?:\[|--|&&|~~|\|\|)", re.DOTALL)


def any_line_ending(pattern: str) -> str:
    """The pattern, matching also where lines end in a carriage return and a line feed."""
    if names_carriage_return(pattern) or _UNSURE.search(pattern):
        return pattern
    pieces = _PIECE.findall(pattern)
    if any(len(piece) > 2 and _SET_IN_SET.match(piece) for piece in pieces):
        return pattern
    try:
        re.compile(pattern)
    except re.error:  # the engine is to complain of what was written, and of its places
        return pattern
    return "".join(r"(?:\r?\n)" if piece in ("\n", r"\n", "\\\n") else piece for piece in pieces)
