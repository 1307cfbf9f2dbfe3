"""O3: an audit log of every call, refusals included."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.records.record_samples import a_record, a_refusal, another_program_holds

from ferrule.records.audit import AuditError, AuditLog
from ferrule.records.reader import AuditReader
from ferrule.records.verification import verify

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


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


def test_a_full_queue_slows_its_callers_and_loses_nothing(path: Path) -> None:
    """O3: back-pressure, in place of dropping."""

    async def main() -> None:
        with another_program_holds(path):
            sent.append(log.record(a_record()))
            while sent[-1] is None:
                await asyncio.sleep(0)
                sent.append(log.record(a_record()))
            waiting = log.record(a_record())
            sent.append(waiting)
            assert waiting is not None
            assert not asyncio.ensure_future(waiting).done()
        await waiting

    sent: list[Awaitable[None] | None] = []
    with AuditLog(path, max_queue=10) as log:
        asyncio.run(main())
    assert len(sent) >= 11
    assert len(AuditReader(path).list(limit=1000)) == len(sent)


def test_when_nothing_more_fits_record_raises(path: Path) -> None:
    with AuditLog(path, patience=0.05, max_queue=3) as log:
        with another_program_holds(path):
            for number in (1, 2, 3):
                log.record(a_record(number))
            with pytest.raises(AuditError):
                log.flush(10)
            with pytest.raises(AuditError, match="3 records are waiting"):
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
    """O5: far below what a call costs. What counts is this thread's own time; how busy the machine is does not."""
    records = [a_record(number) for number in range(3_000)]
    with AuditLog(path) as log:
        start = time.thread_time()
        for record in records:
            log.record(record)
        spent = time.thread_time() - start
    assert spent / len(records) < 20e-6
