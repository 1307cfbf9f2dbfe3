from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.workspace.history_room import MEMORY, Room

from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import NO_FILE, Caps, Delete, Group, Move, Origin, Phase, SetMode, Write
from ferrule.workspace.snapshots.undo_report import Why
from ferrule.workspace.tracker import digest


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture
def quick() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def why(room: Room) -> Why:
    report = room.history.undo()
    assert report.refused is not None
    assert report.groups == ()
    return report.refused.conflicts[0].why


def test_a_change_is_undone_and_redone(room: Room) -> None:
    room.write("a.txt", b"one\n")
    room.write("a.txt", b"two\n")
    assert str(room.history.undo()) == "1 change undone."
    assert room.read("a.txt") == b"one\n"
    assert str(room.history.redo()) == "1 change redone."
    assert room.read("a.txt") == b"two\n"


def test_undoing_a_new_file_deletes_it_and_the_folders_made_for_it(room: Room) -> None:
    room.write("deep/er/a.txt", b"one")
    room.write("deep/b.txt", b"two")
    assert room.history.undo(to=0).refused is None
    assert room.look() == {}
    room.history.redo(to=99)
    assert (room.read("deep/er/a.txt"), room.read("deep/b.txt")) == (b"one", b"two")


def test_a_folder_that_holds_something_else_stays(room: Room) -> None:
    room.write("made/a.txt", b"one")
    (room.tree / "made" / "mine.txt").write_bytes(b"mine")
    assert room.history.undo().refused is None
    assert list(room.look()) == ["made", "made/mine.txt"]


def test_a_deleted_file_comes_back_with_its_mode(room: Room) -> None:
    path = room.tree / "run.sh"
    path.write_bytes(b"#!/bin/sh\n")
    path.chmod(0o750)
    room.delete("run.sh")
    assert not path.exists()
    room.history.undo()
    assert room.look() == {"run.sh": (0o750, b"#!/bin/sh\n")}


def test_a_move_and_a_mode_are_undone(room: Room) -> None:
    room.write("a.txt", b"one")
    before = room.look()
    room.move("a.txt", "new/b.txt")
    room.set_mode("new/b.txt", 0o700)
    assert room.look() == {"new": None, "new/b.txt": (0o700, b"one")}
    room.history.undo()
    room.history.undo()
    assert room.look() == before


def test_a_batch_is_undone_as_one(room: Room) -> None:
    room.write("a", b"1")
    room.batch(a=b"2", b=b"2", c=b"2")
    assert str(room.history.undo()) == "3 changes undone."
    assert {name: room.read(name) for name in room.look()} == {"a": b"1"}


def test_a_batch_that_fails_leaves_nothing_behind(room: Room) -> None:
    room.write("a", b"1")
    (room.tree / "linked").write_bytes(b"x")
    os.link(room.tree / "linked", room.tree / "twin")
    before = room.look()
    steps = [Write(room.place(name), b"2") for name in ("a", "new/b", "linked")]
    with pytest.raises(PathError, match="hard links"):
        room.history.apply(steps)
    assert room.look() == before
    assert len(room.history.recent()) == 1


def test_a_hard_link_can_be_allowed(room: Room) -> None:
    (room.tree / "linked").write_bytes(b"x")
    os.link(room.tree / "linked", room.tree / "twin")
    room.history.apply([Write(room.place("linked"), b"y", through_hard_links=True)])
    assert (room.read("linked"), room.read("twin")) == (b"y", b"x")


def test_nothing_is_recorded_where_nothing_changes(room: Room) -> None:
    room.write("a", b"1")
    assert room.write("a", b"1") == 0
    assert room.history.apply([SetMode(room.place("a"), (room.tree / "a").stat().st_mode & 0o7777)]) is None
    assert len(room.history.recent()) == 1


def test_a_path_may_occur_once_in_a_batch(room: Room) -> None:
    room.write("a", b"1")
    with pytest.raises(ValueError, match="twice"):
        room.history.apply([Write(room.place("a"), b"2"), Delete(room.place("a"))])


def test_a_file_changed_since_is_left_alone_and_shown(room: Room) -> None:
    room.batch(a=b"1\n", b=b"1\n")
    room.batch(a=b"2\n", b=b"2\n")
    (room.tree / "b").write_bytes(b"2\nmine\n")
    before = room.look()
    report = room.history.undo()
    assert str(report) == (
        "Nothing was undone.\n"
        "Change 2 could not be undone, and nothing of it was touched:\n"
        "- `b` was changed since.\n"
        "\n"
        "--- a/b\n"
        "+++ b/b\n"
        "@@ -1 +1,2 @@\n"
        " 2\n"
        "+mine"
    )
    assert room.look() == before
    (room.tree / "b").write_bytes(b"2\n")
    assert room.history.undo().refused is None


