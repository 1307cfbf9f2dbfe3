"""A broken store never blocks an edit."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.workspace.history_room import Room

from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Caps, Write
from ferrule.workspace.snapshots.history import History
from ferrule.workspace.snapshots.snapshot_store import histories_set_aside
from ferrule.workspace.snapshots.undo_report import Why

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


@pytest.mark.parametrize("damage", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_broken_journal_is_set_aside_and_said(tmp_path: Path, damage: bytes) -> None:
    room = Room(tmp_path)
    room.write("a", b"1")
    room.history.close()
    (room.store / "journal.db").write_bytes(damage)
    room.again()
    room.write("a", b"2")
    (said,) = room.history.notes
    assert said == (
        "The history of changes could not be read (file is not a database) and was set aside as "
        f"`{room.store}/set-aside/journal.db`. A new one was started: earlier changes cannot be undone."
    )
    assert (room.store / "set-aside" / "journal.db").read_bytes()[:7] == damage[:7]
    room.history.undo()
    assert room.read("a") == b"1"


def test_what_was_set_aside_long_ago_is_removed_also_of_other_workspaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    old, young = (tmp_path / "data/history" / name / "set-aside" for name in ("old", "young"))
    for one in (old, young):
        one.mkdir(parents=True)
        (one / "journal.db").write_bytes(b"garbage")
    os.utime(old, (0, 0))
    assert histories_set_aside() == [old, young]
    (tmp_path / "room").mkdir()
    room = Room(tmp_path / "room")
    room.write("a", b"1")
    room.history.close()
    (room.store / "journal.db").write_bytes(b"garbage" * 1000)
    room.again()
    room.write("a", b"2")
    assert histories_set_aside() == [young]
    os.utime(room.store / "set-aside", (0, 0))
    room.again()
    room.write("a", b"3")
    assert not (room.store / "set-aside").exists()


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


def test_what_a_kill_between_contents_and_journal_leaves_is_collected_at_the_next_start(tmp_path: Path) -> None:
    """443 contents without an entry stayed after 700 kills, and the history was over its cap."""
    room = Room(tmp_path)
    room.write("a", b"1")
    script = """
import os, sys
from pathlib import Path
from tests.workspace.history_room import Room
from ferrule.workspace.snapshots.journal import Journal
Journal.begin = lambda *_, **__: os.kill(os.getpid(), 9)
Room(Path(sys.argv[1])).batch(**{str(n): b"%d" % n for n in range(300)})
"""
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=ENVIRONMENT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(names(room)) == 300
    assert len(room.history.recent()) == 1
    assert len(names(room)) == 1
    assert room.history.undo().refused is None
    assert not room.exists("a")


def test_nobody_sweeps_what_another_process_is_about_to_note(tmp_path: Path) -> None:
    room, other = Room(tmp_path), History(tmp_path / "store", Paths([tmp_path / "tree"]), patience=0.05)
    with room.history._store.locked():
        room.history._store.contents.put("ab" + "0" * 62, b"\0new", durable=False)  # pyright: ignore[reportArgumentType]
        with pytest.raises(PathError, match="in use by another program"):
            other.recent()
        assert len(names(room)) == 1
    other.close()


def names(room: Room) -> list[str]:
    return list(room.history._store.contents.all())


def test_what_does_not_fit_at_all_is_not_covered(tmp_path: Path) -> None:
    room = Room(tmp_path, Caps(total=1_000_000))
    group = room.history.apply([Write(room.place("a"), os.urandom(2_000_000))])
    assert group is not None
    assert not group.changes[0].covered
    assert room.exists("a")


def test_a_store_that_cannot_be_written_refuses_the_change(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a file")
    with pytest.raises(PathError, match="history of changes cannot be kept"):
        Room(tmp_path)
