"""Tells whether a new text is written as the file is, or with the differences that the copy of the old one has.

Lines that the new text shares with the copy, where the file has another form, say the one; lines that it shares with
the file say the other. Where they say both, or where nothing says anything, nothing is written.
"""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferrule.workspace.edits.match_rungs import Adapted, MatchPlace

_WORD = re.compile(r"\w+")
_REMARK = re.compile(r"\s+(?:#|//|/\*|--|<!--).*$")
_OPENS_BLOCK = re.compile(r"[:{]$|\b(?:then|do|begin|else|where|of)$")
_GOES_ON = re.compile(r"[(\[,\\+*/=<>&|?.%^~!-]$|\b(?:and|or|not|in|is|return|await)$")
_ENDS_ANYWHERE = re.compile(r"^\s*(?:#[a-z]|[A-Z_]+$)|\"\"\"|'''|`")
_CLOSES = re.compile(r"[)\]}<#]|(?:end|else|elif|elsif|except|catch|finally|rescue|case|default|done|fi|esac)\b")
_CONTINUES = re.compile(r"[.?:&|+*/=%,)\]}<>-]|(?:and|or)\b")
_LIST_GOES_ON = re.compile(r"[;,]$")
_WIDER_THAN_A_STEP = 8
_BRACKET = re.compile(r"[()\[\]{}]")
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_SHARED = 0.5
_TELLING = 4
_COMMON = frozenset({"return", "break", "continue", "finally", "default", "begin"})
_LOOKED_AT = 3_000
_FEW_STEPS, _OFTEN = 3, 0.25