def test_a_file_deleted_since_or_there_again(room: Room) -> None:
    room.write("a", b"1")
    room.write("a", b"2")
    (room.tree / "a").unlink()
    assert why(room) is Why.DELETED
    (room.tree / "a").write_bytes(b"2")
    room.delete("a")
    (room.tree / "a").write_bytes(b"mine")
    assert why(room) is Why.EXISTS


def test_a_mode_changed_since(room: Room) -> None:
    room.write("a", b"1")
    room.set_mode("a", 0o600)
    (room.tree / "a").chmod(0o640)
    assert why(room) is Why.MODE


def test_a_link_or_folder_that_stands_there_now(room: Room) -> None:
    room.write("a", b"1")
    (room.tree / "a").rename(room.tree / "kept")
    (room.tree / "a").symlink_to("kept")
    assert why(room) is Why.FAILED
    (room.tree / "a").unlink()
    (room.tree / "a").mkdir()
    assert why(room) is Why.FAILED


def test_a_moved_file_goes_back_whatever_it_holds_by_now(room: Room) -> None:
    room.write("a", b"1")
    room.move("a", "b")
    (room.tree / "b").write_bytes(b"mine")
    assert room.history.undo().refused is None
    assert room.read("a") == b"mine"
    assert why(room) is Why.CHANGED


def test_to_a_point_a_call_a_turn_a_session(room: Room) -> None:
    points = [room.write("a", b"%d" % n, Origin("s", f"turn{n // 2}", f"call{n}", "Edit")) for n in range(6)]
    room.write("b", b"other", Origin("other", "turn0", "callX", "Write"))
    room.history.undo(to=points[3], session="s")
    assert room.read("a") == b"3"
    room.history.undo(turn="turn1")
    assert room.read("a") == b"1"
    room.history.undo(call="call1")
    assert room.read("a") == b"0"
    room.history.redo(to=points[4])
    assert room.read("a") == b"4"
    room.history.undo(session="other")
    assert not room.exists("b")
    assert str(room.history.undo(session="none")) == "Nothing to undo."


def test_a_call_that_changed_nothing_is_named_with_the_latest_that_did(room: Room) -> None:
    assert room.history.undo(call="a-1").groups == ()
    for number in range(1, 5):
        room.write("a.txt", b"%d" % number, Origin(call=f"edit-{number}"))
    room.write("a.txt", b"by hand")
    for turn in (room.history.undo, room.history.redo):
        with pytest.raises(PathError, match=r"No call `toolu_9` is in the history") as raised:
            turn(call="toolu_9")
        assert "`edit-4`, `edit-3`, `edit-2`" in (raised.value.suggestion or "")
    assert room.read("a.txt") == b"by hand"
    assert room.history.redo(call="edit-1").groups == ()


def test_a_call_cannot_be_undone_under_a_later_one(room: Room) -> None:
    room.write("a", b"1", Origin(call="first"))
    room.write("a", b"2", Origin(call="second", tool="Write"))
    report = room.history.undo(call="first")
    assert str(report) == snapshot("""\
Nothing was undone.
Change 1 could not be undone, and nothing of it was touched:
- `a` was changed later by change 2 (Write); undo that first.

Change 1:
--- /dev/null
+++ b/a
@@ -0,0 +1 @@
+1
\\ No newline at end of file
Change 2 (Write):
--- a/a
+++ b/a
@@ -1 +1 @@
-1
\\ No newline at end of file
+2
\\ No newline at end of file\
""")
    assert room.read("a") == b"2"


def test_a_call_of_several_changes_is_undone_whole_or_not_at_all(room: Room) -> None:
    mine, other = Origin(call="mine", tool="Bash"), Origin(call="other", tool="Write")
    room.write("shared", b"1", mine)
    room.write("shared", b"2", other)
    room.write("shared", b"3", mine)
    room.write("own", b"4", mine)
    before = room.look()
    refused = room.history.undo(call="mine").refused
    assert refused is not None
    assert (refused.group.number, refused.conflicts[0].name) == (1, "shared")
    assert room.look() == before
    assert room.history.undo(call="other").refused is not None
    assert room.look() == before
    assert room.history.undo(to=1).refused is None
    assert room.history.undo(call="mine").refused is None
    assert room.look() == {}


