"""Notices an old text that leaves out the indentation of its line, where it matters.

`foo()` is found in the line `    foo()`. That is exact, and fine, for a change within the line. But when lines follow
in the new text, it may be a copy that lost its margin, and then they would stand too far left.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Sequence

_REMARK = re.compile(r"\s+(?:#|//|/\*|--|<!--).*$")
_OPENS_BLOCK = re.compile(r"[:{]$|\b(?:then|do|begin|else|where|of)$")
_STARTS_BLOCK = re.compile(
    r"(?:if|elif|elsif|else|unless|for|foreach|while|until|loop|case|when|switch|match|try|catch|except|finally|rescue|"
    r"ensure|with|using|do|begin|def|fn|func|fun|function|sub|proc|class|struct|enum|union|interface|trait|impl|module|"
    r"namespace|type|describe|it|let|local|async|pub|public|private|protected|static|export|default)\b|[-*+<@.]|\d+[.)]"
)
_IS_WHOLE = re.compile(r";$")
_GOES_ON = re.compile(r"[(\[,\\+*/=<>&|?.%^~!-]$|\b(?:and|or|not|in|is|return|await)$")
_CONTINUES = re.compile(r"[.?:&|+*/=%,)\]}<>-]|(?:and|or)\b")
_WIDER_THAN_A_STEP = 8


def takes_indentation(before: str, old: Sequence[str], new: Sequence[str], *, ends_line: bool) -> bool:
    """Whether the blanks before the match belong to it, since the new text has them or nothing is left of the line.

    Raises `Unclear` when the match starts after `before`, mere blanks, and the new lines may lack them too.
    """
    if not before or before.strip(BLANKS):
        return False
    if new == [""]:
        return ends_line
    first, *later = new
    later = [line for line in later if line.strip(BLANKS)]
    whole = before + blanks_before(old[0])
    goes_on = any(line.strip(BLANKS) for line in old[1:])
    shifted = first.strip(BLANKS) and blanks_before(first) != blanks_before(old[0])
    if shifted or (later and not first.strip(BLANKS)):
        # A copy that lost its margin would have lost it on every line.
        if goes_on and blanks_before(first) == whole:
            return True
        raise Unclear("it leaves out the indentation there, and the new text has some")
    if any(line and not line.strip(BLANKS) for line in new[1:]) or (old[0].strip(BLANKS) and not first.strip(BLANKS)):
        raise Unclear("it leaves out the indentation there, so how far to indent the empty lines after it is not clear")
    if goes_on and any(line not in old and blanks_before(line) == blanks_before(old[0]) for line in later):
        raise Unclear("it leaves out the indentation there, and so may the new lines")
    if not later or not ends_line or goes_on:
        return False
    if not all(line.startswith(whole) for line in later) or _may_be_deeper(first, later[0], whole):
        raise Unclear("it leaves out the indentation there, so how far to indent the lines after it is not clear")
    return False


def _may_be_deeper(first: str, following: str, whole: str) -> bool:
    """Whether the next line could be meant to stand deeper than the first, and not where it stands by the letter."""
    first, following_words = _REMARK.sub("", first).strip(), following.lstrip()
    deeper = blanks_before(following) != whole
    if _GOES_ON.search(first) or _CONTINUES.match(following_words):
        return True
    wide = len(whole.expandtabs(4)) >= _WIDER_THAN_A_STEP
    if _OPENS_BLOCK.search(first):
        return not (deeper and wide)
    return deeper or (not wide and (_STARTS_BLOCK.match(first) is not None or not _IS_WHOLE.search(first)))
