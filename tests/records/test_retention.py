"""O3: old rows go, and what stays can still be verified."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot
from tests.records.record_samples import a_log, a_record, tamper

from ferrule.records import writer as retention_module
from ferrule.records.audit import AuditLog, Retention
from ferrule.records.database import open_for_writing
from ferrule.records.reader import AuditReader
from ferrule.records.verification import read_head, verify
from ferrule.records.writer import remove_old_rows

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def apply(path: Path, retention: Retention) -> int:
    connection = open_for_writing(path, patience=1)
    try:
        return remove_old_rows(connection, retention)
    finally:
        connection.close()


def calls(path: Path) -> list[str]:
    return [row.call_id for row in AuditReader(path).rows() if row.kind != "retention"]


def test_the_newest_rows_stay(path: Path) -> None:
    a_log(path, 20)
    assert apply(path, Retention(rows=5)) == 15
    assert calls(path) == [f"call_{number}" for number in range(16, 21)]
    assert verify(path).ok


def test_young_rows_stay(path: Path) -> None:
    now = time.time()
    with AuditLog(path) as log:
        for age in (40, 35, 31, 29, 45, 1):
            log.record(a_record(age, started=now - age * DAY))
    apply(path, Retention(days=30))
    # A call that began long ago may end late, behind younger ones; the chain is only ever cut at its start.
    assert calls(path) == ["call_29", "call_45", "call_1"]
    assert verify(path).ok


def test_everything_may_go(path: Path) -> None:
    with AuditLog(path) as log:
        log.record(a_record(started=0.0))
    apply(path, Retention(days=1))
    assert calls(path) == []
    assert verify(path).ok
    a_log(path, 2)
    assert verify(path).rows == 3


def test_the_removal_itself_is_on_record(path: Path) -> None:
    a_log(path, 3)
    apply(path, Retention(rows=1))
    note = AuditReader(path).list(limit=1)[0]
    assert (note.kind, note.tool, note.seq) == ("retention", "(retention)", 4)
    assert '"removed_to": 2' in note.arguments


def test_nothing_to_remove_leaves_no_note(path: Path) -> None:
    a_log(path, 5)
    for _ in range(3):
        apply(path, Retention(days=30, rows=5))
    assert verify(path).rows == 5
    for _ in range(3):
        apply(path, Retention(rows=2))
    assert verify(path).ok
    assert apply(path, Retention(rows=2)) == 0, "its own notes do not keep it busy"


def test_removing_again_and_again_keeps_the_chain(path: Path) -> None:
    for _ in range(5):
        a_log(path, 7)
        apply(path, Retention(rows=4))
        assert verify(path).ok
    assert read_head(path).seq > 35


def test_many_rows_go_in_several_passes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_module, "_ROWS_A_PASS", 10)
    a_log(path, 55)
    apply(path, Retention(rows=5))
    assert len(calls(path)) <= 5
    assert verify(path).ok


def test_the_log_applies_it_while_it_is_written(path: Path) -> None:
    with AuditLog(path, retention=Retention(rows=50)) as log:
        for number in range(400):
            log.record(a_record(number))
            if number % 100 == 99:
                log.flush()
    assert len(calls(path)) <= 200
    assert verify(path).ok


def test_a_noted_head_that_retention_removed_proves_nothing(path: Path) -> None:
    a_log(path, 3)
    noted = read_head(path)
    a_log(path, 10)
    apply(path, Retention(rows=2))
    found = verify(path, expected_head=noted)
    assert not found.ok
    assert found.why == snapshot(
        "Row 3, which was noted, is older than what retention kept (from row 12). Note a newer head."
    )


def test_tampering_after_retention_shows(path: Path) -> None:
    a_log(path, 10)
    apply(path, Retention(rows=5))
    tamper(
        path,
        "UPDATE checkpoint SET seq = 7, hash = (SELECT hash FROM calls WHERE seq = 7)",
        "DELETE FROM calls WHERE seq <= 7",
    )
    found = verify(path)
    assert (found.ok, found.first_bad_seq) == (False, 8)


@pytest.mark.parametrize("bad", [{"days": 0}, {"days": -1}, {"rows": 0}])
def test_a_retention_that_keeps_nothing_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Retention"):
        Retention(**bad)
