"""A broken store never blocks an edit."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from tests.workspace.history_room import Room

from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import Caps
from ferrule.workspace.snapshots.undo_report import Why


@pytest.mark.parametrize("damage", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_broken_journal_is_set_aside_and_said(tmp_path: Path, damage: bytes) -> None:
    room = Room(tmp_path)
    room.write("a", b"1")
    room.history.close()
    (room.store / "journal.db").write_bytes(damage)
    room.again()
    room.write("a", b"2")
    assert "It was set aside in" in room.history.notes[0]
    assert (room.store / "set-aside" / "journal.db").read_bytes()[:7] == damage[:7]
    room.history.undo()
    assert room.read("a") == b"1"


def test_a_journal_that_breaks_while_it_is_open(tmp_path: Path) -> None:
    room = Room(tmp_path)
    for n in range(40):
        room.write("a", b"%d" % n)
    sqlite3.connect(room.store / "journal.db").execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    with (room.store / "journal.db").open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(60_000))
    room.again()
    room.write("a", b"new")
    assert room.read("a") == b"new"
    assert len(room.history.notes) == 1


def test_an_empty_or_older_file_is_no_journal(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (room.store / "journal.db").write_bytes(b"")
    room.write("a", b"1")
    assert room.history.notes == ()
    room.history.close()
    database = sqlite3.connect(room.store / "journal.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    room.again()
    room.write("a", b"2")
    assert "another version of Ferrule (99)" in room.history.notes[0]


def test_another_process_that_set_the_store_aside_is_followed(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.write("a", b"1")
    (room.store / "journal.db").rename(room.store / "elsewhere")
    (room.store / "journal.db-wal").unlink()
    room.write("a", b"2")
    assert [group.changes[0].seq for group in room.history.recent()] == [1]
    assert room.history.undo().refused is None


def test_a_lost_content_refuses_the_undo(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.write("a", b"1")
    room.write("a", b"2")
    for path in (room.store / "contents").rglob("*"):
        if path.is_file():
            path.unlink()
    report = room.history.undo()
    assert report.refused is not None
    assert report.refused.conflicts[0].why is Why.LOST
    assert room.read("a") == b"2"
    room.write("a", b"3")
    room.history.undo()
    assert room.read("a") == b"2"


def test_leftovers_of_a_kill_are_swept(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.write("a", b"1")
    folder = room.store / "contents"
    strays = [folder / f"{n:02x}" / "stray" for n in range(256)]
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"x")
    with room.history._store.locked():
        for number in range(256):
            room.history._store._sweep(number)
    assert not any(stray.exists() for stray in strays)
    assert room.history.undo().refused is None


def test_what_does_not_fit_at_all_is_not_covered(tmp_path: Path) -> None:
    room = Room(tmp_path, Caps(total=1_000_000))
    group = room.history.write(room.place("a"), os.urandom(2_000_000))
    assert group is not None
    assert not group.changes[0].covered
    assert room.exists("a")


def test_a_store_that_cannot_be_written_refuses_the_change(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a file")
    with pytest.raises(PathProblem, match="history of changes cannot be kept"):
        Room(tmp_path)
