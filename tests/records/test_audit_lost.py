"""The audit log is removed or restored under a running session: noticed, told, and recorded as a gap (O3)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.records.record_samples import a_log, a_record, tamper

from ferrule import Runtime, ToolResult, tool
from ferrule.records.audit import AuditLog, Retention
from ferrule.records.reader import AuditReader
from ferrule.records.row import seal
from ferrule.records.statistics import statistics_of
from ferrule.records.verification import Gap, verify


def record(log: AuditLog, *numbers: int) -> None:
    for number in numbers:
        log.record(a_record(number))
    log.flush()


def test_a_log_whose_folder_was_removed_is_begun_anew_with_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "data" / "audit.db"
    with AuditLog(path) as log:
        record(log, 1, 2, 3)
        shutil.rmtree(path.parent)
        record(log, 4)
        record(log, 5)
        (said,) = log.notes
    assert said.replace(str(tmp_path), "") == snapshot(
        "The audit log /data/audit.db was removed or replaced while Ferrule was running: it ended at row 3, and the one in its place at row 0. `ferrule audit verify` names the gap; calls are recorded again from here on."
    )
    assert [row.call_id or row.kind for row in AuditReader(path).rows()] == ["gap", "call_4", "call_5"]
    found = verify(path)
    assert (found.ok, found.rows) == (True, 3)
    (gap,) = found.gaps
    assert (gap.seq, gap.ended_at, gap.found) == (1, 3, 0)


def test_a_log_that_was_restored_from_a_copy_goes_on_with_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    a_log(path, 2)
    shutil.copy(path, tmp_path / "backup")
    with AuditLog(path) as log:
        record(log, 3, 4)
        for name in ("audit.db", "audit.db-wal", "audit.db-shm"):
            (tmp_path / name).unlink()
        shutil.copy(tmp_path / "backup", path)
        record(log, 5)
    found = verify(path)
    assert found.ok
    assert [(gap.seq, gap.ended_at, gap.found) for gap in found.gaps] == [(3, 4, 2)]


def test_a_copy_that_has_every_row_leaves_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with AuditLog(path) as log:
        record(log, 1, 2)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(tmp_path / "copy")) as target:
            source.backup(target)
        for name in ("audit.db", "audit.db-wal", "audit.db-shm"):
            (tmp_path / name).unlink()
        (tmp_path / "copy").rename(path)
        record(log, 3)
        assert not log.notes
    assert verify(path)[:2] == (True, 3)
    assert verify(path).gaps == ()


def test_another_log_in_its_place_is_a_gap_however_long_it_is(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    a_log(tmp_path / "other.db", 50)
    with AuditLog(path) as log:
        record(log, 1, 2)
        for name in ("audit.db", "audit.db-wal", "audit.db-shm"):
            (tmp_path / name).unlink()
        (tmp_path / "other.db").rename(path)
        record(log, 3)
    assert [(gap.seq, gap.ended_at, gap.found) for gap in verify(path).gaps] == [(51, 2, 50)]


def test_what_other_processes_write_and_what_retention_removes_is_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with AuditLog(path) as one, AuditLog(path, retention=Retention(rows=100)) as other:
        record(one, 1)
        record(other, *range(2, 400))
        record(one, 400)
        record(other, 401)
        assert not one.notes
        assert not other.notes
    found = verify(path)
    assert found.ok
    assert found.gaps == ()


def test_a_gap_is_not_tampering_and_tampering_is_not_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "data" / "audit.db"
    with AuditLog(path) as log:
        record(log, 1)
        shutil.rmtree(path.parent)
        record(log, 2)
    tamper(path, "UPDATE calls SET user = 'bob' WHERE call_id = 'call_2'")
    found = verify(path)
    assert (found.ok, found.first_bad_seq, found.why) == (False, 2, "This row was changed after it was written.")
    assert len(found.gaps) == 1


@pytest.mark.parametrize(
    "said", ["", "no json", "[]", '{"ended_at": "x", "found": 1}', '{"ended_at": true, "found": 0}']
)
def test_a_gap_made_by_hand_is_tampering(tmp_path: Path, said: str) -> None:
    path = tmp_path / "data" / "audit.db"
    with AuditLog(path) as log:
        record(log, 1)
        shutil.rmtree(path.parent)
        record(log)
        log.record(a_record(2))
    tamper(path, "DELETE FROM calls WHERE seq = 2")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        row = list(connection.execute("SELECT * FROM calls").fetchone())
        names = [one[1] for one in connection.execute("PRAGMA table_info(calls)")]
        by_name = dict(zip(names, row, strict=True)) | {"arguments": said}
        from ferrule.records.row import CONTENT

        digest = seal(1, [by_name[name] for name in CONTENT], by_name["prev_hash"])[-1]
        connection.execute("UPDATE calls SET arguments = ?, hash = ?", (said, digest))
        connection.execute("UPDATE head SET seq = 1, hash = ?", (digest,))
    found = verify(path)
    assert (found.ok, found.first_bad_seq) == (False, 1)
    assert "does not say what Ferrule writes there" in found.why


def test_statistics_do_not_count_a_gap_as_a_call(tmp_path: Path) -> None:
    path = tmp_path / "data" / "audit.db"
    with AuditLog(path) as log:
        record(log, 1)
        shutil.rmtree(path.parent)
        record(log, 2)
    assert [(one.tool, one.count) for one in statistics_of(path)] == [("Read", 1)]


def test_the_next_result_says_it_once(tmp_path: Path) -> None:
    path = tmp_path / "data" / "audit.db"

    @tool(kind="readonly")
    def look() -> str:
        return "looked"

    async def main(between: Callable[[], object]) -> list[ToolResult]:
        with AuditLog(path, acknowledge="committed") as log:
            runtime = Runtime([look], recorders=[log])
            first = await runtime.run("look")
            between()
            return [first, await runtime.run("look"), await runtime.run("look")]

    first, second, third = asyncio.run(main(lambda: shutil.rmtree(path.parent)))
    assert (first.llm_content, third.llm_content) == ("looked", "looked")
    assert second.llm_content.startswith("looked\n[The audit log ")
    assert len(second.metadata["notes"]) == 1
    assert verify(path).gaps[0][2:] == Gap(1, 0.0, 1, 0)[2:]
