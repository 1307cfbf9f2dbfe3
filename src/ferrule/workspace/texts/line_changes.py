"""Which lines changed between two texts, in time that grows with their length and not with its square.

Lines that occur once on either side tie the texts together (patience diff); the small stretches between are compared
by `difflib`; a stretch that is both large and full of repetition counts as replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_LINES = 400_000
_SMALL = 20_000
_BUDGET = 3_000_000
_STRIDE, _NEAR = 64, 24


@dataclass(slots=True, frozen=True)
class Change:
    """Lines `old` up to `old_end` before became lines `new` up to `new_end` after; counted from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


def line_changes(before: Sequence[str], after: Sequence[str]) -> list[Change]:
    """The changes, in order, with at least one common line between any two."""
    found = sorted(_changes(before, after), key=lambda change: (change.old, change.new))
    joined: list[Change] = []
    for change in found:
        last = joined[-1] if joined else None
        if last and (last.old_end, last.new_end) == (change.old, change.new):
            joined[-1] = Change(last.old, change.old_end, last.new, change.new_end)
        else:
            joined.append(change)
    return joined


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    budget = _BUDGET
    waiting = [Change(0, len(before), 0, len(after))]
    while waiting:
        part = _trimmed(before, after, waiting.pop())
        old, new = part.old_end - part.old, part.new_end - part.new
        if not old and not new:
            continue
        if not old or not new or old + new > _MOST_LINES:
            yield part
        elif near := _common_again(before, after, part):
            waiting.append(Change(part.old, near[0], part.new, near[1]))
            waiting.append(Change(near[0], part.old_end, near[1], part.new_end))
        elif ties := _ties(before, after, part):
            at_old, at_new = part.old, part.new
            for tied_old, tied_new in ties:
                if (at_old, at_new) != (tied_old, tied_new):
                    waiting.append(Change(at_old, tied_old, at_new, tied_new))
                at_old, at_new = tied_old + 1, tied_new + 1
            waiting.append(Change(at_old, part.old_end, at_new, part.new_end))
        elif old * new <= min(_SMALL, budget):
            budget -= old * new
            yield from _small(before, after, part)
        else:
            yield part


def _trimmed(before: Sequence[str], after: Sequence[str], part: Change) -> Change:
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
    return Change(old, old_end, new, new_end)


def _common_again(before: Sequence[str], after: Sequence[str], part: Change) -> tuple[int, int] | None:
    """Where, a few lines on, many lines are the same again: a small edit in a large file ends there."""
    for apart in range(1, min(_NEAR, part.old_end - part.old - _STRIDE, part.new_end - part.new - _STRIDE)):
        for old in range(part.old, part.old + apart + 1):
            new = part.new + apart - (old - part.old)
            if before[old] == after[new] and before[old : old + _STRIDE] == after[new : new + _STRIDE]:
                return old, new
    return None


def _ties(before: Sequence[str], after: Sequence[str], part: Change) -> list[tuple[int, int]]:
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


def _small(before: Sequence[str], after: Sequence[str], part: Change) -> Iterator[Change]:
    matcher = SequenceMatcher(None, before[part.old : part.old_end], after[part.new : part.new_end], autojunk=False)
    for tag, old, old_end, new, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield Change(part.old + old, part.old + old_end, part.new + new, part.new + new_end)
