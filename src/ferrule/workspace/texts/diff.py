r"""What changed in a file, as a unified diff that hides nothing: endings, final newline and encoding are shown.

It is for reading. Where both sides end every line the same way, the endings are left out; else `\r\n` is shown as `␍␊`
and a lone `\r` as `␍`.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, Any, AnyStr

from ferrule.core.shown_text import cut_counted, one_line, quoted
from ferrule.workspace.texts.text import lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ferrule.workspace.texts.text import Text


# The stretch where two texts differ, as whole lines: an edit of a large file touches little of it.


@dataclass(slots=True, frozen=True)
class Differing:
    """Lines of both texts, all that differ among them; before them are `skipped` lines that are the same."""

    old: list[str]
    new: list[str]
    skipped: int = 0


def differing(before: AnyStr, after: AnyStr, around: int) -> Differing:
    """The lines that differ, with `around` lines that are the same on either side, where there are so many. Bytes are
    those of UTF-8.
    """
    old, new, most = len(before), len(after), min(len(before), len(after))
    same = _longest(most, lambda low, high: before[low:high] == after[low:high])
    ends: Any = ("\n", "\r", "\r\n") if isinstance(before, str) else (b"\n", b"\r", b"\r\n")
    start = _line_start(before, same, around, ends[0])
    same = _longest(most - same, lambda low, high: before[old - high : old - low] == after[new - high : new - low])
    end = _line_end(before, old - same, around, ends[0])
    feeds, returns, both = (before.count(one, 0, start) for one in ends)
    return Differing(_lines(before[start:end]), _lines(after[start : end - old + new]), feeds + returns - both)


def _lines(text: str | bytes) -> list[str]:
    return lines_of(text if isinstance(text, str) else text.decode())


def line_count(text: str) -> int:
    """How many lines a text has; what follows the last ending is one too."""
    endings = text.count("\n")
    if "\r" in text:
        endings += text.count("\r") - text.count("\r\n")
    return endings + (bool(text) and not text.endswith(("\n", "\r")))


def _longest(most: int, same: Callable[[int, int], bool]) -> int:
    """The length, up to `most`, to which two texts are the same, by what says so of one stretch."""
    low = 0
    while low + _AT_A_TIME < most and same(low, low + _AT_A_TIME):
        low += _AT_A_TIME
    high = min(most, low + _AT_A_TIME)
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _line_start(text: AnyStr, position: int, lines: int, feed: AnyStr) -> int:
    """Where the line begins that lies so many lines before the one a character is on."""
    for _ in range(lines + 1):
        if position <= 0:
            return 0
        position = text.rfind(feed, 0, position)
    return position + 1


def _line_end(text: AnyStr, position: int, lines: int, feed: AnyStr) -> int:
    """Where the line ends that lies so many lines after the one a character is on."""
    for _ in range(lines + 1):
        found = text.find(feed, position)
        if found < 0:
            return len(text)
        position = found + 1
    return position


_AT_A_TIME = 1 << 20


# Which lines changed between two texts, in time that grows with their length and not with its square.


_MOST_LINES = 400_000
_SMALL = 20_000
_BUDGET = 3_000_000
_STRIDE, _NEAR = 64, 24


@dataclass(slots=True, frozen=True)
class LineChange:
    """Lines `old` up to `old_end` before became lines `new` up to `new_end` after; counted from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


