"""Notices an old text that leaves out the indentation of its line, where it matters.

`foo()` is found in the line `    foo()`. That is exact, and fine, for a change within the line. But when lines follow
in the new text, it may be a copy that lost its margin, and then they would stand too far left.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.workspace.reindent import Unclear
from ferrule.workspace.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPENS_BLOCK = re.compile(r"[:{]$|\b(?:then|do|begin|else)$")
_GOES_ON = re.compile(r"[(\[,\\+*/=<>&|?.%^~-]$|\b(?:and|or|not|in|return)$")
_CONTINUES = re.compile(r"[.?:&|+*/=%)\]}-]|(?:and|or)\b")


def takes_indentation(before: str, old: Sequence[str], new: Sequence[str], *, ends_line: bool) -> bool:
    """Whether the blanks before the match belong to it, since the new text has them.

    Raises `Unclear` when the match starts after `before`, mere blanks, and the new lines may lack them too.
    """
    if not before or before.strip(BLANKS):
        return False
    first, *later = new
    later = [line for line in later if line.strip(BLANKS)]
    whole = before + blanks_before(old[0])
    goes_on = any(line.strip(BLANKS) for line in old[1:])
    if first.startswith(before) and first.strip(BLANKS):
        # A copy that lost its margin would have lost it on every line.
        if goes_on and blanks_before(first) == whole:
            return True
        raise Unclear("it leaves out the indentation there, and the new text has it")
    if not later or not ends_line or goes_on:
        return False
    if not all(line.startswith(whole) for line in later) or _may_be_deeper(first.rstrip(), later[0], whole):
        raise Unclear("it leaves out the indentation there, so how far to indent the lines after it is not clear")
    return False


def _may_be_deeper(first: str, following: str, before: str) -> bool:
    """Whether the next line could be meant to stand deeper than the first, and not beside it."""
    if _OPENS_BLOCK.search(first):
        return blanks_before(following) == before
    return bool(_GOES_ON.search(first) or _CONTINUES.match(following.lstrip()) or first.lstrip()[:2] in ("- ", "* "))
