"""Notices an old text that leaves out the indentation of its line, where it matters.

`foo()` is found in the line `    foo()`. That is exact, and fine, for a change within the line. But when lines follow
in the new text, it may be a copy that lost its margin, and then they would stand too far left. This is the one place
where an exact text is not simply replaced: it starts behind nothing but the indentation of a line, it ends with a line,
and the lines of the new text would stand elsewhere if that indentation were missing from them, too.
"""

from __future__ import annotations

import re
from enum import Enum, auto
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
_IN_COLUMN_ONE = re.compile(r"#\s*[a-z]|\"\"\"|'''|`|<<")
_WIDER_THAN_A_STEP = 8


class LeftOut(Enum):
    """What an old text that starts behind the indentation of its line is."""

    PART = auto()
    """A part of the line: the new text stands in its place, by the letter."""
    LINES = auto()
    """Whole lines that go, and their indentation with them."""
    MARGIN = auto()
    """A copy of whole lines without their margin, and so is the new text."""


def is_left_out(before: str, *, ends_line: bool) -> bool:
    """Whether a match that starts after `before` on its line may be whole lines without their indentation."""
    return bool(before) and not before.strip(BLANKS) and ends_line


def what_is_left_out(before: str, old: Sequence[str], new: Sequence[str], following: str | None) -> LeftOut:
    """How to read a match for which `is_left_out` holds; `following` is the next line of the file that has words.

    Raises `Unclear` when the new lines may lack the indentation, too, or may not.
    """
    if new == [""]:
        return LeftOut.PART if old[-1] else LeftOut.LINES
    first, *later = new
    later = [line for line in later if line.strip(BLANKS)]
    whole = before + blanks_before(old[0])
    goes_on = any(line.strip(BLANKS) for line in old[1:])
    if not first.strip(BLANKS):
        if later or old[0].strip(BLANKS):
            raise Unclear("it leaves out the indentation there, and the new text does not start with words")
    elif blanks_before(first) != blanks_before(old[0]):
        raise Unclear("it leaves out the indentation there, and the new text has some")
    if any(line and not line.strip(BLANKS) for line in new[1:]):
        raise Unclear("it leaves out the indentation there, so how far to indent the empty lines after it is not clear")
    if goes_on:
        # Later lines with their indentation: a copy that lost its margin would have lost it on every line.
        if any(line not in old and blanks_before(line) == blanks_before(old[0]) for line in later):
            raise Unclear("it leaves out the indentation there, and so may the new lines")
        return LeftOut.PART
    if not later:
        return LeftOut.PART
    if _would_dip(whole, new, following):
        return LeftOut.MARGIN
    if not all(line.startswith(whole) for line in later) or _may_be_deeper(first, later[0], whole):
        raise Unclear("it leaves out the indentation there, so how far to indent the lines after it is not clear")
    return LeftOut.PART


def _would_dip(whole: str, new: Sequence[str], following: str | None) -> bool:
    """Whether by the letter the new text would end further left than the lines around it, which nothing explains."""
    if following is None or _IN_COLUMN_ONE.search("\n".join(new)):
        return False
    last = next(line for line in reversed(new) if line.strip(BLANKS))
    inside = blanks_before(following).startswith(whole)
    opens = _OPENS_BLOCK.search(_REMARK.sub("", last).rstrip()) or _GOES_ON.search(last.rstrip())
    return inside and not opens and whole.startswith(blanks_before(last)) and blanks_before(last) != whole


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