def test_a_new_change_drops_the_redo_of_its_files_and_of_what_builds_on_them(room: Room) -> None:
    room.write("a", b"1")
    room.batch(a=b"2", b=b"2")
    room.write("b", b"3")
    room.write("c", b"4")
    room.history.undo(to=1)
    room.write("a", b"new")
    assert [group.phase for group in room.history.recent()] == [
        Phase.DONE,
        Phase.UNDONE,
        Phase.DROPPED,
        Phase.DROPPED,
        Phase.DONE,
    ]
    room.history.redo(to=99)
    assert {name: room.read(name) for name in room.look()} == {"a": b"new", "c": b"4"}


def test_an_expectation_that_does_not_hold_changes_nothing(room: Room) -> None:
    room.write("a", b"1")
    with pytest.raises(PathError, match="has changed meanwhile"):
        room.history.apply([Write(room.place("a"), b"2", expect=digest(b"other"))])
    with pytest.raises(PathError, match="has changed meanwhile"):
        room.history.apply([Write(room.place("a"), b"2", expect=NO_FILE)])
    with pytest.raises(PathError, match="no longer exists"):
        room.history.apply([Write(room.place("b"), b"2", expect=digest(b"1"))])
    assert room.history.apply([Write(room.place("b"), b"2", expect=NO_FILE)]) is not None
    assert room.read("a") == b"1"


def test_fifty_edits_of_one_file_at_once_all_land(room: Room) -> None:
    room.write("a", b"")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: room.edit("a", lambda now: now + b"%d\n" % n), range(50)))
    assert sorted(map(int, room.read("a").split())) == list(range(50))
    assert len(room.history.recent(100)) == 51
    assert room.history.undo(to=1).refused is None
    assert room.read("a") == b""


def test_any_bytes_and_any_names(room: Room) -> None:
    names = ["n" * 255, "日本語 e\u0301 é", os.fsdecode(b"bad\xff\xfe"), "tab\tnew line\n", "-rf *", "a..b", "'; DROP"]
    for name in names:
        room.write(f"d/{name}", bytes(range(256)) * 20)
        room.write(f"d/{name}", b"\0" + os.urandom(9000))
    full = room.look()
    room.history.undo(to=0)
    assert room.look() == {}
    room.history.redo(to=1000)
    assert room.look() == full


def seen(groups: list[Group]) -> list[str]:
    return [str(group) for group in groups]


def test_the_list_goes_by_path_and_session(room: Room) -> None:
    room.write("src/a", b"1", Origin(session="s", tool="Write"))
    room.write("src/b", b"1")
    room.write("src2", b"1")
    room.move("src/b", "moved")

    assert seen(room.history.recent(2)) == ["change 4", "change 3"]
    assert seen(room.history.recent(path=room.tree / "src")) == ["change 4", "change 2", "change 1"]
    assert seen(room.history.recent(path=room.tree / "moved")) == ["change 4"]
    assert seen(room.history.recent(session="s")) == ["change 1"]
    assert room.history.recent(session="s")[0].origin.tool == "Write"


def test_a_diff_of_one_change_and_of_many(room: Room) -> None:
    room.write("a", b"1\n")
    room.write("a", b"1\n2\n")
    room.move("a", "b")
    room.set_mode("b", 0o600)
    assert room.history.diff(2) == "--- a/a\n+++ b/a\n@@ -1 +1,2 @@\n 1\n+2\n"
    assert "rename from a\nrename to b\n" in room.history.diff(1, 4)
    assert "--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+1\n+2\n" in room.history.diff(1, 4)
    assert "new mode 600" in room.history.diff(4)
    with pytest.raises(PathError, match="no change 9 in the history"):
        room.history.diff(9)


def test_every_command_means_the_number_that_the_list_shows(room: Room) -> None:
    room.batch(a=b"1", b=b"1", c=b"1")
    room.write("a", b"2\n")
    room.write("b", b"3\n")
    assert seen(room.history.recent()) == ["change 3", "change 2", "change 1"]
    assert "+++ b/b\n" in room.history.diff(3)
    assert room.history.diff(1).count("--- /dev/null") == 3
    assert [name in room.history.diff(2, 3) for name in ("b/a", "b/b", "b/c")] == [True, True, False]
    assert seen(list(room.history.undo(to=2).groups)) == ["change 3"]
    assert (room.read("a"), room.read("b")) == (b"2\n", b"1")
    room.history.undo(to=0)
    assert seen(list(room.history.redo(to=2).groups)) == ["change 1", "change 2"]
    assert (room.read("a"), room.read("b")) == (b"2\n", b"1")


