"""O3: what was acknowledged survives the death of the process, and processes share one chain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ferrule.records.reader import AuditReader
from ferrule.records.verification import verify

PREAMBLE = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from tests.records.record_samples import a_record
from ferrule.records.audit import AuditError, AuditLog
path = sys.argv[1]
"""

ACKNOWLEDGE_FOR_EVER = """
log = AuditLog(path, acknowledge="committed")

async def worker(name):
    number = 0
    while True:
        number += 1
        await log.record(a_record(number, session_id=name))
        print(name, number, flush=True)

async def main():
    await asyncio.gather(*(worker(str(n)) for n in range(8)))

asyncio.run(main())
"""

WRITE_AND_LEAVE = """
log = AuditLog(path)
for number in range(int(sys.argv[3])):
    log.record(a_record(number, session_id=sys.argv[2]))
    if number % 10 == 0:
        log.flush()
"""

EXPORT_AND_BE_KILLED = """
import os, signal
from ferrule.records import reader
reader._WORTH_SHARING, reader._ROWS_OF_STRETCH = 1, 200
for _ in reader.AuditReader(path).export(processes=2):
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
"""

# The limit is on the size of any file this process writes: what a full disk looks like to SQLite.
FILL_THE_DISK = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = AuditLog(path, patience=0.2)
log.record(a_record(0))
log.flush()
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
written, raised = 0, 0
while not raised:
    written += 1
    log.record(a_record(written, arguments={"content": "x" * 10_000}))
    try:
        log.flush(20)
    except AuditError as problem:
        raised += 1
        print(problem)
print(len(log.problems), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.record(a_record(written + 1))
log.close(20)
print(written + 2)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    source = PREAMBLE.format(tests=str(Path(__file__).parent)) + script
    return subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.mark.skipif(os.name == "nt", reason="there is no kill -9 there")
def test_every_acknowledged_row_survives_kill_9(tmp_path: Path) -> None:
    """O3."""
    path = tmp_path / "audit.db"
    process = start(ACKNOWLEDGE_FOR_EVER, path)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(150)]
    process.send_signal(signal.SIGKILL)
    rest, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, err
    complete = [line for line in (*seen, *rest.splitlines(keepends=True)) if line.endswith("\n")]
    acknowledged = {tuple(line.split()) for line in complete}
    kept = {(row.session, row.call_id.removeprefix("call_")) for row in AuditReader(path).rows()}
    assert len(acknowledged) >= 150
    assert acknowledged <= kept
    assert verify(path).ok


def test_processes_that_write_at_once_keep_one_chain(tmp_path: Path) -> None:
    """O3: also when all of them are the first to open the file."""
    path = tmp_path / "audit.db"
    for process in [start(WRITE_AND_LEAVE, path, name, 60) for name in "abc"]:
        finish(process)
    found = verify(path)
    assert (found.ok, found.rows) == (True, 180)
    for name in "abc":
        numbers = [row.call_id for row in AuditReader(path).rows() if row.session == name]
        assert numbers == [f"call_{number}" for number in range(60)]


def test_what_is_queued_is_written_at_exit(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    finish(start(WRITE_AND_LEAVE, path, "a", 6))
    assert len(AuditReader(path).list()) == 6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs RLIMIT_FSIZE")
def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    """O3."""
    path = tmp_path / "audit.db"
    said, problems, recorded = finish(start(FILL_THE_DISK, path)).splitlines()
    assert "cannot be written" in said
    assert problems == "1"
    assert [row.call_id for row in AuditReader(path).rows()] == [f"call_{n}" for n in range(int(recorded))]
    assert verify(path).ok


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no kill -9 there")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_a_killed_export_ends_its_readers_without_a_word(tmp_path: Path, how: str) -> None:
    """O3: they end at the next row that nobody takes."""
    path = tmp_path / "audit.db"
    finish(start(WRITE_AND_LEAVE, path, "one", 2_000))
    process = start(EXPORT_AND_BE_KILLED, path, how)
    _, err = process.communicate(timeout=60)  # until its readers have closed it too
    assert (process.returncode, err) == (-getattr(signal, how), "")
