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

from ferrule.core.phrases import phrase
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
_ENDS_ANYWHERE = re.compile(r"^\s*(?:#[a-z]|[A-Z_]+$)|\"\"\"|'''|`")
_CLOSES = re.compile(r"[)\]}<#]|(?:end|else|elif|elsif|except|catch|finally|rescue|case|default|done|fi|esac)\b")
_LIST_GOES_ON = re.compile(r"[;,]$")
_BRACKET = re.compile(r"[()\[\]{}]")
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_WIDER_THAN_A_STEP = 8
_TOO_SHORT_TO_TELL = 4


class LeftOut(Enum):
    """What an old text that starts behind the indentation of its line is."""

    PART = auto()
    """A part of the line: the new text stands in its place, by the letter."""
    LINES = auto()
    """Whole lines, to which the indentation belongs: they go, or the new text brings it along."""
    MARGIN = auto()
    """A copy of whole lines without their margin, and so is the new text."""


def is_left_out(before: str, old: Sequence[str], new: Sequence[str], *, ends_line: bool) -> bool:
    """Whether a match after `before` on its line may be whole lines without their indentation, and it matters."""
    if not before or before.strip(BLANKS) or not ends_line:
        return False
    first, *later = new
    changed = bool(first.strip(BLANKS)) and blanks_before(first) == blanks_before(old[0]) and not any(later)
    within_the_line = len(old) == 1 and (changed or new == [""])
    return not within_the_line


def what_is_left_out(before: str, old: Sequence[str], new: Sequence[str], following: str | None) -> LeftOut:
    """How to read a match for which `is_left_out` holds; `following` is the next line of the file that has words.

    Raises `Unclear` when the new lines may lack the indentation, too, or may not.
    """
    if new == [""]:
        return LeftOut.PART if old[-1] else LeftOut.LINES  # without its ending, a line is emptied and stays
    first, *later = new
    later = [line for line in later if line.strip(BLANKS)]
    whole = before + blanks_before(old[0])
    goes_on = any(line.strip(BLANKS) for line in old[1:])
    if not first.strip(BLANKS):
        if later or old[0].strip(BLANKS):
            raise Unclear(phrase("it leaves out the indentation there, and the new text does not start with words"))
    elif blanks_before(first) == whole:
        # Later lines with their indentation show that the first line alone is cut. Else the lines that stay decide.
        return LeftOut.LINES if goes_on else LeftOut.MARGIN
    elif blanks_before(first) != blanks_before(old[0]):
        raise Unclear(phrase("it leaves out the indentation there, and the new text has some"))
    if any(line and not line.strip(BLANKS) for line in new[1:]):
        raise Unclear(
            phrase("it leaves out the indentation there, so how far to indent the empty lines after it is not clear")
        )
    if goes_on:
        # A copy that lost its margin would have lost it on every line.
        if any(line not in old and blanks_before(line) == blanks_before(old[0]) for line in later):
            raise Unclear(phrase("it leaves out the indentation there, and so may the new lines"))
        return LeftOut.PART
    if not later:
        return LeftOut.PART
    if (
        blanks_before(old[0])
        or _keeps_less(old[0], later)
        or _would_part(before, new)
        or would_dip(whole, new, following)
        or _would_rise(whole, new, following)
    ):
        return LeftOut.MARGIN
    if not all(line.startswith(whole) for line in later) or _may_be_deeper(first, later[0], whole):
        raise Unclear(
            phrase("it leaves out the indentation there, so how far to indent the lines after it is not clear")
        )
    return LeftOut.PART


def _keeps_less(old: str, later: Sequence[str]) -> bool:
    """Whether the line that is there comes again after new ones, and would lose its indentation by the letter."""
    return len(old.strip(BLANKS)) > _TOO_SHORT_TO_TELL and old.rstrip(BLANKS) in [line.rstrip(BLANKS) for line in later]


def _would_part(before: str, new: Sequence[str]) -> bool:
    """Whether the first two lines, which are as deep, would by the letter stand at depths that nothing explains."""
    first, second = new[0].rstrip(BLANKS), new[1]
    if (
        not second.strip(BLANKS)
        or blanks_before(second) != blanks_before(first)
        or _CLOSES.match(second.lstrip(BLANKS))
    ):
        return False
    deep = len(before.expandtabs(4)) >= _WIDER_THAN_A_STEP
    return (deep or _LIST_GOES_ON.search(_REMARK.sub("", first)) is not None) and not _ENDS_ANYWHERE.search(second)


def would_dip(whole: str, new: Sequence[str], following: str | None) -> bool:
    """Whether by the letter the new text would end further left than the lines around it, which nothing explains."""
    last = next(line for line in reversed(new) if line.strip(BLANKS))
    if following is None or _ends_anywhere(new) or opens_block(last):
        return False
    inside = blanks_before(following).startswith(whole)
    return inside and whole.startswith(blanks_before(last)) and blanks_before(last) != whole


def _would_rise(whole: str, new: Sequence[str], following: str | None) -> bool:
    """Whether by the letter the next line would stand deeper than the last new one, and less deep than the first."""
    last = next(line for line in reversed(new) if line.strip(BLANKS))
    if following is None or _ends_anywhere(new) or opens_block(last) or _goes_on_with(following):
        return False
    above, below = blanks_before(last), blanks_before(following)
    return whole.startswith(below) and below.startswith(above) and above != below


def _ends_anywhere(lines: Sequence[str]) -> bool:
    """Whether the last of these lines may stand at any depth. What closes a bracket of theirs stands as deep as they
    do.
    """
    last = next(line for line in reversed(lines) if line.strip(BLANKS))
    if _ENDS_ANYWHERE.search(last) or "<<" in "".join(lines):
        return True
    if _CLOSES.match(last.lstrip(BLANKS)) is None:
        return False
    return last.lstrip(BLANKS)[0] not in ")]}" or not _balanced("\n".join(lines))


def _balanced(text: str) -> bool:
    """Whether every bracket is opened and closed here; those in strings count too, which at worst says no."""
    opened: list[str] = []
    for bracket in _BRACKET.findall(text):
        if bracket in _PAIRS:
            opened.append(_PAIRS[bracket])
        elif not opened or opened.pop() != bracket:
            return False
    return not opened


def _goes_on_with(line: str) -> bool:
    """Whether a line belongs to what stands before it, and may stand deeper for that."""
    return _CONTINUES.match(line.lstrip(BLANKS)) is not None


def opens_block(line: str) -> bool:
    """Whether the next line is likely to stand deeper."""
    words = _REMARK.sub("", line).rstrip()
    return (_OPENS_BLOCK.search(words) or _GOES_ON.search(words)) is not None


def not_deeper(first: str, second: str) -> bool:
    """Whether of two lines as deep as each other the second would stand deeper as code is written."""
    opens = _OPENS_BLOCK.search(words := _REMARK.sub("", first).rstrip()) or words.endswith(("(", "["))
    return bool(opens) and not _CLOSES.match(second.lstrip(BLANKS))


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
