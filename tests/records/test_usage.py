"""O3, O4: usage of each tool, counted from the audit log."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from math import ceil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.records.record_samples import a_log, a_record, a_refusal, some_records

from ferrule.core.context import Caller
from ferrule.records.audit import AuditError, AuditLog, Retention
from ferrule.records.database import open_for_writing
from ferrule.records.row import INSERT, content_of, seal
from ferrule.records.statistics import Statistics, ToolUsage, statistics_of


def test_the_audit_log_gives_the_same_counts(tmp_path: Path) -> None:
    """O3."""
    statistics = Statistics()
    with AuditLog(tmp_path / "audit.db") as log:
        for record in some_records():
            log.record(record)
            statistics.record(record)
    kept = statistics_of(tmp_path / "audit.db")
    assert [counts(usage) for usage in kept] == [counts(usage) for usage in statistics.snapshot()]
    assert (kept[2].p50, kept[2].p95, kept[2].max) == (0.051, 0.096, 9.0), "exact, by nearest rank"
    assert kept[0].p50 is None


def counts(usage: ToolUsage) -> tuple[object, ...]:
    return (usage.tool, usage.count, usage.success, usage.failure, usage.denied, usage.ran)


def test_usage_of_a_time_and_of_a_tenant(tmp_path: Path) -> None:
    """O4."""
    path = tmp_path / "audit.db"
    with AuditLog(path, retention=Retention(rows=3)) as log:
        log.record(a_record(0, started=50.0))
        log.record(a_record(1, started=100.0))
        log.record(a_record(2, started=200.0, caller=Caller("umbrella")))
        log.record(a_record(3, started=300.0, caller=Caller()))
    assert [usage.count for usage in statistics_of(path)] == [3], "rows of retention are not calls"
    assert [usage.count for usage in statistics_of(path, since=200.0)] == [2]
    assert [usage.count for usage in statistics_of(path, since=100.0, until=300.0)] == [2]
    assert [usage.count for usage in statistics_of(path, tenant="umbrella")] == [1]
    assert [usage.count for usage in statistics_of(path, tenant=None)] == [1]
    assert statistics_of(path, tenant="nobody") == []


CALLS = st.lists(st.tuples(st.sampled_from(["Read", "Bash"]), st.floats(0, 100)), max_size=60)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_quantiles_are_exact_by_nearest_rank(tmp_path: Path, calls: list[tuple[str, float]]) -> None:
    path = tmp_path / "audit.db"
    path.unlink(missing_ok=True)
    durations: dict[str, list[float]] = defaultdict(list)
    with closing(open_for_writing(path, patience=1)) as connection:
        connection.execute("BEGIN")
        for seq, (tool, duration) in enumerate(calls, 1):
            connection.execute(INSERT, seal(seq, content_of(a_record(tool=tool, duration=duration)), ""))
            durations[tool].append(duration)
        connection.execute("COMMIT")
    usages = statistics_of(path)
    assert [usage.tool for usage in usages] == sorted(durations)
    for usage in usages:
        ranked = sorted(durations[usage.tool])
        nearest = [ranked[ceil(share * len(ranked)) - 1] for share in (0.5, 0.95, 1)]
        assert [usage.p50, usage.p95, usage.max] == nearest


def test_a_call_that_was_refused_says_nothing_of_how_long_the_tool_takes(tmp_path: Path) -> None:
    """O3: a person who thinks for a minute does not make a tool slow."""
    path = tmp_path / "audit.db"
    with AuditLog(path) as log:
        log.record(a_refusal(1, stage="confirm", duration=60.0))
        log.record(a_record(2, tool="Bash", duration=0.5))
    (usage,) = statistics_of(path)
    assert (usage.count, usage.denied, usage.ran, usage.max) == (2, 1, 1, 0.5)


def test_every_process_that_wrote_to_the_log_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with AuditLog(path) as one, AuditLog(path) as other:
        one.record(a_record(1))
        other.record(a_record(2))
    assert [usage.count for usage in statistics_of(path)] == [2]


@pytest.mark.parametrize("tenant", ["' OR 1=1 --", "acme' --", "%", ""])
def test_a_tenants_name_is_a_value_and_never_a_query(tmp_path: Path, tenant: str) -> None:
    """O4: nobody sees another's figures by calling himself something clever."""
    assert statistics_of(a_log(tmp_path / "audit.db", 2), tenant=tenant) == []


def test_counting_changes_nothing(tmp_path: Path) -> None:
    path = a_log(tmp_path / "audit.db", 2)
    before = path.read_bytes()
    statistics_of(path)
    assert path.read_bytes() == before


def test_where_there_is_no_log_there_are_no_figures(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="There is no audit log"):
        statistics_of(tmp_path / "audit.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE calls (tool)")
    with pytest.raises(AuditError, match="database of another program"):
        statistics_of(tmp_path / "other.db")


def test_what_users_took_is_counted_from_the_log_too(tmp_path: Path) -> None:
    """O1, O3."""
    with AuditLog(tmp_path / "audit.db") as log:
        for number, waited in enumerate((0.0, 2.0, 30.0, 40.0)):
            log.record(a_record(number, tool="Write", duration=0.01, waited=waited))
        log.record(a_refusal(5, tool="Write", stage="confirm", answer="no", waited=90.0))
        log.record(a_record(6))
    read, write = statistics_of(tmp_path / "audit.db")
    assert (write.max, write.asked, write.wait_p50, write.wait_p95) == (0.01, 4, 30.0, 90.0)
    assert (read.asked, read.wait_p50, read.wait_p95) == (0, None, None)
