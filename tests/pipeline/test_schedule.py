"""P5: a call waits for the earlier calls it collides with, and for no other."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.access import Touch, Touches, reads, writes
from tests.collisions import collide, schedule

resources = st.sampled_from(
    ["*", "host:a", "host:b", "shell:main", "path:/", "path:/a", "path:/a/", "path:/a/b", "path:/a/b/c", "path:/ab",
     "path:/d", "path:rel", "path:rel/x", "path:/a/b.c"]
)  # fmt: skip
touches = st.lists(st.builds(Touch, resources, st.booleans()), max_size=3).map(tuple)


def closed(waits: list[set[int]]) -> list[set[int]]:
    """Everything each call waits for, directly or through others."""
    whole: list[set[int]] = []
    for waiting in waits:
        whole.append(waiting.union(*(whole[other] for other in waiting)))
    return whole


@settings(max_examples=400)
@given(st.lists(touches, max_size=12))
def test_the_schedule_is_exactly_what_colliding_demands(calls: list[Touches]) -> None:
    """Nothing that must wait runs early, and nothing waits that did not have to."""
    demanded = [
        {earlier for earlier in range(later) if collide(calls[earlier], calls[later])} for later in range(len(calls))
    ]
    assert closed(schedule(calls)) == closed(demanded)


@settings(max_examples=100)
@given(st.lists(touches, max_size=12))
def test_no_call_waits_for_itself_or_a_later_one(calls: list[Touches]) -> None:
    assert all(other < call for call, waiting in enumerate(schedule(calls)) for other in waiting)


def test_readers_run_together_and_a_writer_waits_for_all_of_them() -> None:
    read, write = (reads("path", "/a"),), (writes("path", "/a"),)
    assert schedule([read, read, write, read]) == [set(), set(), {0, 1}, {2}]


def test_a_folder_is_touched_with_what_lies_in_it_and_not_with_its_neighbours() -> None:
    calls = [(writes("path", "/a"),), (reads("path", "/a/b/c"),), (reads("path", "/ab"),)]
    assert schedule(calls) == [set(), {0}, set()]


def test_a_folder_is_the_same_with_its_closing_slash() -> None:
    assert schedule([(writes("path", "/a/"),), (reads("path", "/a/b"),)]) == [set(), {0}]
    assert schedule([(writes("path", "/a/b"),), (reads("path", "/a/"),)]) == [set(), {0}]
    assert schedule([(writes("path", "/"),), (reads("path", "/a"),)]) == [set(), {0}]


def test_what_touches_nothing_never_waits() -> None:
    assert schedule([(Touch("*", write=True),), (), (Touch("*"),)]) == [set(), set(), {0}]


@pytest.mark.parametrize("write", [True, False])
def test_a_thousand_calls_are_planned_in_no_time(write: bool) -> None:
    calls: list[Touches] = [(Touch(f"path:/repo/src/dir{n % 50}/file{n}", write),) for n in range(1000)]
    calls.append((reads("path", "/repo"),))
    began = time.process_time()
    waits = schedule(calls)
    assert time.process_time() - began < 1
    assert len(waits[-1]) == (1000 if write else 0)
