from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.workspace.history_room import Room

from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Delete, Operation, SetMode, State, Write
from ferrule.workspace.snapshots.content_store import ContentStore
from ferrule.workspace.snapshots.history import ChangedMeanwhileError, plan
from ferrule.workspace.tracker import digest


def test_the_old_content_is_kept_before_anything_changes(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (room.tree / "a").write_bytes(b"old")
    store = room.history._store
    with store.locked():
        planned = plan([Write(room.place("a"), b"new"), Write(room.place("x/y/b"), b"")], store, room.history._files)
    assert room.read("a") == b"old"
    assert ContentStore(room.store / "contents").get(digest(b"old")) == b"old"
    assert [(one.operation, one.made) for one in planned.changes] == [(Operation.CHANGE, 0), (Operation.CREATE, 2)]
    assert planned.changes[1].after == State(digest(b""), None)


def test_a_plan_that_cannot_be_is_refused(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (room.tree / "folder").mkdir()
    store = room.history._store
    with store.locked():
        for step in (Delete(room.place("a")), SetMode(room.place("a"), 0o600)):
            with pytest.raises(PathError, match="no file at `a`"):
                plan([step], store, room.history._files)
        with pytest.raises(PathError, match="is a directory"):
            plan([Write(room.place("folder"), b"")], store, room.history._files)
        with pytest.raises(ChangedMeanwhileError):
            plan([Delete(room.place("a"), expect=digest(b""))], store, room.history._files)


def test_what_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file is old or new after a power cut anyway; what would be gone or half done is safe before it is done."""
    room = Room(tmp_path)
    room.write("a", b"1")
    room.write("b", b"1")
    synced: list[str] = []
    fsync = os.fsync

    def recording(opened: int) -> None:
        synced.append(Path(f"/proc/self/fd/{opened}").readlink().relative_to(tmp_path).parts[0])
        fsync(opened)

    monkeypatch.setattr(os, "fsync", recording)
    room.write("a", b"2")
    assert synced == ["tree", "tree"]  # the new file, then its folder
    synced.clear()
    room.batch(a=b"3", b=b"3")
    assert synced == ["store"] * 6 + ["tree"] * 4  # both old contents first, each with its folders
    synced.clear()
    room.delete("a")
    assert synced == ["store"] * 3 + ["tree"]