def test_what_is_too_large_is_changed_and_said_to_be_uncovered(tmp_path: Path) -> None:
    room = Room(tmp_path, Caps(file=1000))
    room.write("a", b"small")
    group = room.history.apply([Write(room.place("a"), b"x" * 2000)])
    assert group is not None
    assert [change.covered for change in group.changes] == [False]
    report = room.history.undo()
    assert str(report) == (
        "Nothing was undone.\n"
        "`a` was left as it is. "
        "The history does not cover it: too large to keep, or in a folder it leaves out."
    )
    assert room.read("a") == b"x" * 2000
    assert why(room) is Why.CHANGED


def test_moves_and_modes_of_large_files_are_covered(tmp_path: Path) -> None:
    room = Room(tmp_path, Caps(file=1000))
    (room.tree / "big").write_bytes(b"x" * 5000)
    before = room.look()
    room.history.apply([Move(room.place("big"), room.place("other"))])
    room.set_mode("other", 0o600)
    room.history.undo(to=0)
    assert room.look() == before


def test_a_target_in_the_way_of_a_move_is_kept(room: Room) -> None:
    room.batch(a=b"1", b=b"2")
    with pytest.raises(PathError, match="there is a file at `b`"):
        room.move("a", "b")
    with pytest.raises(PathError, match="no file at `c`"):
        room.move("c", "d")
    assert (room.read("a"), room.read("b")) == (b"1", b"2")


def test_thousands_of_edits_stay_within_the_cap_of_bytes(quick: Path) -> None:
    room = Room(quick, Caps(total=8_000_000))
    for n in range(450):
        room.write("a", os.urandom(20_000))
        assert n % 50 or room.disk() < 8_000_000
    kept = room.history.recent(1000)
    assert 100 < len(kept) < 400
    report = room.history.undo(to=0)
    assert report.refused is None
    assert len(report.groups) == len(kept)


def test_thousands_of_edits_stay_within_the_cap_of_changes(quick: Path) -> None:
    room = Room(quick, Caps(changes=50))
    for n in range(200):
        room.write("a", b"%d" % n)
    assert len(room.history.recent(1000)) == 50
    room.history.undo(to=0)
    assert room.read("a") == b"149"


def test_what_is_too_old_is_forgotten(tmp_path: Path) -> None:
    room = Room(tmp_path, Caps(age=0.05))
    room.write("a", b"1" * 5000)
    time.sleep(0.1)
    room.write("b", b"2")
    assert [str(group) for group in room.history.recent()] == ["change 2"]


def test_what_was_just_done_can_be_undone_however_much_it_is(tmp_path: Path) -> None:
    room = Room(tmp_path, Caps(changes=5))
    room.write("old", b"1")
    room.batch(**{f"f{n}": b"x" for n in range(10)})
    assert seen(room.history.recent()) == ["change 2"]
    assert room.history.undo().refused is None
    assert list(room.look()) == ["old"]


def test_each_change_of_a_batch_is_announced_and_may_still_be_stopped(room: Room) -> None:
    room.batch(a=b"1", b=b"1", c=b"1")
    seen: list[tuple[int, bytes, bytes]] = []

    def watch(position: int) -> None:
        seen.append((position, room.read("a"), room.read("c")))
        if position == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        room.history.apply([Write(room.place(name), b"2") for name in "abc"], before_each=watch)
    assert seen == [(0, b"1", b"1"), (1, b"2", b"1"), (2, b"2", b"1")]
    assert [room.read(name) for name in "abc"] == [b"1"] * 3
    assert len(room.history.recent()) == 1


@pytest.mark.parametrize("change", ["other", "gone"])
def test_a_file_that_changes_while_a_batch_is_made_takes_it_all_back(room: Room, change: str) -> None:
    room.batch(a=b"1", b=b"1", c=b"1")

    def meanwhile(position: int) -> None:
        if position == 1:
            (room.tree / "c").write_bytes(b"mine") if change == "other" else (room.tree / "c").unlink()

    words = "/c` has changed meanwhile" if change == "other" else "/c` no longer exists"
    with pytest.raises(PathError, match=words):
        room.history.apply([Write(room.place(name), b"2") for name in "abc"], before_each=meanwhile)
    assert [room.read(name) for name in "ab"] == [b"1"] * 2
    assert room.exists("c") is (change == "other")
