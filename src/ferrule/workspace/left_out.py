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


def check_indentation(before: str, old: Sequence[str], new: Sequence[str], *, ends_line: bool) -> None:
    """Raise `Unclear` when the match starts after `before`, mere blanks, and the new lines may lack them too."""
    if not before or before.strip(BLANKS):
        return
    first, *later = new
    if first.startswith(before) and first.strip(BLANKS) and first.strip(BLANKS) != old[0].strip(BLANKS):
        raise Unclear("it leaves out the indentation there, and the new text has it")
    later = [line for line in later if line.strip(BLANKS)]
    if not later or not ends_line or any(line.strip(BLANKS) for line in old[1:]):
        return
    whole = before + blanks_before(old[0])
    if not all(line.startswith(whole) for line in later) or _may_be_deeper(first.rstrip(), later[0], whole):
        raise Unclear("it leaves out the indentation there, so how far to indent the lines after it is not clear")


def _may_be_deeper(first: str, following: str, before: str) -> bool:
    """Whether the next line could be meant to stand deeper than the first, and not beside it."""
    if _OPENS_BLOCK.search(first):
        return blanks_before(following) == before
    return bool(_GOES_ON.search(first) or _CONTINUES.match(following.lstrip()) or first.lstrip()[:2] in ("- ", "* "))
