"""Why an edit cannot be made, in words that let the next try succeed."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, AnyStr

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import joined, phrase
from ferrule.core.shown_text import cut_counted
from ferrule.workspace.edits.text_lines import BLANKS, TextLines, blanks_before, in_utf_8
from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.workspace.texts.text import Edit


# What an edit comes to.


class Rung(StrEnum):
    """How far the text in the file may differ from the text that was asked for, from not at all downwards."""

    EXACT = "exact"
    LINE_ENDS = "line endings or trailing space"
    INDENTATION = "indentation"
    TYPOGRAPHY = "typography"
    LINE_NUMBERS = "line numbers"
    ESCAPED = "escaped"


@dataclass(slots=True, frozen=True)
class FoundText:
    """Where an edit goes, which rung of the ladder found it, and what to tell about that (empty when exact)."""

    spans: list[Edit]
    rung: Rung
    note: str = ""


_SHOWN_LINES = 20
_DIFFERENCES = {
    str(one): one
    for one in (
        phrase("line endings or trailing space"),
        phrase("indentation"),
        phrase("typography"),
        phrase("line numbers"),
    )
}
"""What two texts may differ in and yet be found, by the name of the rung."""


class EditError(PathError):
    """An edit that was not made. `code` is a stable word: `identical`, `empty`, `nul`, `missing`, `several`, `misfit`,
    `notebook`.
    """

    def saying(self, message: str, **details: object) -> EditError:
        """The same problem in other words."""
        known = {**(self.details or {}), **details}
        return EditError(self.code, message, kind=self.kind, suggestion=self.suggestion, details=known)


def identical() -> EditError:
    return EditError(
        "identical",
        phrase("The old and the new text are the same, so there is nothing to change."),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Give the changed text as the new text."),
    )


def empty() -> EditError:
    return EditError(
        "empty",
        phrase("The old text is empty, so there is no place to change."),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Give the text to find, or use Write to create the whole file."),
    )


def nul() -> EditError:
    return EditError(
        "nul",
        phrase("The new text contains a NUL character, and text files have none. Nothing was changed."),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Write it as an escape of the file's language, such as `\\0` or `\\x00`."),
    )


def several(lines: Sequence[int], rung: str, *, every: bool = False) -> EditError:
    """More than one place fits; `lines` are the numbers of their first lines. `every`: `replace_all` takes them all."""
    how = phrase(", differences in {what} aside", what=_DIFFERENCES.get(rung, rung))
    if rung == "exact":
        how = "" if every else phrase(", overlapping itself")
    numbers = list(dict.fromkeys(lines))
    count, shown = f"{len(lines):,}", ", ".join(map(str, numbers[:_SHOWN_LINES]))
    if len(numbers) > _SHOWN_LINES:
        shown = phrase("{lines} and {count} more", lines=shown, count=f"{len(numbers) - _SHOWN_LINES:,}")
    return EditError(
        "several",
        phrase("The old text is found {count} times{how}: on lines {lines}.", count=count, how=how, lines=shown)
        if len(numbers) > 1
        else phrase("The old text is found {count} times{how}: on line {line}.", count=count, how=how, line=shown),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase(
            "Add lines before or after it until it is found once, or set `replace_all` to change every one."
        )
        if every
        else phrase("Add lines before or after it until it is found once."),
        details={"count": len(lines), "lines": numbers[:_SHOWN_LINES]},
    )


def misfit(line: int, reason: str, shown: str, suggestion: str) -> EditError:
    """One place fits, and yet what should stand there is not certain."""
    return EditError(
        "misfit",
        phrase(
            "The old text fits on line {line}, but {reason}. Nothing was changed.\n\n{shown}",
            line=f"{line:,}",
            reason=reason,
            shown=shown,
        ),
        kind=ErrorKind.VALIDATION,
        suggestion=suggestion,
        details={"line": line},
    )


# Says where a text that was not found nearly is, so that one more try is enough.


_MOST_LINES, _MOST_WIDTH, _AROUND = 60, 300, 6
_MOST_SHOWN, _LONGEST_WHOLE = 8_000, 2_000
_MOST_LEFT_OUT = 30
_MOST_WHOLE, _SURROUNDINGS = 2_000_000, 200_000
"""Characters of a text that is looked through line by line, and of what is taken of a longer one."""
_MOST_IN_ANY_CASE = 2_000_000
"""Characters that are searched without regard to case, which takes ten times as long."""
_MOST_WANTED, _MOST_WORDS, _MOST_HITS, _MOST_COMPARED = 200, 10, 20, 4
_MARKS = ("·␣▪", "→⇥↦", "␍↵␤", "⍽␢◦")
"""For space, tab, carriage return and no-break space: the first of each that is not in the text itself."""
_WORD = re.compile(r"\w{3,}")


def missing(lines: TextLines, old: list[str]) -> EditError:
    """The problem of a text that is nowhere, with the place that is nearest."""
    ends = len(old) - (len(old) > 1 and not old[-1])
    empty = next((offset for offset, line in enumerate(old[:ends]) if line.strip(BLANKS)), 0)
    if len(lines.source) > _MOST_WHOLE:
        lines = _surroundings(lines, old[empty:ends])
    first = _nearest(lines, old[empty:ends]) if lines.text else None
    if first is None:
        return EditError(
            "missing",
            phrase("The old text is not in the file, nor anything like it."),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Read the file again and copy the text to change from it."),
        )
    while empty and first and not lines.stripped[first - 1]:
        empty, first = empty - 1, first - 1
    wanted = old[empty:ends]
    first, last = _extent(lines, first, wanted)
    difference = _first_difference(lines, first, wanted)
    skipped = lines.skipped
    where = (
        phrase("line {n}", n=f"{skipped + first + 1:,}")
        if last == first + 1
        else phrase("lines {first}-{last}", first=f"{skipped + first + 1:,}", last=f"{skipped + last:,}")
    )
    said = phrase("The first difference is on {where}.", where=difference[1]) if difference else ""
    if empty and not difference:
        said = phrase("The empty lines at its start are not in the file.")
    nearest = phrase("The old text is not in the file. The nearest is on {where}.", where=where)
    shown = excerpt(lines, first, last - first, around=difference[0] if difference else first)
    return EditError(
        "missing",
        joined("\n\n", [joined(" ", [nearest, said]), shown]),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Copy the old text from these lines, with their spaces and tabs, and try again."),
        details={"line": skipped + first + 1},
    )


def excerpt(lines: TextLines, first: int, count: int, *, around: int) -> str:
    """Some lines as Read shows them, with the blanks at their edges visible."""
    last = min(first + count, max(_count(lines), first + 1))
    if last - first > _MOST_LINES:
        first = max(first, around - _AROUND)
        last = min(first + _MOST_LINES, last)
    shown = lines.contents[first:last]
    marks = "".join(
        next((mark for mark in some if not any(mark in line for line in shown)), some[0]) for some in _MARKS
    )
    whole = sum(map(len, shown)) <= _MOST_SHOWN and max(map(len, shown)) <= _LONGEST_WHOLE
    rows = [visible(line, marks) if whole else cut_counted(visible(line, marks), _MOST_WIDTH) for line in shown]
    legend = phrase(
        "({space} is a space, {tab} a tab, {carriage_return} a carriage return, {no_break} a no-break space)",
        space=marks[0], tab=marks[1], carriage_return=marks[2], no_break=marks[3],
    )  # fmt: skip
    return joined(
        "\n", [*(f"{number:>6}\t{row}" for number, row in enumerate(rows, lines.skipped + first + 1)), legend]
    )


def visible(line: str, marks: str = "·→␍⍽") -> str:
    """A line whose blanks can be seen: all but single spaces between words."""
    space, tab, carriage_return, no_break = marks
    body = line.strip(BLANKS)
    start = blanks_before(line)
    end = line[len(start) + len(body) :]
    body = re.sub(r" {2,}", lambda match: space * len(match[0]), body)
    shown = start.replace(" ", space) + body + end.replace(" ", space)
    shown = shown.replace("\t", tab).replace("\r", carriage_return)
    return shown.replace("\u00a0", no_break).replace("\u202f", no_break)


def _count(lines: TextLines) -> int:
    """The number of lines; what follows the last line ending is none."""
    return len(lines) - (not lines.contents[-1])


def _surroundings(lines: TextLines, old: Sequence[str]) -> TextLines:
    """The part of a large text with most of the old text's lines and rare words; an empty one where there are none."""
    whole = {line.strip(BLANKS) for line in old[:_MOST_WANTED]} - {""}
    words = {word for line in old[:_MOST_WANTED] for word in _WORD.findall(line)}
    votes: defaultdict[int, int] = defaultdict(int)
    for some, weight in ((whole, 4), (words, 1)):
        for one in sorted(some, key=len, reverse=True)[:_MOST_WORDS]:
            for at in _places(lines.source, one):
                votes[at // _SURROUNDINGS] += len(one) * weight
    if not votes:
        return TextLines("")
    most = max(votes, key=lambda part: (votes[part], -part)) * _SURROUNDINGS
    text, newline = lines.source, lines.newline
    return _part(text, newline, most) if isinstance(text, str) else _part(text, newline.encode(), most)


def _part(text: AnyStr, newline: AnyStr, at: int) -> TextLines:
    """The lines around a place in a text."""
    start = text.rfind(newline, 0, max(at - _SURROUNDINGS // 2, 0)) + 1
    end = text.find(newline, at + _SURROUNDINGS * 3 // 2) + 1 or len(text)
    return TextLines(text[start:end], skipped=text.count(newline, 0, start))


def _nearest(lines: TextLines, old: Sequence[str]) -> int | None:
    """The line where a place like the old text begins: voted for by equal lines, then by rare words, then by words of
    another case.
    """
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for offset, line in enumerate(old[:_MOST_WANTED]):
        if line.strip(BLANKS):
            wanted[line.strip(BLANKS)].append(offset)
    votes: defaultdict[int, int] = defaultdict(int)
    for index, line in enumerate(lines.stripped):
        if line in wanted:
            for offset in wanted[line][:_MOST_HITS]:
                votes[index - offset] += min(len(line), 60) * 4
    places = {
        word: offset for offset, line in reversed(list(enumerate(old[:_MOST_WANTED]))) for word in _WORD.findall(line)
    }
    words = [(places[word], word) for word in sorted(places, key=len, reverse=True)[:_MOST_WORDS]]
    for offset, word in words:
        for index in _hits(lines, word):
            votes[index - offset] += len(word)
    for offset, word in words if not votes and len(lines.text) <= _MOST_IN_ANY_CASE else ():
        for index in _hits(lines, word, any_case=True):
            votes[index - offset] += len(word)
    best = sorted((start for start in votes if -len(old) < start), key=lambda start: (-votes[start], start))
    compared = [max(start, 0) for start in best[:_MOST_COMPARED]]

    def likeness(start: int) -> float:
        score = 0.0
        for line, found in zip(old[:30], lines.contents[start:], strict=False):
            mine, theirs = line.strip()[:200], found.strip()[:200]
            equal = 3.0 if mine == theirs and mine else 0.0
            score += equal or SequenceMatcher(None, mine, theirs, autojunk=False).ratio()
        return score

    return max(compared, key=likeness, default=None)


def _extent(lines: TextLines, first: int, wanted: Sequence[str]) -> tuple[int, int]:
    """The first line of the place and the one after its last: more than were wanted, where the copy left some out."""
    last = max(min(first + len(wanted), _count(lines)), first + 1)
    if not 1 < len(wanted) <= _MOST_WANTED:
        return first, last
    reach = min(len(wanted), _MOST_LEFT_OUT) + _AROUND
    start, end = max(first - reach, 0), min(last + reach, _count(lines))
    mine = [line.strip(BLANKS) for line in wanted]
    blocks = SequenceMatcher(None, mine, lines.stripped[start:end], autojunk=False).get_matching_blocks()[:-1]
    if blocks and blocks[0].a == 0 and mine[0]:
        first = min(first, start + blocks[0].b)
    if blocks and blocks[-1].a + blocks[-1].size == len(mine) and mine[-1]:
        last = max(last, start + blocks[-1].b + blocks[-1].size)
    return first, last


def _hits(lines: TextLines, word: str, *, any_case: bool = False) -> list[int]:
    """The lines a word is on; none when they are many, since then it says nothing."""
    return [lines.number_at(at) - 1 for at in _places(lines.text, word, any_case=any_case)]


def _places(text: str | bytes, word: str, *, any_case: bool = False) -> list[int]:
    if isinstance(text, str):
        places = re.finditer(re.escape(word), text, re.IGNORECASE if any_case else 0)
    else:
        places = re.finditer(re.escape(in_utf_8(word)), text)
    found = [place.start() for place in islice(places, _MOST_HITS + 1)]
    return found if len(found) <= _MOST_HITS else []


def _first_difference(lines: TextLines, first: int, old: Sequence[str]) -> tuple[int, str] | None:
    """The line, and words for it. Differences that would have been forgiven come last."""
    pairs = [
        (first + offset, line, lines.contents[first + offset] if first + offset < _count(lines) else None)
        for offset, line in enumerate(old)
    ]
    for index, mine, theirs in pairs:
        if theirs is None:
            given = _quoted(mine, 0)
            number = f"{lines.skipped + index + 1:,}"
            return index, phrase("line {n}: the file ends before it, you gave {given}", n=number, given=given)
        if mine.strip(BLANKS) != theirs.strip(BLANKS):
            start, theirs, mine = len(blanks_before(theirs)), theirs.strip(BLANKS), mine.strip(BLANKS)
            return index, _told(lines.skipped + index, start, theirs, mine)
    for index, mine, theirs in pairs:
        if theirs is not None and mine != theirs:
            return index, _told(lines.skipped + index, 0, theirs, mine)
    return None


def _told(index: int, start: int, theirs: str, mine: str) -> str:
    differ = (at for at, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other)
    at = next(differ, min(len(mine), len(theirs)))
    return phrase(
        "line {n}, column {column}: the file has {theirs}, you gave {mine}",
        n=f"{index + 1:,}",
        column=f"{start + at + 1:,}",
        theirs=_quoted(theirs, at),
        mine=_quoted(mine, at),
    )


def _quoted(line: str, at: int) -> str:
    """The line from a little before the difference."""
    start = max(at - 12, 0)
    part = line[start : at + 40]
    if not part:
        return phrase("an empty line")
    return f"`{'…' if start else ''}{visible(part)}{'…' if at + 40 < len(line) else ''}`"