def line_changes(before: Sequence[str], after: Sequence[str]) -> list[LineChange]:
    """The changes, in order, with at least one common line between any two."""
    found = sorted(_changes(before, after), key=lambda change: (change.old, change.new))
    joined: list[LineChange] = []
    for change in found:
        last = joined[-1] if joined else None
        if last and (last.old_end, last.new_end) == (change.old, change.new):
            joined[-1] = LineChange(last.old, change.old_end, last.new, change.new_end)
        else:
            joined.append(change)
    return joined


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[LineChange]:
    budget = _BUDGET
    waiting = [LineChange(0, len(before), 0, len(after))]
    while waiting:
        part = _trimmed(before, after, waiting.pop())
        old, new = part.old_end - part.old, part.new_end - part.new
        if not old and not new:
            continue
        if not old or not new or old + new > _MOST_LINES:
            yield part
        elif near := _common_again(before, after, part):
            waiting.append(LineChange(part.old, near[0], part.new, near[1]))
            waiting.append(LineChange(near[0], part.old_end, near[1], part.new_end))
        elif ties := _ties(before, after, part):
            at_old, at_new = part.old, part.new
            for tied_old, tied_new in ties:
                if (at_old, at_new) != (tied_old, tied_new):
                    waiting.append(LineChange(at_old, tied_old, at_new, tied_new))
                at_old, at_new = tied_old + 1, tied_new + 1
            waiting.append(LineChange(at_old, part.old_end, at_new, part.new_end))
        elif old * new <= min(_SMALL, budget):
            budget -= old * new
            mine, theirs = before[part.old : part.old_end], after[part.new : part.new_end]
            for tag, *at in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
                if tag != "equal":
                    yield LineChange(part.old + at[0], part.old + at[1], part.new + at[2], part.new + at[3])
        else:
            yield part


