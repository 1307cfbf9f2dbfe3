"""O3: the thread that writes the audit log, in good times and in bad."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.records.record_samples import a_log, a_record, another_program_holds, tamper

from ferrule.records import writer as writer_module
from ferrule.records.audit import AuditError, AuditLog
from ferrule.records.reader import AuditReader
from ferrule.records.verification import verify
from ferrule.records.writer import KEEP_ALL, Marker, Retention, Stop, Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def a_writer(path: Path, **options: Any) -> Writer:
    """Made, but not started: what is put in its queue now is there when it begins."""
    settings: dict[str, Any] = {"retention": KEEP_ALL, "patience": 5.0, "linger": 0.0, "room": 10_000, **options}
    return Writer(path, **settings)


def run(writer: Writer) -> Stop:
    stop = Stop()
    writer.queue.put(stop)
    writer.thread.start()
    writer.thread.join(20)
    assert not writer.thread.is_alive()
    return stop


def test_rows_keep_the_order_in_which_they_were_recorded(path: Path) -> None:
    a_log(path, 2_500)
    assert [row.call_id for row in AuditReader(path).rows()] == [f"call_{n}" for n in range(1, 2_501)]


def test_a_waiter_that_is_cancelled_harms_nobody(path: Path) -> None:
    async def main() -> None:
        first, second = log.record(a_record(1)), log.record(a_record(2))
        assert isinstance(first, asyncio.Future)
        assert second is not None
        first.cancel()
        await second

    with AuditLog(path, acknowledge="committed") as log:
        asyncio.run(main())
    assert len(AuditReader(path).list()) == 2


def test_a_loop_that_ended_early_harms_nobody(path: Path) -> None:
    async def leave_at_once() -> None:
        log.record(a_record(1))

    with AuditLog(path, acknowledge="committed") as log:
        with another_program_holds(path):
            asyncio.run(leave_at_once())
        log.flush(5)
    assert len(AuditReader(path).list()) == 1


def test_a_log_that_cannot_be_written_says_so_and_catches_up_later(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """O3: never lost in silence."""
    caplog.set_level(logging.WARNING, "ferrule.audit")
    with AuditLog(path, patience=0.1) as log:
        with another_program_holds(path):
            log.record(a_record(1))
            with pytest.raises(AuditError, match=r"cannot be written \(.*locked.*1 records are waiting"):
                log.flush(10)
            assert [problem.waiting for problem in log.problems] == [1]
            log.record(a_record(2))
            with pytest.raises(AuditError):
                log.flush(10)
            assert len(log.problems) == 1, "one outage is one problem"
        log.flush(10)
        assert log.record(a_record(3)) is None
    assert [row.call_id for row in AuditReader(path).rows()] == ["call_1", "call_2", "call_3"]
    assert verify(path).ok
    assert [line.levelname for line in caplog.records] == ["ERROR", "WARNING"]


def test_those_who_wait_on_a_loop_are_told_of_a_failure(path: Path) -> None:
    async def main() -> None:
        waiting = log.record(a_record(1))
        assert waiting is not None
        with pytest.raises(AuditError, match="cannot be written"):
            await waiting

    with AuditLog(path, acknowledge="committed", patience=0.1) as log:
        with another_program_holds(path):
            asyncio.run(main())
        log.flush(10)
    assert len(AuditReader(path).list()) == 1, "the record was kept and written once that was possible"


def test_a_record_that_makes_no_sense_leaves_a_row_too(path: Path) -> None:
    with AuditLog(path) as log:
        log.record(a_record(1))
        log.record(a_record(2, caller=None))
        log.record(a_record(3))
    tools = [row.tool for row in AuditReader(path).rows()]
    assert tools == ["Read", "(unreadable)", "Read"]


def test_the_disk_is_written_again_after_the_file_was_spoilt_and_repaired(path: Path) -> None:
    with AuditLog(path, patience=0.05) as log:
        log.record(a_record(1))
        log.flush()
        tamper(path, "ALTER TABLE calls RENAME TO moved")
        log.record(a_record(2))
        with pytest.raises(AuditError, match="no such table"):
            log.flush(10)
        tamper(path, "ALTER TABLE moved RENAME TO calls")
        log.flush(10)
    assert len(AuditReader(path).list()) == 2


def test_what_waits_together_is_committed_together(path: Path) -> None:
    """O3, O5: a commit for each row reaches some hundred rows a second."""
    writer = a_writer(path)
    statements: list[str] = []
    connection = writer._connection
    assert connection is not None
    connection.set_trace_callback(statements.append)
    for number in range(2_500):
        writer.queue.put(a_record(number))
    assert run(writer).error is None
    assert statements.count("COMMIT") == 3
    assert sum(1 for _ in AuditReader(path).rows()) == 2_500


def test_a_marker_is_reached_when_everything_before_it_is_committed(path: Path) -> None:
    writer = a_writer(path)
    marker = Marker()
    for item in (a_record(1), marker, a_record(2)):
        writer.queue.put(item)
    assert not marker.reached.is_set()
    run(writer)
    assert marker.reached.is_set()
    assert marker.error is None


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """The disk refuses so many commits; gives the number of rows in each commit that was tried."""
    tries: list[int] = []
    append = Writer._append

    def flaky(self: Writer, contents: list[Any]) -> None:
        tries.append(len(contents))
        if len(tries) <= times:
            raise sqlite3.OperationalError("disk I/O error")
        append(self, contents)

    monkeypatch.setattr(Writer, "_append", flaky)
    return tries


def test_what_is_tried_again_is_redacted_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []
    content_of = writer_module.content_of

    def counting(record: Any) -> Any:
        rendered.append(record.call_id)
        return content_of(record)

    monkeypatch.setattr(writer_module, "content_of", counting)
    tries = failing(monkeypatch, times=2)
    with AuditLog(path) as log:
        log.record(a_record(1))
        log.record(a_record(2))
        log.flush(10)
    assert tries == [2, 2, 2]
    assert rendered == ["call_1", "call_2"]
    assert [row.call_id for row in AuditReader(path).rows()] == ["call_1", "call_2"]
    assert log.problems == (), "it was over before anybody's patience was"


def test_a_failure_that_passes_loses_nothing_when_the_log_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O3: closing is as patient as writing is."""
    failing(monkeypatch, times=2)
    with AuditLog(path) as log:
        log.record(a_record(1))
    assert [row.call_id for row in AuditReader(path).rows()] == ["call_1"]


