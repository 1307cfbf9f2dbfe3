from __future__ import annotations

import os
from pathlib import Path

from tests.workspace.history_room import Room

from ferrule.workspace.snapshots.undo_report import Why


def test_every_file_in_the_way_is_named(tmp_path: Path) -> None:
    room = Room(tmp_path)
    files = {f"f{n}": b"1\n" for n in range(30)}
    room.batch(**files)
    for name in files:
        (room.tree / name).write_bytes(b"mine\n")
    report = room.history.undo()
    assert report.refused is not None
    assert {one.why for one in report.refused.conflicts} == {Why.CHANGED}
    assert len(report.refused.conflicts) == 30
    assert "and 10 more files" in str(report)


def test_a_large_or_binary_difference_stays_short(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.write("a", b"\0binary")
    (room.tree / "a").write_bytes(os.urandom(1_000_000))
    assert len(str(room.history.undo())) < 1000
    room.write("b", b"1\n")
    (room.tree / "b").write_bytes(b"".join(b"%d\n" % n for n in range(5000)))
    assert len(str(room.history.undo())) < 20_000


def test_a_path_that_is_outside_by_now_is_left_alone(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.write("folder/a", b"1")
    outside = tmp_path / "outside"
    (room.tree / "folder").rename(outside)
    (room.tree / "folder").symlink_to(outside)
    report = room.history.undo()
    assert report.refused is not None
    assert "outside the workspace" in str(report)
    assert (outside / "a").read_bytes() == b"1"


def test_a_redo_over_a_file_of_someone_else_is_refused(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.write("a", b"1\n")
    room.history.undo()
    (room.tree / "a").write_bytes(b"mine\n")
    report = room.history.redo()
    assert report.refused is not None
    assert report.refused.conflicts[0].why is Why.EXISTS
    assert "-1\n+mine" in str(report)