def is_as_the_file(place: MatchPlace, file: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text is to be taken as it is; raises `Unclear` when that cannot be told."""
    writing = place.writing
    as_file = _as_the_file(writing, place, file, new)
    if as_file and writing.indentation is not None and writing.characters is not None:
        retyped = [writing.characters.line(line, None) for line in new if line not in file]
        if retyped != [line for line in new if line not in file]:
            raise Unclear(
                phrase("the new text is indented as the file is, and has the quotes, dashes or spaces of the copy")
            )
    return as_file


def _as_the_file(writing: Adapted, place: MatchPlace, file: Sequence[str], new: Sequence[str]) -> bool:
    if writing.indentation is not None and not _converted(place.old, file):
        return _indented_as_the_file(place, file, new)
    alike = _count_shared(place.old, new, unlike=file)
    as_file = _count_shared(file, new, unlike=place.old)
    if as_file > 2 * alike:
        if writing.indentation is not None:
            _check_kept(file, new)
        return True
    if as_file and alike <= 2 * as_file:
        raise Unclear(phrase("the new text shares lines both with it and with the file where the two differ"))
    if writing.characters is not None and writing.characters.contradicts(new):
        raise Unclear(phrase("the new text has both plain and typographic characters where it has one kind only"))
    if alike or writing.indentation is None:
        return False
    as_file = _with_the_files_blanks(file, new)
    if as_file and writing.indentation.moves and _first_indentation(file) != _first_indentation(new):
        raise Unclear(phrase("the new text is indented neither like it nor clearly like the file"))
    if not as_file and not writing.indentation.only_expands and not _share_words(place.old, new):
        raise Unclear(phrase("the new text has nothing in common with it, so how to indent it is not clear"))
    return as_file


def partners(old: Sequence[str], new: Sequence[str], *, backwards: bool = False) -> dict[int, int]:
    """For each line of the new text that is also in the old one, which one; read from the front or from the back."""
    mine = [line.rstrip(BLANKS) for line in old]
    theirs = [line.rstrip(BLANKS) for line in new]
    if backwards:
        mine.reverse()
        theirs.reverse()
    front = 0
    while front < min(len(mine), len(theirs)) and mine[front] == theirs[front]:
        front += 1
    pairs = {index: index for index in range(front)}
    matcher = SequenceMatcher(None, mine[front:], theirs[front:], autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs.update({front + block.b + step: front + block.a + step for step in range(block.size)})
    if backwards:
        return {len(new) - 1 - j: len(old) - 1 - k for j, k in pairs.items()}
    return pairs


# A margin more or less


def _indented_as_the_file(place: MatchPlace, file: Sequence[str], new: Sequence[str]) -> bool:
    """Where only the margin differs. A new text as deep as the file may be the copy's, moved deeper on purpose."""
    old = place.old
    if not any(line.strip(BLANKS) for line in new):
        return False
    like_the_copy = [line for line in _shared(old, new, unlike=file) if line.strip(BLANKS)]
    alike = sum(map(tells, like_the_copy))
    as_file = sum(map(tells, _shared(file, new, unlike=old)))
    mine, theirs, ours = (_first_indentation(lines) for lines in (old, file, new))
    if as_file and alike:
        raise Unclear(phrase("the new text shares lines both with it and with the file where the two differ"))
    if alike and ours == mine:
        if len(mine) > len(theirs) and _goes_on_at(place, ours):
            raise Unclear(phrase("the new text is as deep as the line before it, and the file is not"))
        _check_not_flat(old, new)
        return False
    moved_only = [line.strip(BLANKS) for line in old] == [line.strip(BLANKS) for line in new]
    most_is_as_the_file = 2 * as_file >= _count_kept(old, new) and not like_the_copy and not moved_only
    if as_file and most_is_as_the_file and ours == theirs != mine and not _is_a_step(place, file):
        return True
    raise Unclear(phrase("whether the new text is indented like it or like the file is not clear"))


def _check_not_flat(old: Sequence[str], new: Sequence[str]) -> None:
    """Raises `Unclear` when all indentation may be gone from the new text, and with it how deep its lines stand."""
    mine, ours = ([line for line in lines if line.strip(BLANKS)] for lines in (old, new))
    if any(map(blanks_before, [*mine, *ours])):
        return
    opens_nothing = set(mine[:-1])  # the file has the next line as deep
    if any(_not_deeper(*pair) for pair in pairwise(ours) if pair[0] not in opens_nothing):
        raise Unclear(
            phrase(
                "every line of the new text starts at the margin, even after one that opens a "
                "block, so how deep its lines stand is not clear"
            )
        )


def _is_a_step(place: MatchPlace, file: Sequence[str]) -> bool:
    """Whether lines may well be moved by what the margins differ in: mostly one step of this file's indentation."""
    less, more = sorted((_first_indentation(place.old), _first_indentation(file)), key=len)
    blanks = more[: len(more) - len(less)]
    if "\t" in blanks:
        return blanks == "\t"
    lines = place.lines.contents[:_LOOKED_AT]
    deeper = Counter(
        len(after) - len(before)
        for before, after in pairwise(blanks_before(line) for line in lines if line.strip(BLANKS))
        if after.startswith(before) and after != before and "\t" not in after
    )
    steps = deeper.total()
    # Where a step is two spaces, the edit may be part of making it four: each line moves by as much as it has.
    doubled = (len(more) == 2 * len(less) or not less) and deeper[2] == max(deeper.values(), default=0)
    return steps < _FEW_STEPS or deeper[len(blanks)] >= max(_OFTEN * steps, 1) or doubled


def _shared(base: Sequence[str], new: Sequence[str], *, unlike: Sequence[str]) -> Iterator[str]:
    """The lines that the new text shares with `base` where `unlike` has another line."""
    return (base[k] for j, k in partners(base, new).items() if base[k] == new[j] and base[k] != unlike[k])


def _count_shared(base: Sequence[str], new: Sequence[str], *, unlike: Sequence[str]) -> int:
    return sum(1 for _ in _shared(base, new, unlike=unlike))


def _count_kept(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines of the new text are in the old one, at whatever depth."""
    there = {line.strip(BLANKS) for line in old if tells(line)}
    return sum(1 for line in new if line.strip(BLANKS) in there)


def tells(line: str) -> bool:
    """Whether a line is not one of those that stand at any depth."""
    return sum(map(len, _WORD.findall(line))) > _TELLING and line.strip(" \t;:{}()") not in _COMMON


def _goes_on_at(place: MatchPlace, indentation: str) -> bool:
    """Whether the line before the place stands at this depth, and no block starts there."""
    before = next((line for line in reversed(place.lines.contents[: place.first]) if line.strip(BLANKS)), "")
    return bool(before) and blanks_before(before) == indentation and not _opens_block(before)


# A margin that the new text lacks, too


def shows_lost_margin(margin: str, old: str, new: Sequence[str], following: str | None) -> bool:
    """Whether by the letter, behind the margin of the old line, the new lines would stand where nothing explains it."""
    whole = margin + blanks_before(old)
    kept = tells(old) and old.rstrip(BLANKS) in [line.rstrip(BLANKS) for line in new[1:]]
    return kept or _would_part(margin, new) or _would_dip(whole, new, following) or _would_rise(whole, new, following)


def _would_part(margin: str, new: Sequence[str]) -> bool:
    """Whether the first two lines, which are as deep, would stand at different depths."""
    first, second = new[0].rstrip(BLANKS), new[1]
    if not second.strip(BLANKS) or blanks_before(second) != blanks_before(first):
        return False
    deep = len(margin.expandtabs(4)) >= _WIDER_THAN_A_STEP
    goes_on = _LIST_GOES_ON.search(_REMARK.sub("", first)) is not None
    return (deep or goes_on) and not _CLOSES.match(second.lstrip(BLANKS)) and not _ENDS_ANYWHERE.search(second)


def _would_rise(whole: str, new: Sequence[str], following: str | None) -> bool:
    """Whether the next line would stand deeper than the last new one, and less deep than the first."""
    last = _last(new)
    if following is None or _ends_anywhere(new) or _opens_block(last) or _CONTINUES.match(following.lstrip(BLANKS)):
        return False
    above, below = blanks_before(last), blanks_before(following)
    return whole.startswith(below) and below.startswith(above) and above != below


def _would_dip(whole: str, new: Sequence[str], following: str | None) -> bool:
    """Whether the new text would end further left than the lines around it."""
    last = _last(new)
    if following is None or _ends_anywhere(new) or _opens_block(last):
        return False
    inside = blanks_before(following).startswith(whole)
    return inside and whole.startswith(blanks_before(last)) and blanks_before(last) != whole


def _ends_anywhere(lines: Sequence[str]) -> bool:
    """Whether the last of these lines may stand at any depth. What closes a bracket of theirs stands as deep as they
    do.
    """
    last = _last(lines)
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


def _opens_block(line: str) -> bool:
    """Whether the next line is likely to stand deeper."""
    words = _REMARK.sub("", line).rstrip()
    return (_OPENS_BLOCK.search(words) or _GOES_ON.search(words)) is not None


def _not_deeper(first: str, second: str) -> bool:
    """Whether of two lines as deep as each other the second would stand deeper as code is written."""
    opens = _OPENS_BLOCK.search(words := _REMARK.sub("", first).rstrip()) or words.endswith(("(", "["))
    return bool(opens) and not _CLOSES.match(second.lstrip(BLANKS))


def _first(lines: Sequence[str]) -> str:
    return next((line for line in lines if line.strip(BLANKS)), "")


def _last(lines: Sequence[str]) -> str:
    return _first(lines[::-1])


def _first_indentation(lines: Sequence[str]) -> str:
    return blanks_before(_first(lines))


def _share_words(old: Sequence[str], new: Sequence[str]) -> bool:
    mine, ours = (set(_WORD.findall("\n".join(lines))) for lines in (old, new))
    return len(mine & ours) >= _SHARED * min(len(mine), len(ours))


# Tabs for spaces, or spaces for tabs


def _with_the_files_blanks(file: Sequence[str], new: Sequence[str]) -> bool:
    if _with_tabs(new) and _with_spaces(new):
        raise Unclear(phrase("the new text is indented with tabs and with spaces, and it is not"))
    return (_with_tabs(new) or _with_spaces(new)) and _with_tabs(new) == _with_tabs(file)


def _check_kept(file: Sequence[str], new: Sequence[str]) -> None:
    """Raises `Unclear` unless the new text starts and ends as the file does."""
    theirs, ours = ([line.rstrip(BLANKS) for line in lines if line.strip(BLANKS)] for lines in (file, new))
    if not ours or (theirs[0], theirs[-1]) != (ours[0], ours[-1]):
        raise Unclear(phrase("whether the new text is indented like it or like the file is not clear"))


def _converted(old: Sequence[str], file: Sequence[str]) -> bool:
    """Whether the copy has spaces where the file has tabs, or the other way round."""
    if _with_tabs(old):
        return not _with_tabs(file) and _with_spaces(file)
    return _with_spaces(old) and _with_tabs(file)


def _with_tabs(lines: Sequence[str]) -> bool:
    return any("\t" in blanks_before(line) for line in lines)


def _with_spaces(lines: Sequence[str]) -> bool:
    return any(blanks_before(line).startswith("  ") for line in lines if line.strip(BLANKS))
