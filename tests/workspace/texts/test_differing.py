"""The stretch where two texts differ."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.workspace.texts.diff import Differing, LineChange, differing, line_changes, line_count
from ferrule.workspace.texts.text import lines_of

PIECES = st.lists(st.sampled_from(["a", "b", "ab", "é", "\n", "\r\n", "\r", "\n\n"]), max_size=40).map("".join)


def test_an_edit_of_a_large_text_takes_its_own_lines_and_those_around() -> None:
    before = "".join(f"{number}\n" for number in range(100_000))
    after = before.replace("\n50000\n", "\nfifty\nthousand\n")
    assert differing(before, after, 1) == Differing(
        ["49999\n", "50000\n", "50001\n"], ["49999\n", "fifty\n", "thousand\n", "50001\n"], 49_999
    )


def test_texts_that_are_the_same_or_empty() -> None:
    assert differing("", "", 3) == Differing([], [])
    assert differing("a\nb\n", "a\nb\n", 0) == Differing([], [], 2)
    assert differing("", "a\n", 3) == Differing([], ["a\n"])


@settings(max_examples=500)
@given(PIECES, PIECES, PIECES, PIECES, st.integers(0, 3))
def test_the_changes_are_those_of_the_whole(start: str, old: str, new: str, end: str, around: int) -> None:
    before, after = start + old + end, start + new + end
    whole_before, whole_after = lines_of(before), lines_of(after)
    found = differing(before, after, around)
    at = found.skipped
    assert whole_before[:at] == whole_after[:at]
    assert whole_before[at : at + len(found.old)] == found.old
    assert whole_after[at : at + len(found.new)] == found.new
    assert whole_before[at + len(found.old) :] == whole_after[at + len(found.new) :]
    changes = [
        LineChange(one.old + at, one.old_end + at, one.new + at, one.new_end + at)
        for one in line_changes(found.old, found.new)
    ]
    assert changes == line_changes(whole_before, whole_after)
    for change in changes:
        assert change.old - at >= min(around, change.old)
        assert at + len(found.old) - change.old_end >= min(around, len(whole_before) - change.old_end)


@given(PIECES)
def test_lines_are_counted_as_they_are_split(text: str) -> None:
    assert line_count(text) == len(lines_of(text))


@given(PIECES, PIECES, PIECES, PIECES, st.integers(0, 3))
def test_bytes_differ_where_their_text_does(start: str, old: str, new: str, end: str, around: int) -> None:
    before, after = start + old + end, start + new + end
    assert differing(before.encode(), after.encode(), around) == differing(before, after, around)