def _trimmed(before: Sequence[str], after: Sequence[str], part: LineChange) -> LineChange:
    """Without the lines that are the same at both ends."""
    old, old_end, new, new_end = part.old, part.old_end, part.new, part.new_end
    # Many at a time first: in a large file nearly all of them are the same.
    while min(old_end - old, new_end - new) >= _STRIDE and before[old : old + _STRIDE] == after[new : new + _STRIDE]:
        old, new = old + _STRIDE, new + _STRIDE
    while (
        min(old_end - old, new_end - new) >= _STRIDE
        and before[old_end - _STRIDE : old_end] == after[new_end - _STRIDE : new_end]
    ):
        old_end, new_end = old_end - _STRIDE, new_end - _STRIDE
    while old < old_end and new < new_end and before[old] == after[new]:
        old, new = old + 1, new + 1
    while old < old_end and new < new_end and before[old_end - 1] == after[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    return LineChange(old, old_end, new, new_end)


def _common_again(before: Sequence[str], after: Sequence[str], part: LineChange) -> tuple[int, int] | None:
    """Where, a few lines on, many lines are the same again: a small edit in a large file ends there."""
    for apart in range(1, min(_NEAR, part.old_end - part.old - _STRIDE, part.new_end - part.new - _STRIDE)):
        for old in range(part.old, part.old + apart + 1):
            new = part.new + apart - (old - part.old)
            if before[old] == after[new] and before[old : old + _STRIDE] == after[new : new + _STRIDE]:
                return old, new
    return None


def _ties(before: Sequence[str], after: Sequence[str], part: LineChange) -> list[tuple[int, int]]:
    """The longest row of lines that occur once on either side, in the same order."""
    once_before = _once(before, part.old, part.old_end)
    once_after = _once(after, part.new, part.new_end)
    pairs = [(place, once_after[line]) for line, place in once_before.items() if line in once_after]
    # The longest increasing run of the places after; `ends[n]` is the pair that ends the best run of n + 1 pairs.
    lowest: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(lowest, place)
        previous.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [place]
        ends[length : length + 1] = [number]
    run: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        run.append(pairs[number])
        number = previous[number]
    return run[::-1]


def _once(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """The lines that occur once, in order, and where."""
    places: dict[str, int] = {}
    for place in range(start, end):
        places[lines[place]] = -1 if lines[place] in places else place
    return {line: place for line, place in places.items() if place >= 0}


_MOST_SHOWN_LINES = 400
_LONGEST_LINE = 500
_NO_NEWLINE = "\\ No newline at end of file"
_ENDINGS = {"\n": "LF", "\r\n": "CRLF", "\r": "CR", "mixed": "mixed"}


@dataclass(slots=True, frozen=True)
class FileDiff:
    """A unified diff, and how many lines were added and removed."""

    text: str = ""
    added: int = 0
    removed: int = 0


def diff_file(
    before: Text | None, after: Text | None, name: str, context: int = 3, most_lines: int = _MOST_SHOWN_LINES
) -> FileDiff:
    """The diff of a file that was made (`before` is None), changed or removed (`after` is None); empty if it is the
    same. At most `most_lines` lines of hunks are shown, and the last line says how many were left out.
    """
    if before == after:
        return FileDiff()
    was, now = before.source if before else "", after.source if after else ""
    if isinstance(was, bytes) and isinstance(now, bytes):
        part = differing(was, now, context)
    else:
        part = differing(before.text if before else "", after.text if after else "", context)
    changes = line_changes(part.old, part.new)
    shown = name if one_line(name) == name else quoted(name)
    head = [
        *_attributes(before, after),
        f"--- a/{shown}" if before else "--- /dev/null",
        f"+++ b/{shown}" if after else "+++ /dev/null",
    ]
    body: list[str] = []
    left_out = 0
    used = {text.newline for text in (before, after) if text and text.newline}
    marked = len(used) > 1 or "mixed" in used
    for hunk in _hunks(changes, context):
        for line in _hunk_lines(hunk, part, marked=marked, context=context):
            if len(body) < most_lines:
                body.append(line)
            else:
                left_out += 1
    if left_out:
        body.append(f"… {left_out:,} more lines of the diff are not shown")
    return FileDiff(
        "\n".join((*head, *body)) + "\n",
        added=sum(one.new_end - one.new for one in changes),
        removed=sum(one.old_end - one.old for one in changes),
    )


def _attributes(before: Text | None, after: Text | None) -> Iterator[str]:
    """What changed about the whole file."""
    if before is None or after is None:
        return
    was, now = _encoding(before), _encoding(after)
    if was != now:
        yield f"encoding: {was} -> {now}"
    if before.newline and after.newline and before.newline != after.newline:
        yield f"line endings: {_ENDINGS[before.newline]} -> {_ENDINGS[after.newline]}"


def _encoding(text: Text) -> str:
    return f"{text.encoding} with byte order mark" if text.bom else text.encoding


def _hunks(changes: Sequence[LineChange], context: int) -> Iterator[list[LineChange]]:
    """Changes that are so near that their context would touch belong together."""
    hunk: list[LineChange] = list(changes[:1])
    for last, change in pairwise(changes):
        if change.old - last.old_end > 2 * context:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _hunk_lines(hunk: Sequence[LineChange], part: Differing, *, marked: bool, context: int) -> Iterator[str]:
    old, new, skipped = part.old, part.new, part.skipped
    first, last = hunk[0], hunk[-1]
    leading = min(context, first.old)
    trailing = min(context, len(old) - last.old_end)
    yield (
        f"@@ -{_span(skipped + first.old - leading, skipped + last.old_end + trailing)}"
        f" +{_span(skipped + first.new - leading, skipped + last.new_end + trailing)} @@"
    )
    at = first.old - leading
    for change in hunk:
        yield from _show(" ", old[at : change.old], marked=marked)
        yield from _show("-", old[change.old : change.old_end], marked=marked)
        yield from _show("+", new[change.new : change.new_end], marked=marked)
        at = change.old_end
    yield from _show(" ", old[at : at + trailing], marked=marked)


def _span(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _show(sign: str, lines: Sequence[str], *, marked: bool) -> Iterator[str]:
    for line in lines:
        content = line.rstrip("\r\n")
        ending = line[len(content) :]
        content = cut_counted(content, _LONGEST_LINE)
        mark = {"\r\n": "␍␊", "\r": "␍"}.get(ending, "") if marked else ""
        yield f"{sign}{content}{mark}"
        if not ending:
            yield _NO_NEWLINE
