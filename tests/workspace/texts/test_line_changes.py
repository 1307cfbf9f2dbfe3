"""Which lines changed, exactly and in bounded time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.workspace.texts.diff import LineChange, line_changes

LINES = st.lists(st.sampled_from("abcdefg"), max_size=25)


@settings(deadline=None)
@given(LINES, LINES)
def test_the_changes_lead_from_one_text_to_the_other(before: list[str], after: list[str]):
    rebuilt: list[str] = []
    at = 0
    for change in line_changes(before, after):
        assert before[at : change.old] == after[len(rebuilt) : change.new]
        rebuilt += before[at : change.old] + after[change.new : change.new_end]
        assert (change.old, change.new) != (change.old_end, change.new_end)
        at = change.old_end
    assert rebuilt + before[at:] == after


@settings(deadline=None)
@given(LINES, LINES)
def test_there_is_a_common_line_between_any_two_changes(before: list[str], after: list[str]):
    changes = line_changes(before, after)
    assert all(one.old_end < two.old for one, two in pairwise(changes))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 299), st.integers(0, 9), st.integers(0, 9)), max_size=4), st.booleans())
def test_small_edits_in_a_large_text(edits: list[tuple[int, int, int]], repetitive: bool):
    before = [str(number % 5 if repetitive else number) for number in range(300)]
    after = list(before)
    for place, removed, added in edits:
        after[place : place + removed] = ["new"] * added
    changes = line_changes(before, after)
    rebuilt: list[str] = []
    at = 0
    for change in changes:
        rebuilt += before[at : change.old] + after[change.new : change.new_end]
        at = change.old_end
    assert rebuilt + before[at:] == after
    assert repetitive or sum(one.new_end - one.new for one in changes) <= sum(added for _, _, added in edits)


def test_a_moved_block_is_taken_out_and_put_in():
    assert line_changes(list("abcdefx"), list("xabcdef")) == [LineChange(0, 0, 0, 1), LineChange(6, 7, 7, 7)]


def scattered(lines: int) -> tuple[list[str], list[str]]:
    before = [f"line {number}\n" for number in range(lines)]
    return before, [line if number % 7 else f"{line} changed" for number, line in enumerate(before)]


def repetitive(lines: int) -> tuple[list[str], list[str]]:
    dice = random.Random(3)
    return dice.choices(["{\n", "}\n", "\n", "x\n"], k=lines), dice.choices(["{\n", "}\n", "\n", "x\n"], k=lines)


def rewritten(lines: int) -> tuple[list[str], list[str]]:
    return [f"old {number}\n" for number in range(lines)], [f"new {number}\n" for number in range(lines)]


def reversed_order(lines: int) -> tuple[list[str], list[str]]:
    before = [f"line {number}\n" for number in range(lines)]
    return before, before[::-1]


@pytest.mark.parametrize("kind", [scattered, repetitive, rewritten, reversed_order])
def test_no_kind_of_change_takes_long(kind: Callable[[int], tuple[list[str], list[str]]]):
    before, after = kind(60_000)
    started = time.process_time()
    changes = line_changes(before, after)
    assert time.process_time() - started < 5
    assert changes
