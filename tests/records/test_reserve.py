"""O3, P11: room is kept for what has happened, and given up when the disk is full."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.records.record_samples import a_record

from ferrule.records import reserve
from ferrule.records.audit import AuditLog
from ferrule.records.reserve import RESERVE, Reserve, is_full


def test_room_is_taken_given_up_and_taken_back(tmp_path: Path) -> None:
    kept = Reserve(tmp_path / "reserve")
    kept.keep()
    assert kept.held >= RESERVE
    assert (tmp_path / "reserve").stat().st_mode & 0o777 == 0o600
    assert kept.give_up()
    assert kept.held == 0
    assert not kept.give_up(), "there is nothing more to give"
    kept.take_back()
    assert kept.held >= RESERVE


@pytest.mark.parametrize(("free", "first", "later"), [(RESERVE, False, True), (0, False, False), (1 << 30, True, True)])
def test_a_disk_with_little_room_is_left_alone_until_it_was_given_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, first: bool, later: bool
) -> None:
    monkeypatch.setattr(reserve, "free_bytes", lambda _folder: free)
    kept = Reserve(tmp_path / "reserve")
    kept.keep()
    assert (kept.held > 0) == first
    kept.take_back()
    assert (kept.held > 0) == later
    assert kept.held <= max(free, RESERVE)


def test_a_full_disk_is_told_from_other_faults(tmp_path: Path) -> None:
    assert is_full(OSError(errno.ENOSPC, "full"), tmp_path)
    assert is_full(OSError(errno.EDQUOT, "quota"), tmp_path)
    assert not is_full(PermissionError(errno.EACCES, "denied"), tmp_path)
    with closing(sqlite3.connect(tmp_path / "small.db")) as database:
        database.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as found:
            database.executescript("CREATE TABLE a (b); CREATE TABLE c (d); CREATE TABLE e (f)")
        assert is_full(found.value, tmp_path)
        with pytest.raises(sqlite3.OperationalError) as other:
            database.execute("SELECT * FROM nothing")
        assert not is_full(other.value, tmp_path)
    wrapped = RuntimeError("cannot be kept")
    wrapped.__cause__ = found.value
    assert is_full(wrapped, tmp_path)


def test_an_audit_log_has_a_reserve_beside_it(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "audit.db") as log:
        log.record(a_record(1))
    assert (tmp_path / "audit.db-reserve").stat().st_blocks * 512 >= RESERVE
