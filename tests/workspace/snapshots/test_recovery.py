"""Death between any two steps of a change, an undo or a redo, and the start after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.workspace.history_room import Room

from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Caps, Delete, Group, Move, SetMode, Write
from ferrule.workspace.snapshots.history import History


class Killed(BaseException):
    pass


@pytest.fixture
def room(tmp_path: Path) -> Room:
    room = Room(tmp_path)
    room.batch(a=b"a" * 5000, b=b"b", c=b"c", d=b"d")
    return room


def change(room: Room) -> None:
    steps = [
        Write(room.place("a"), b"new a"),
        Delete(room.place("b")),
        Move(room.place("c"), room.place("made/for/c")),
        SetMode(room.place("d"), 0o600),
        Write(room.place("e/e"), b"new"),
    ]
    room.history.apply(steps)


def die(room: Room, work: Callable[[], Any], step: int, *, after: bool) -> None:
    """Run until the given step, stop dead before or after it, and start again."""
    put, count = room.history._files.put, 0

    def stops(*arguments: Any, **named: Any) -> None:
        nonlocal count
        if count == step and not after:
            raise Killed
        put(*arguments, **named)
        if count == step:
            raise Killed
        count += 1

    def nothing(group: Group, at_hand: object = None) -> None:
        raise Killed

    room.history._files.put = stops
    room.history._recovery.roll_back = nothing
    with pytest.raises(Killed):
        work()
    room.history.close()
    room.history = History(room.store, room.paths, room.caps)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(5))
def test_a_change_is_rolled_back_unless_it_was_through(room: Room, step: int, after: bool) -> None:
    before = room.look()
    die(room, lambda: change(room), step, after=after)
    groups = room.history.recent()
    if step == 4 and after:
        assert len(groups) == 2
        assert room.history.undo().refused is None
    else:
        assert len(groups) == 1
    assert room.look() == before
    assert room.history.notes == ()
    room.history.redo()
    assert room.history.undo(to=0).refused is None
    assert room.look() == {}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(5))
def test_an_undo_and_a_redo_are_finished(room: Room, step: int, after: bool) -> None:
    before = room.look()
    change(room)
    changed = room.look()
    die(room, room.history.undo, step, after=after)
    room.history.recent()
    assert room.look() == before
    die(room, room.history.redo, step, after=after)
    room.history.recent()
    assert room.look() == changed
    assert room.history.notes == ()


def test_what_was_changed_after_the_crash_is_left_alone(room: Room) -> None:
    die(room, lambda: change(room), 2, after=True)
    (room.tree / "a").write_bytes(b"mine")
    groups = room.history.recent()
    assert room.read("a") == b"mine"
    assert room.read("b") == b"b"
    assert [one.path.name for one in groups[0].changes] == ["a"]
    report = room.history.undo()
    assert report.refused is not None
    assert "+mine" in str(report)


def test_leftovers_of_a_killed_write_are_removed(room: Room) -> None:
    die(room, lambda: change(room), 0, after=False)
    (room.tree / ".ferrule-0123456789abcdef").write_bytes(b"half")
    (room.tree / ".ferrule-mine").write_bytes(b"mine")
    room.history.recent()
    assert room.exists(".ferrule-mine")
    assert not room.exists(".ferrule-0123456789abcdef")


@pytest.mark.parametrize("after", [False, True])
def test_an_uncovered_change_is_listed_only_if_it_happened(tmp_path: Path, after: bool) -> None:
    room = Room(tmp_path, Caps(file=100))
    step = Write(room.place("big"), b"x" * 5000)
    work: Callable[[], Group | None] = lambda: room.history.apply([step])  # noqa: E731
    die(room, work, 0, after=after)
    assert len(room.history.recent()) == (1 if after else 0)


def test_an_undo_that_fails_is_rolled_back(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    change(room)
    changed = room.look()
    put, count = room.history._files.put, 0

    def fails(*arguments: Any, **named: Any) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise PathError("failed", "The disk is full.")
        put(*arguments, **named)

    monkeypatch.setattr(room.history._files, "put", fails)
    report = room.history.undo()
    assert "The disk is full." in str(report)
    assert room.look() == changed
    monkeypatch.undo()
    assert room.history.undo().refused is None
