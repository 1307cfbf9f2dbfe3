"""Exact edits that start or end inside a line, made of real changes: how models write insertions and small changes.

`foo()` becomes `foo()` and more lines; lines come before `foo()`; a part of a line goes; the middle of one line up to
the middle of another is replaced. The old text always stands in the file once, so each has just one result.
"""

from __future__ import annotations

import random
import re
import textwrap
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from edit_cases import texts_of
from edit_damage import Case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edit_sources import Change

INSIDE = "inside a line: "
_LONGEST = 60
_WORD = re.compile(r"\w+")


def inside_cases(changes: Iterable[Change], most: int, seed: int) -> list[tuple[str, Case]]:
    """Edits with the name of their kind, as many of each kind as were asked for."""
    chance = random.Random(f"inside {seed}")
    found: dict[str, list[Case]] = {}
    for path, before, after in texts_of(changes):
        for kind, case in _of_file(path, before, after, chance):
            if _is_inside(case):
                found.setdefault(kind, []).append(case)
    for cases in found.values():
        chance.shuffle(cases)
    return [(INSIDE + kind, case) for kind, cases in sorted(found.items()) for case in cases[:most]]


def _of_file(path: str, before: str, after: str, chance: random.Random) -> Iterator[tuple[str, Case]]:
    olds, news = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in olds:
        starts.append(starts[-1] + len(line))
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        if tag == "equal" or i2 - i1 > _LONGEST or j2 - j1 > _LONGEST:
            continue
        new = "".join(news[j1:j2])
        if tag == "insert" and new.strip() and new.endswith("\n"):
            yield from _insertions(path, before, starts[i1], new, chance)
        elif tag == "delete" and i2 < len(olds):
            yield from _deletion(path, before, starts[i1], starts[i2], chance)
        elif tag == "replace":
            yield from _replacement(path, before, (starts[i1], starts[i2]), new, chance)
    yield from _shortened(path, before, chance)


def _insertions(path: str, before: str, at: int, new: str, chance: random.Random) -> Iterator[tuple[str, Case]]:
    """New lines after the words of the line before them, and before those of the line after them."""
    above = before[before.rfind("\n", 0, max(at - 1, 0)) + 1 : max(at - 1, 0)]
    if above.strip():
        old = _tail(above, chance)
        yield "insertion after", _case(path, before, at - 1 - len(old), old, f"{old}\n{new[:-1]}")
        flat = textwrap.dedent(new[:-1])
        yield "insertion after, unindented", _case(path, before, at - 1 - len(old), old, f"{old}\n{flat}")
    below = before[at:].partition("\n")[0]
    margin = below[: len(below) - len(below.lstrip(" \t"))]
    if below.strip() and new.startswith(margin):
        old = _head(below[len(margin) :], chance)
        yield "insertion before", _case(path, before, at + len(margin), old, new[len(margin) :] + margin + old)


def _deletion(path: str, before: str, start: int, end: int, chance: random.Random) -> Iterator[tuple[str, Case]]:
    """Lines that go, from behind the margin of the first of them to behind that of the line that follows."""
    gone, below = before[start:end], before[end:].partition("\n")[0]
    margin = below[: len(below) - len(below.lstrip(" \t"))]
    if margin and gone.startswith(margin) and below.strip():
        kept = _head(below[len(margin) :], chance)
        old = gone[len(margin) :] + margin + kept
        yield "deletion of lines", _case(path, before, start + len(margin), old, kept)
    if margin and gone.strip():
        words = gone.lstrip(" \t")
        yield "deletion behind a margin", _case(path, before, end - len(words), words, "")


def _replacement(
    path: str, before: str, span: tuple[int, int], new: str, chance: random.Random
) -> Iterator[tuple[str, Case]]:
    """Just the characters that differ, with a few around them."""
    start, end = span
    old = before[start:end]
    head = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - head
    pairs = zip(reversed(old), reversed(new), strict=False)
    tail = next((at for at, (a, b) in enumerate(pairs) if a != b), most)
    tail = min(tail, most)
    head, tail = max(head - chance.randint(0, 12), 0), max(tail - chance.randint(0, 12), 0)
    kind = "replacement across lines" if "\n" in old[head : len(old) - tail] else "replacement"
    for _ in range(6):
        case = _case(path, before, start + head, old[head : len(old) - tail], new[head : len(new) - tail])
        if case.old and before.find(case.old) == before.rfind(case.old):
            yield kind, case
            return
        head, tail = max(head - 15, 0), max(tail - 15, 0)


def _shortened(path: str, before: str, chance: random.Random) -> Iterator[tuple[str, Case]]:
    """A word or two of some line that go."""
    for _ in range(3):
        at = chance.randrange(len(before) + 1)
        start = before.rfind("\n", 0, at) + 1
        line = before[start:].partition("\n")[0]
        words = list(_WORD.finditer(line))
        if len(words) > 2:
            first, last = sorted(chance.sample(range(len(words)), 2))
            begin, end = words[first].start(), words[last].end()
            kept = words[last].group()
            yield "deletion in a line", _case(path, before, start + begin, line[begin:end], kept)
            yield "deletion in a line", _case(path, before, start + begin, line[begin:end], "")


def _case(path: str, before: str, at: int, old: str, new: str) -> Case:
    line = before.count("\n", 0, at) + 1
    return Case(f"{path}:{line}", before, before[:at] + new + before[at + len(old) :], old, new, line)


def _is_inside(case: Case) -> bool:
    """Whether the old text is an exact edit that is not one of whole lines."""
    before, old = case.before, case.old
    at = before.find(old)
    if not old or old == case.new or at < 0 or before.find(old, at + 1) >= 0:
        return False
    end = at + len(old)
    starts_line, ends_line = before[:at][-1:] in ("", "\n"), old.endswith("\n") or before[end : end + 1] in ("", "\n")
    return not (starts_line and ends_line)


def _tail(line: str, chance: random.Random) -> str:
    """The line from some word on, or from its first."""
    starts = [match.start() for match in _WORD.finditer(line)]
    return line[chance.choice([len(line) - len(line.lstrip(" \t")), *starts]) :]


def _head(line: str, chance: random.Random) -> str:
    """The line up to the end of some word, or to its own."""
    return line[: chance.choice([len(line), *(match.end() for match in _WORD.finditer(line))])]
