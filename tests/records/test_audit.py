"""O3: an audit log of every call, refusals included."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import sqlite3
import stat
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from tests.records.record_samples import a_log, a_record, a_refusal, tamper

from ferrule.core.context import ANYONE, Caller
from ferrule.records.audit import AuditError, AuditLog
from ferrule.records.database import SCHEMA_VERSION
from ferrule.records.reader import AuditReader
from ferrule.records.redact import MAX_ARGUMENTS
from ferrule.records.verify import verify

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@contextmanager
def another_program_holds(path: Path) -> Generator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def test_a_record_becomes_a_row_with_everything_in_it(path: Path) -> None:
    """O3."""
    record = a_record(
        parent_id="call_0",
        caller=Caller("acme", "ann", "dev"),
        arguments='{"file_path": "a.txt", "api_key": "hunter2"}',
        started=1_700_000_000.25,
        duration=0.125,
        verdict="ask",
        reason="Writes ask.",
        rule="Write:*",
        answer="once",
        result_length=17,
        cached=True,
        abandoned=True,
        repairs=("a trailing comma was removed",),
    )
    with AuditLog(path) as log:
        log.record(record)
    (row,) = AuditReader(path).list()
    kept = row.to_dict()
    assert len(kept.pop("hash")) == 64
    assert kept == snapshot(
        {
            "seq": 1,
            "time": 1700000000.25,
            "session": "session",
            "call_id": "call_1",
            "parent": "call_0",
            "tool": "Read",
            "version": "1.0.0",
            "kind": "readonly",
            "tenant": "acme",
            "user": "ann",
            "role": "dev",
            "arguments": '{"file_path": "a.txt", "api_key": "[redacted]"}',
            "arguments_length": 47,
            "arguments_sha256": "",
            "verdict": "ask",
            "reason": "Writes ask.",
            "rule": "Write:*",
            "answer": "once",
            "stage": "record",
            "outcome": "success",
            "error": None,
            "duration": 0.125,
            "result_length": 17,
            "cached": True,
            "abandoned": True,
            "repairs": '["a trailing comma was removed"]',
            "prev_hash": "",
        }
    )


def test_a_refusal_is_on_record_and_its_error_holds_no_secret(path: Path) -> None:
    """O3, P10."""
    with AuditLog(path) as log:
        log.record(a_refusal(error="Bash: token=abcdef is not allowed"))
    (row,) = AuditReader(path).list()
    assert (row.outcome, row.stage, row.verdict) == ("permission_error", "authorise", "deny")
    assert row.error == "Bash: token=[redacted] is not allowed"


def test_an_acknowledged_row_can_be_read_by_others_at_once(path: Path) -> None:
    """O3: `committed` means committed, not queued."""

    async def main() -> None:
        for number in range(1, 6):
            waiting = log.record(a_record(number))
            assert waiting is not None
            await waiting
            assert AuditReader(path).show(f"call_{number}") is not None

    with AuditLog(path, acknowledge="committed") as log:
        asyncio.run(main())


def test_queued_records_have_nothing_to_wait_for(path: Path) -> None:
    with AuditLog(path) as log:
        assert log.record(a_record()) is None
        log.flush()
        assert len(AuditReader(path).list()) == 1


def test_without_an_event_loop_committed_blocks_until_it_is_true(path: Path) -> None:
    with AuditLog(path, acknowledge="committed") as log:
        assert log.record(a_record()) is None
        assert len(AuditReader(path).list()) == 1


def test_many_threads_and_loops_write_one_sound_log(path: Path) -> None:
    async def one_loop(worker: int) -> None:
        async def one(number: int) -> None:
            waiting = log.record(a_record(number, session_id=str(worker)))
            assert waiting is not None
            await waiting

        await asyncio.gather(*(one(number) for number in range(25)))

    with AuditLog(path, acknowledge="committed") as log:
        threads = [threading.Thread(target=lambda n=n: asyncio.run(one_loop(n))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(AuditReader(path).list(limit=1000)) == 100
    assert verify(path).ok


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


def test_a_full_queue_slows_its_callers_and_loses_nothing(path: Path) -> None:
    """O3: back-pressure, in place of dropping."""

    async def main() -> None:
        with another_program_holds(path):
            while log.record(a_record()) is None:
                await asyncio.sleep(0)
            waiting = log.record(a_record())
            assert waiting is not None
            assert not asyncio.ensure_future(waiting).done()
            sent[0] = log._writer.queue.qsize() + len(log._writer._held)
        await waiting

    sent = [0]
    with AuditLog(path, max_queue=10) as log:
        asyncio.run(main())
    assert sent[0] >= 11
    assert len(AuditReader(path).list(limit=1000)) == sent[0]


def test_a_log_that_cannot_be_written_says_so_and_catches_up_later(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """O3: never lost in silence."""
    caplog.set_level(logging.WARNING, "ferrule.audit")
    with AuditLog(path, patience=0.1) as log:
        with another_program_holds(path):
            log.record(a_record(1))
            with pytest.raises(AuditError, match=r"cannot be written \(.*locked.*1 records wait"):
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


def test_when_nothing_more_fits_record_raises(path: Path) -> None:
    with AuditLog(path, patience=0.05, max_queue=3) as log:
        with another_program_holds(path):
            for number in (1, 2, 3):
                log.record(a_record(number))
            with pytest.raises(AuditError):
                log.flush(10)
            with pytest.raises(AuditError, match="3 records wait"):
                log.record(a_record(4))
        log.flush(10)
    assert len(AuditReader(path).list()) == 3


def test_closing_a_log_that_cannot_be_written_raises(path: Path) -> None:
    log = AuditLog(path, patience=0.05)
    with another_program_holds(path):
        log.record(a_record())
        with pytest.raises(AuditError, match="1 records are lost"):
            log.close(10)


def test_flush_gives_up_after_its_timeout(path: Path) -> None:
    with AuditLog(path, patience=5) as log, another_program_holds(path):
        log.record(a_record())
        with pytest.raises(AuditError, match=r"within 0\.05 seconds"):
            log.flush(0.05)


def test_a_closed_log_takes_nothing(path: Path) -> None:
    log = AuditLog(path)
    log.close()
    log.close()
    with pytest.raises(AuditError, match="is closed"):
        log.record(a_record())


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


class _Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle += [circle, circle]
    return circle


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        "",
        '{"a": ',
        b"\xff\xfe",
        {"a": "\ud800"},
        {"a": float("nan"), "b": 10**5000},
        {1: (2, {3})},
        "[" * 100_000,
        _circle(),
        {"a": _Rude()},
        "nul \0 byte",
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_model_sends_leaves_a_row_that_verifies(path: Path, arguments: Any) -> None:
    """O3."""
    with AuditLog(path) as log:
        log.record(a_record(arguments=arguments, tool="\ud800" * 1000, version=""))
    (row,) = AuditReader(path).list()
    assert len(row.tool) < 400
    assert verify(path).ok


def test_a_record_that_makes_no_sense_leaves_a_row_too(path: Path) -> None:
    with AuditLog(path) as log:
        log.record(a_record(1))
        log.record(a_record(2, caller=None))
        log.record(a_record(3))
    tools = [row.tool for row in AuditReader(path).rows()]
    assert tools == ["Read", "(unreadable)", "Read"]


def test_long_arguments_are_cut_and_say_what_they_were(path: Path) -> None:
    content = "x" * 100_000
    whole = json.dumps({"password": "[redacted]", "content": content})
    with AuditLog(path) as log:
        log.record(a_record(arguments={"password": "hunter2", "content": content}))
    (row,) = AuditReader(path).list()
    assert row.cut
    assert (len(row.arguments), row.arguments_length) == (MAX_ARGUMENTS, len(whole))
    assert row.arguments_sha256 == hashlib.sha256(whole.encode()).hexdigest()


def test_a_caller_nobody_knows_is_stored_as_nothing(path: Path) -> None:
    with AuditLog(path) as log:
        log.record(a_record(caller=ANYONE))
    (row,) = AuditReader(path).list()
    assert (row.tenant, row.user, row.role) == (None, None, None)


def test_only_the_owner_may_read_the_file(path: Path) -> None:
    a_log(path, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rows_cannot_be_changed_or_deleted_by_accident(path: Path) -> None:
    a_log(path, 2)
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("UPDATE calls SET tool = 'x'", "DELETE FROM calls WHERE seq = 2"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"These are my notes, not a database at all.\n" * 50, "damaged or not an audit log"),
        (b"SQLite format 3\0" + b"\xff" * 4096, "damaged or not an audit log"),
    ],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    with pytest.raises(AuditError, match=says):
        AuditLog(path)
    with pytest.raises(AuditError, match=says):
        AuditReader(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(AuditError, match="database of another program"):
        AuditLog(path)
    assert path.read_bytes() == before


def test_a_log_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    a_log(path, 1)
    tamper(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    for opening in (AuditLog, AuditReader, verify):
        with pytest.raises(AuditError, match=r"newer Ferrule.*Update Ferrule"):
            opening(path)
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file" / "audit.db"):
        with pytest.raises(AuditError, match=r"Cannot open the audit log .*Choose another place"):
            AuditLog(place)


def test_an_unknown_acknowledgement_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match='"queued" or "committed"'):
        AuditLog(path, acknowledge="soon")  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_writes_to_the_same_chain(path: Path) -> None:
    import warnings

    with AuditLog(path) as log:
        log.record(a_record(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            code = 1
            try:
                log.record(a_record(2))
                log.close(10)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert status == 0
        log.record(a_record(3))
    assert sorted(row.call_id for row in AuditReader(path).rows()) == ["call_1", "call_2", "call_3"]
    assert verify(path).ok


def test_recording_takes_microseconds(path: Path) -> None:
    """O5: far below what a call costs. The bar is loose, for machines that are busy."""
    records = [a_record(number) for number in range(3_000)]
    with AuditLog(path) as log:
        start = time.perf_counter()
        for record in records:
            log.record(record)
        spent = time.perf_counter() - start
    assert spent / len(records) < 20e-6
