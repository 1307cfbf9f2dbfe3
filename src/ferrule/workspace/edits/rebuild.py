"""Writes what takes the place of a text that was found with differences forgiven.

Lines that the old and the new text share keep the file's own characters. New lines are written as the file would write
them. The new text either shares the flaws of the old one or is already as the file is: the lines they share tell which,
and where they tell both, nothing is written.
"""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.file_style import Unclear, margin
from ferrule.workspace.edits.text_lines import BLANKS, blanks_after, blanks_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferrule.workspace.edits.match_rungs import MatchPlace


# Tells whether a new text is written as the file is, or with the differences that the copy of the old one has.


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


def _as_the_file(place: MatchPlace, file: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text is to be taken as it is; raises `Unclear` when that cannot be told."""
    writing = place.writing
    if writing.indentation is not None and not _converted(place.old, file):
        return _indented_as_the_file(place, file, new)
    alike = sum(1 for _ in _shared(place.old, new, unlike=file))
    as_file = sum(1 for _ in _shared(file, new, unlike=place.old))
    if as_file > 2 * alike:
        if writing.indentation is not None:
            theirs, ours = ([line.rstrip(BLANKS) for line in lines if line.strip(BLANKS)] for lines in (file, new))
            if not ours or (theirs[0], theirs[-1]) != (ours[0], ours[-1]):
                raise Unclear(phrase("whether the new text is indented like it or like the file is not clear"))
        return True
    if as_file and alike <= 2 * as_file:
        raise Unclear(phrase("the new text shares lines both with it and with the file where the two differ"))
    if writing.characters is not None and writing.characters.contradicts(new):
        raise Unclear(phrase("the new text has both plain and typographic characters where it has one kind only"))
    if alike or writing.indentation is None:
        return False
    if _with_tabs(new) and _with_spaces(new):
        raise Unclear(phrase("the new text is indented with tabs and with spaces, and it is not"))
    as_file = (_with_tabs(new) or _with_spaces(new)) and _with_tabs(new) == _with_tabs(file)
    if as_file and writing.indentation.moves and _first_indentation(file) != _first_indentation(new):
        raise Unclear(phrase("the new text is indented neither like it nor clearly like the file"))
    if not as_file and not writing.indentation.only_expands and not _share_words(place.old, new):
        raise Unclear(phrase("the new text has nothing in common with it, so how to indent it is not clear"))
    return as_file


def partners_of(old: Sequence[str], new: Sequence[str], *, backwards: bool = False) -> dict[int, int]:
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
    alike = sum(tells(line) for line in _shared(old, new, unlike=file))
    as_file = sum(tells(line) for line in _shared(file, new, unlike=old))
    mine, theirs, ours = (_first_indentation(lines) for lines in (old, file, new))
    if not any(line.strip(BLANKS) for line in new):
        return False
    if not alike:
        if as_file or _looks_like(file, new):
            if any(line.strip(BLANKS) for line in _shared(old, new, unlike=file)):
                raise Unclear(phrase("the new text shares lines both with it and with the file where the two differ"))
            # How many lines of the new text are in the old one, at whatever depth.
            there = {line.strip(BLANKS) for line in old if tells(line)}
            if 2 * as_file < sum(1 for line in new if line.strip(BLANKS) in there) or ours == mine:
                raise Unclear(phrase("the new text shares lines with the file, and is otherwise not indented like it"))
            # Unless there is not as much to take away, the copy's lines may be meant to move by the margin it lacks.
            surplus = mine[: len(mine) - len(theirs)] if len(mine) > len(theirs) else ""
            may_move = all(line.startswith(surplus) for line in new if line.strip(BLANKS))
            same_words = [line.strip(BLANKS) for line in old] == [line.strip(BLANKS) for line in new]
            if may_move and (same_words or _is_a_step(place, file)):
                raise Unclear(phrase("whether the new text is indented like it or like the file is not clear"))
            return True
        _check_like_the_copy(place, file, new)
    elif as_file and alike <= 2 * as_file:
        raise Unclear(phrase("the new text shares lines both with it and with the file where the two differ"))
    elif ours != mine and (ours == theirs or _first(new) not in old):
        raise Unclear(phrase("the new text does not start as deep as it does"))
    elif len(mine) > len(theirs):
        before = next((line for line in reversed(place.lines.contents[: place.first]) if line.strip(BLANKS)), "")
        if before and blanks_before(before) == ours and not _opens_block(before):
            raise Unclear(phrase("the new text is as deep as the line before it, and the file is not"))
    # All indentation may be gone from the new text, and with it how deep its lines stand.
    had, has = ([line for line in lines if line.strip(BLANKS)] for lines in (old, new))
    opens_nothing = set(had[:-1])  # the file has the next line as deep
    if not any(map(blanks_before, [*had, *has])) and any(
        _not_deeper(*pair) for pair in pairwise(has) if pair[0] not in opens_nothing
    ):
        raise Unclear(
            phrase(
                "every line of the new text starts at the margin, even after one that opens a "
                "block, so how deep its lines stand is not clear"
            )
        )
    return False


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


def _check_like_the_copy(place: MatchPlace, file: Sequence[str], new: Sequence[str]) -> None:
    """Raises `Unclear` unless a new text that shares no line is as deep as the copy, and not by chance."""
    old = place.old
    deeper = len(margin(old)) > len(margin(file))
    if deeper or not _as_deep(old, new):
        raise Unclear(phrase("the new text is indented neither like it nor clearly like the file"))
    if _first(old) == _first(new) or _last(old) == _last(new):
        return
    if not _share_words(old, new) or not (
        _looks_like(old, new)
        or not _is_a_step(place, file)
        or _would_dip(_first_indentation(file), new, place.lines.next_with_words(place.end))
    ):
        raise Unclear(phrase("the new text has nothing in common with it, so how far to indent it is not clear"))


def _as_deep(lines: Sequence[str], new: Sequence[str]) -> bool:
    return margin(new) == margin(lines) and _first_indentation(new) == _first_indentation(lines)


def _looks_like(lines: Sequence[str], new: Sequence[str]) -> bool:
    """Whether one text is as deep as the other, and its first or last line looks like a change of the other's."""
    return _as_deep(lines, new) and (
        _alike(_first(lines), _first(new))
        or (_alike(_last(lines), _last(new)) and blanks_before(_last(lines)) == blanks_before(_last(new)))
    )


def _shared(base: Sequence[str], new: Sequence[str], *, unlike: Sequence[str]) -> Iterator[str]:
    """The lines that the new text shares with `base` where `unlike` has another line."""
    return (base[k] for j, k in partners_of(base, new).items() if base[k] == new[j] and base[k] != unlike[k])


def tells(line: str) -> bool:
    """Whether a line is not one of those that stand at any depth."""
    return sum(map(len, _WORD.findall(line))) > _TELLING and line.strip(" \t;:{}()") not in _COMMON


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


def _alike(one: str, other: str) -> bool:
    mine, ours = set(_WORD.findall(one)), set(_WORD.findall(other))
    shared = mine & ours
    telling = len(shared) > 1 or any(len(word) >= _TELLING for word in shared)
    return telling and len(shared) >= _SHARED * min(len(mine), len(ours))


# Tabs for spaces, or spaces for tabs


def _converted(old: Sequence[str], file: Sequence[str]) -> bool:
    """Whether the copy has spaces where the file has tabs, or the other way round."""
    if _with_tabs(old):
        return not _with_tabs(file) and _with_spaces(file)
    return _with_spaces(old) and _with_tabs(file)


def _with_tabs(lines: Sequence[str]) -> bool:
    return any("\t" in blanks_before(line) for line in lines)


def _with_spaces(lines: Sequence[str]) -> bool:
    return any(blanks_before(line).startswith("  ") for line in lines if line.strip(BLANKS))


# Writes the lines


_MOST_COMPARED = 4_000_000
_EMPTY = phrase("how far to indent its empty lines is not clear from it")
_TRAILING = phrase("which blanks at the ends of its lines should stay is not clear from it")


def rebuild(place: MatchPlace, new: list[str]) -> str:
    """The text for this place; raises `Unclear` when it would be a guess."""
    file, endings = place.file, _endings(place)
    if place.old == file and len(set(endings)) == 1:
        return endings[0].join(new)  # line endings alone differ
    if len(place.old) * len(new) > _MOST_COMPARED:
        raise Unclear(phrase("it is too long to compare with the new text line by line"))
    if place.old != file and [line.rstrip(BLANKS) for line in place.old] == [line.rstrip(BLANKS) for line in new]:
        raise Unclear(_TRAILING)  # blanks alone are to change, and the copy's are not to be relied on
    place.old, new = _without_added(place.old, file, new)
    if _as_the_file(place, file, new):
        unlike, characters = [line for line in new if line not in file], place.writing.characters
        if (
            place.writing.indentation is not None
            and characters is not None
            and [characters.line(line, None) for line in unlike] != unlike
        ):
            raise Unclear(
                phrase("the new text is indented as the file is, and has the quotes, dashes or spaces of the copy")
            )
        partners = partners_of(file, new)
        if _added_blanks(place.old, file) and any(_ends_blank(new[j]) for j in range(len(new)) if j not in partners):
            raise Unclear(_TRAILING)
        return _join(place, new, new, partners)
    forwards = _written(place, file, new, partners_of(place.old, new))
    backwards = _written(place, file, new, partners_of(place.old, new, backwards=True))
    if forwards != backwards:
        raise Unclear(phrase("which of its equal lines are kept is not clear from the new text"))
    return forwards


def _written(place: MatchPlace, file: Sequence[str], new: Sequence[str], partners: dict[int, int]) -> str:
    old = place.old
    changed = _replaced(len(old), len(new), partners)
    written: list[str] = []
    indented = place.writing.indentation is not None
    stripped_kept = blanks_added = False
    added = _added_blanks(old, file)
    kept_added = any(_ends_blank(old[k]) and not _ends_blank(file[k]) and new[j] == old[k] for j, k in partners.items())
    losing = {old[k].rstrip(BLANKS) for k in range(len(old)) if _loses_blanks(old, file, k)}
    for j, line in enumerate(new):
        k = partners.get(j)
        if indented and line and not line.strip(BLANKS) and (k is None or line != old[k]):
            raise Unclear(_EMPTY)
        if k is None:
            if indented and not line and 0 < j < len(new) - 1 and place.lines.often_blank:
                raise Unclear(_EMPTY)
            last_part = j == len(new) - 1 and not line
            if not last_part and line.rstrip(BLANKS) in losing:
                raise Unclear(_TRAILING)
            if added and _ends_blank(line):
                if blanks_after(line) not in added or not kept_added or any(map(_ends_blank, file)):
                    raise Unclear(_TRAILING)
                line = line.rstrip(BLANKS)
            blanks_added = blanks_added or (line != line.rstrip(BLANKS) and j < len(new) - 1)
            written.append(place.writing.line(line, changed.get(j)))
            if _ends_blank(written[-1]) and not _ends_blank(line):
                raise Unclear(_TRAILING)  # a no-break space at its end is a blank in the file's characters
        elif old[k] == file[k]:
            if added and line != old[k] and _ends_blank(line):
                raise Unclear(_TRAILING)
            written.append(line)
        elif not line.strip(BLANKS) and partners.get(j - 1) != k - 1 and partners.get(j + 1) != k + 1:
            raise Unclear(_EMPTY)  # one empty line is like another: nothing shows that it is this one
        elif line in (old[k], file[k]):
            stripped_kept = stripped_kept or (line == old[k] and _loses_blanks(old, file, k))
            written.append(file[k])
        else:
            raise Unclear(_TRAILING)
    if stripped_kept and blanks_added:
        raise Unclear(_TRAILING)
    return _join(place, new, written, partners)


def _without_added(old: list[str], file: Sequence[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Both texts without the blanks that the copy has at the end of every line, and the file has not."""
    pairs = [
        (blanks_after(mine), blanks_after(theirs)) for mine, theirs in zip(old, file, strict=True) if mine.strip(BLANKS)
    ]
    added = {mine.removesuffix(theirs) if mine.endswith(theirs) else "" for mine, theirs in pairs}
    blanks = added.pop() if len(added) == 1 else ""
    if not blanks:
        return old, new

    def without(lines: list[str]) -> list[str]:
        return [line.removesuffix(blanks) if line.strip(BLANKS) else line for line in lines]

    worded = [line for line in new if line.strip(BLANKS)]
    copied, kept = ({line for line in lines if tells(line)} for lines in (old, file))
    shared = {line.rstrip(BLANKS): line in copied for line in worded if line in copied ^ kept}
    if shared and not any(shared.values()):
        return without(old), new
    if len({line.endswith(blanks) for line in worded}) > 1:
        if not shared and len(copied) > 1:
            raise Unclear(_TRAILING)
        return old, new
    if any(line.endswith(blanks) and blanks_after(line) != blanks and line not in old for line in worded):
        raise Unclear(_TRAILING)
    return without(old), without(new)


def _added_blanks(old: Sequence[str], file: Sequence[str]) -> set[str]:
    """The blanks that the copy has at the ends of lines where the file has none."""
    pairs = zip(old, file, strict=True)
    return {blanks_after(mine) for mine, theirs in pairs if _ends_blank(mine) and not _ends_blank(theirs)}


def _ends_blank(line: str) -> bool:
    return line != line.rstrip(BLANKS) and bool(line.strip(BLANKS))


def _loses_blanks(old: Sequence[str], file: Sequence[str], k: int) -> bool:
    return file[k] != file[k].rstrip(BLANKS) and old[k] == old[k].rstrip(BLANKS)


def _replaced(old_count: int, new_count: int, partners: dict[int, int]) -> dict[int, int]:
    """Pairs changed lines, one to one, where as many lines went as came."""
    pairs: dict[int, int] = {}
    edges = [(-1, -1), *sorted(partners.items()), (new_count, old_count)]
    for (j, k), (next_j, next_k) in pairwise(edges):
        if next_j - j == next_k - k:
            pairs.update(zip(range(j + 1, next_j), range(k + 1, next_k), strict=True))
    return pairs


def _join(place: MatchPlace, new: Sequence[str], written: Sequence[str], partners: dict[int, int]) -> str:
    """The lines with line endings: each line that stays keeps its own, and the others get the one that all have."""
    endings = _endings(place)
    parts: list[str] = []
    for j, line in enumerate(written):
        parts.append(line)
        if j < len(new) - 1:
            k = partners.get(j)
            if (k is None or k >= len(endings)) and len(set(endings)) > 1:
                raise Unclear(
                    phrase("its lines end differently in the file, so how its new lines should end is not clear")
                )
            parts.append(endings[0] if k is None or k >= len(endings) else endings[k])
    return "".join(parts)


def _endings(place: MatchPlace) -> list[str]:
    """The line endings inside the place, or else the one for lines that are new there."""
    return [place.lines.style(place.first + k) for k in range(max(len(place.old) - 1, 1))]