def test_a_commit_that_fails_half_way_leaves_no_half(path: Path) -> None:
    """O3: after a failure nothing is written twice and the chain holds."""
    with AuditLog(path) as log:
        log.record(a_record(1))
        log.flush()
        tamper(path, "CREATE TRIGGER full BEFORE UPDATE ON head BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        log.record(a_record(2))
        with pytest.raises(AuditError, match="within"):
            log.flush(0.1)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM calls").fetchone() == (1,)
        tamper(path, "DROP TRIGGER full")
        log.flush(10)
    assert [row.call_id for row in AuditReader(path).rows()] == ["call_1", "call_2"]
    assert verify(path).ok


def test_a_chain_without_its_head_is_not_continued(path: Path) -> None:
    """O3: a new chain would make what was removed look as if it had never been."""
    a_log(path, 2)
    tamper(path, "DELETE FROM head")
    log = AuditLog(path, patience=0.05)
    log.record(a_record(3))
    with pytest.raises(AuditError, match=r"The head of the audit log .* was removed\. Move the file away"):
        log.close(10)
    assert sum(1 for _ in AuditReader(path).rows()) == 2


def test_old_rows_that_cannot_be_removed_are_a_problem_and_no_more(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(writer_module, "remove_old_rows", refuse)
    caplog.set_level(logging.WARNING, "ferrule.audit")
    writer = a_writer(path, retention=Retention(rows=1))
    writer.queue.put(a_record(1))
    writer.queue.put(a_record(2))
    assert run(writer).error is None
    assert [problem.message for problem in writer.problems] == ["retention: database is locked"]
    assert "could not be removed: database is locked" in caplog.text
    assert sum(1 for _ in AuditReader(path).rows()) == 2


def test_the_list_of_problems_does_not_grow_for_ever(path: Path) -> None:
    writer = a_writer(path)
    for number in range(300):
        writer.problems.append(writer_module.WriteProblem(float(number), "", 0))
    run(writer)
    assert (len(writer.problems), writer.problems[0].time) == (100, 200.0)


def test_a_bad_file_is_the_error_of_who_makes_the_writer(path: Path) -> None:
    path.write_text("no database\n" * 100)
    with pytest.raises(AuditError, match="damaged or not an audit log"):
        a_writer(path)
