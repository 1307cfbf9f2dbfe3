"""Says where a text that was not found nearly is, so that one more try is enough."""

from __future__ import annotations

import re
from collections import defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.workspace.edits.edit_problems import EditProblem
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.workspace.edits.text_lines import TextLines

_MOST_LINES, _MOST_WIDTH, _AROUND = 40, 300, 6
_MOST_WANTED, _MOST_WORDS, _MOST_HITS, _MOST_COMPARED = 200, 10, 20, 4
_LEGEND = "· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space"
_WORD = re.compile(r"\w{3,}")


def missing(lines: TextLines, old: list[str]) -> EditProblem:
    """The problem of a text that is nowhere, with the place that is nearest."""
    count = len(old) - (len(old) > 1 and not old[-1])
    first = _nearest(lines, old[:count])
    if first is None:
        return EditProblem(
            "missing",
            "The old text is not in the file, nor anything like it.",
            kind=ErrorKind.NOT_FOUND,
            suggestion="Read the file again and copy the text to change from it.",
        )
    difference = _first_difference(lines, first, old[:count])
    last = max(min(first + count, _count(lines)), first + 1)
    where = f"line {first + 1:,}" if last == first + 1 else f"lines {first + 1:,}-{last:,}"
    said = f" The first difference is on {difference[1]}." if difference else ""
    return EditProblem(
        "missing",
        f"The old text is not in the file. The nearest is on {where}.{said}\n\n"
        + excerpt(lines, first, count, around=difference[0] if difference else first),
        kind=ErrorKind.NOT_FOUND,
        suggestion="Copy the old text from these lines, with their spaces and tabs, and try again.",
        details={"line": first + 1},
    )


def excerpt(lines: TextLines, first: int, count: int, *, around: int) -> str:
    """Some lines as Read shows them, with the blanks at their edges visible."""
    last = min(first + count, max(_count(lines), first + 1))
    if last - first > _MOST_LINES:
        first = max(first, around - _AROUND)
        last = min(first + _MOST_LINES, last)
    shown = [f"{index + 1:>6}\t{_clipped(visible(lines.contents[index]))}" for index in range(first, last)]
    return "\n".join([*shown, f"({_LEGEND})"])


def visible(line: str) -> str:
    """A line whose blanks can be seen: all but single spaces between words."""
    body = line.strip(BLANKS)
    start = blanks_before(line)
    end = line[len(start) + len(body) :]
    body = re.sub(r" {2,}", lambda match: "·" * len(match[0]), body)
    shown = start.replace(" ", "·") + body + end.replace(" ", "·")
    return shown.replace("\t", "→").replace("\r", "␍").replace("\u00a0", "⍽").replace("\u202f", "⍽")


def _count(lines: TextLines) -> int:
    """The number of lines; what follows the last line ending is none."""
    return len(lines) - (not lines.contents[-1])


def _clipped(line: str) -> str:
    return line if len(line) <= _MOST_WIDTH else f"{line[:_MOST_WIDTH]}… ({len(line) - _MOST_WIDTH:,} more characters)"


def _nearest(lines: TextLines, old: Sequence[str]) -> int | None:
    """The line where a place like the old text begins: voted for by equal lines, then by rare words."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for offset, line in enumerate(old[:_MOST_WANTED]):
        if line.strip(BLANKS):
            wanted[line.strip(BLANKS)].append(offset)
    votes: defaultdict[int, int] = defaultdict(int)
    for index, line in enumerate(lines.stripped):
        if line in wanted:
            for offset in wanted[line][:_MOST_HITS]:
                votes[index - offset] += min(len(line), 60) * 4
    for offset, word in _rare_words(old):
        for index in _hits(lines, word):
            votes[index - offset] += len(word)
    best = sorted((start for start in votes if -len(old) < start), key=lambda start: (-votes[start], start))
    compared = [max(start, 0) for start in best[:_MOST_COMPARED]]
    return max(compared, key=lambda start: _likeness(lines, start, old), default=None)


def _rare_words(old: Sequence[str]) -> list[tuple[int, str]]:
    words = {
        word: offset for offset, line in reversed(list(enumerate(old[:_MOST_WANTED]))) for word in _WORD.findall(line)
    }
    return [(words[word], word) for word in sorted(words, key=len, reverse=True)[:_MOST_WORDS]]


def _hits(lines: TextLines, word: str) -> list[int]:
    """The lines a word is on; none when they are many, since then it says nothing."""
    found: list[int] = []
    at = lines.text.find(word)
    while at >= 0:
        if len(found) == _MOST_HITS:
            return []
        found.append(at)
        at = lines.text.find(word, at + len(word))
    return [lines.number_at(at) - 1 for at in found]


def _likeness(lines: TextLines, first: int, old: Sequence[str]) -> float:
    score = 0.0
    for offset, line in enumerate(old[:30]):
        if first + offset < len(lines):
            mine, theirs = line.strip()[:200], lines.contents[first + offset].strip()[:200]
            equal = 3.0 if mine == theirs and mine else 0.0
            score += equal or SequenceMatcher(None, mine, theirs, autojunk=False).ratio()
    return score


def _first_difference(lines: TextLines, first: int, old: Sequence[str]) -> tuple[int, str] | None:
    """The line, and words for it. Differences that would have been forgiven come last."""
    pairs = [
        (first + offset, line, lines.contents[first + offset] if first + offset < _count(lines) else None)
        for offset, line in enumerate(old)
    ]
    for index, mine, theirs in pairs:
        if theirs is None:
            return index, f"line {index + 1:,}: the file ends before it, you gave {_quoted(mine, 0)}"
        if mine.strip(BLANKS) != theirs.strip(BLANKS):
            mine, body = mine.strip(BLANKS), theirs.strip(BLANKS)
            at = _agreeing(mine, body)
            column = len(blanks_before(theirs)) + at
            return index, _told(index, column, _quoted(body, at), _quoted(mine, at))
    for index, mine, theirs in pairs:
        if theirs is not None and mine != theirs:
            at = _agreeing(mine, theirs)
            return index, _told(index, at, _quoted(theirs, at), _quoted(mine, at))
    return None


def _told(index: int, column: int, theirs: str, mine: str) -> str:
    return f"line {index + 1:,}, column {column + 1:,}: the file has {theirs}, you gave {mine}"


def _agreeing(one: str, other: str) -> int:
    at = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        at += 1
    return at


def _quoted(line: str, at: int) -> str:
    """The line from a little before the difference."""
    start = max(at - 12, 0)
    part = line[start : at + 40]
    if not part:
        return "an empty line"
    return f"`{'…' if start else ''}{visible(part)}{'…' if at + 40 < len(line) else ''}`"
