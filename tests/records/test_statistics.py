"""O1, O3: usage of each tool, in memory and from the audit log."""

from __future__ import annotations

import random
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.record_samples import a_record, some_records

from ferrule.records import statistics as statistics_module
from ferrule.records.statistics import OTHER, UNKNOWN, Statistics

if TYPE_CHECKING:
    pass


def test_calls_are_counted_by_tool_and_outcome() -> None:
    """O1."""
    statistics = Statistics()
    for record in some_records():
        statistics.record(record)
    unknown, bash, read = statistics.snapshot()
    assert (unknown.tool, unknown.count, unknown.failure, unknown.ran) == (UNKNOWN, 2, 2, 0)
    assert unknown.p50 is None
    assert (bash.count, bash.success, bash.failure, bash.denied, bash.ran) == (3, 0, 1, 2, 1)
    assert (read.count, read.success, read.failure, read.denied, read.ran) == (102, 100, 2, 0, 101)
    assert read.max == 9.0
    assert read.p50 == pytest.approx(0.051, rel=0.2)
    assert read.p95 == pytest.approx(0.096, rel=0.2)


def test_names_a_model_invents_take_no_room() -> None:
    statistics = Statistics()
    for number in range(1_000):
        statistics.record(a_record(tool=f"tool_{number}", version="", outcome="not_found_error", stage="lookup"))
    assert [(usage.tool, usage.count) for usage in statistics.snapshot()] == [(UNKNOWN, 1_000)]


def test_very_many_tools_share_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_module, "MAX_TOOLS", 3)
    statistics = Statistics()
    for number in range(6):
        statistics.record(a_record(tool=f"tool_{number}"))
    assert {usage.tool: usage.count for usage in statistics.snapshot()} == {
        "tool_0": 1, "tool_1": 1, "tool_2": 1, OTHER: 3,
    }  # fmt: skip


def test_threads_lose_no_count() -> None:
    """The increments have no lock; this is the test that they need none."""
    statistics = Statistics()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work() -> None:
        record = a_record(duration=1.0)
        for _ in range(5_000):
            statistics.record(record)

    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    (usage,) = statistics.snapshot()
    assert (usage.count, usage.ran) == (20_000, 20_000)
    assert statistics.durations()["Read"].sum == 20_000.0


@given(durations=st.lists(st.floats(1e-5, 100), min_size=1, max_size=200))
def test_quantiles_are_right_to_within_a_fifth(durations: list[float]) -> None:
    statistics = Statistics()
    for duration in durations:
        statistics.record(a_record(duration=duration))
    (usage,) = statistics.snapshot()
    ranked = sorted(durations)
    assert usage.max == ranked[-1]
    for share, found in ((0.5, usage.p50), (0.95, usage.p95)):
        exact = next(d for rank, d in enumerate(ranked, 1) if rank >= share * len(ranked))
        assert found == pytest.approx(exact, rel=0.2)


def test_durations_out_of_range_are_counted_too() -> None:
    statistics = Statistics()
    for duration in (0.0, -1.0, 1e9):
        statistics.record(a_record(duration=duration))
    (usage,) = statistics.snapshot()
    assert (usage.ran, usage.max, usage.p95) == (3, 1e9, 1e9)


def test_order_does_not_matter() -> None:
    records = some_records()
    first, second = Statistics(), Statistics()
    for record in records:
        first.record(record)
    random.Random(1).shuffle(records)
    for record in records:
        second.record(record)
    assert first.snapshot() == second.snapshot()


def test_what_users_took_is_apart_from_what_tools_took() -> None:
    """O1."""
    statistics = Statistics()
    for seconds in (2.0, 30.0, 40.0):
        statistics.record(a_record(tool="Write", duration=0.01, waited=seconds))
    statistics.record(a_record(tool="Write", duration=0.01, queued=5.0))
    statistics.record(a_record(tool="Read", duration=0.01))
    read, write = statistics.snapshot()
    assert (write.max, write.asked) == (0.01, 3)
    assert write.wait_p50 == pytest.approx(30.0, rel=0.2)
    assert write.wait_p95 == pytest.approx(40.0, rel=0.2)
    assert (read.asked, read.wait_p50, read.wait_p95) == (0, None, None)
    assert {tool: sum(seen.buckets) for tool, seen in statistics.waits().items()} == {"Write": 3}
    assert {tool: seen.sum for tool, seen in statistics.queues().items()} == {"Write": 5.0}
