"""The folder of the history is removed, restored or written over while a session works: nothing is left half done."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk
from tests.workspace.history_room import MEMORY, Room

from ferrule.core.result import ToolResult
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Operation, Side, State, Write
from ferrule.workspace.snapshots.snapshot_store import StoreLock
from ferrule.workspace.tracker import digest

MANY = 60
REMOVED = (
    "The history of changes was removed while this session was running. A new one was started: earlier changes cannot "
    "be undone."
)
REPLACED = (
    "The history of changes was replaced while this session was running. Changes that the one in its place does not "
    "list cannot be undone."
)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def files(text: bytes) -> dict[str, bytes]:
    return {f"f{n}": text + b"%d" % n for n in range(MANY)}


def remove_at(room: Room, at: int, then: Callable[[], object] | None = None) -> Callable[[int], None]:
    """Take the store away before the change at one position is made."""

    def before_each(position: int) -> None:
        if position == at:
            shutil.rmtree(room.store)
            if then is not None:
                then()

    return before_each


def change_all(room: Room, text: bytes, before_each: Callable[[int], None]) -> None:
    steps = [Write(room.place(name), data) for name, data in files(text).items()]
    room.history.apply(steps, before_each=before_each)


def holds(room: Room, text: bytes) -> bool:
    return {name: room.read(name) for name in files(text)} == files(text)


def test_a_change_after_the_folder_was_removed_goes_into_a_new_history(room: Room) -> None:
    room.write("a", b"1")
    shutil.rmtree(room.store)
    room.write("a", b"2")
    room.write("a", b"3")
    assert room.history.notes == (REMOVED,)
    assert room.history.undo(to=0).refused is None
    assert room.read("a") == b"1"


def test_a_restored_folder_is_gone_on_with(room: Room, tmp_path: Path) -> None:
    room.write("a", b"1")
    room.history.close()
    shutil.copytree(room.store, tmp_path / "backup")
    room.write("a", b"2")
    room.write("a", b"3")
    shutil.rmtree(room.store)
    shutil.copytree(tmp_path / "backup", room.store)
    room.write("b", b"new")
    assert room.history.notes == (REPLACED,)
    assert [group.number for group in room.history.recent()] == [2, 1]
    assert room.history.undo().refused is None
    assert not room.exists("b")
    assert room.history.undo().refused is not None, "what the copy does not know of is not undone blindly"
    assert room.read("a") == b"3"


def test_a_journal_that_is_written_over_where_it_lies_shows_no_traceback(room: Room, tmp_path: Path) -> None:
    room.write("a", b"1")
    room.history.close()
    shutil.copytree(room.store, tmp_path / "backup")
    for n in range(50):
        room.write("a", b"%d" % n)
    shutil.copytree(tmp_path / "backup", room.store, dirs_exist_ok=True)
    for n in range(5):
        room.write("a", b"later %d" % n)
    assert room.read("a") == b"later 4"
    assert room.history.undo().refused is None
    assert room.read("a") == b"later 3"


def test_two_sessions_exclude_each_other_also_after_the_folder_was_removed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    first, second = StoreLock(folder / "lock", 0.05), StoreLock(folder / "lock", 0.05)
    with first.held():
        pass
    shutil.rmtree(folder)
    with second.held(), pytest.raises(PathError, match="in use by another program"), first.held():
        pass
    with first.held(), pytest.raises(PathError, match="in use by another program"), second.held():
        pass
    first.close()
    second.close()


def test_closing_the_old_journal_harms_nothing_of_the_new_one(room: Room, tmp_path: Path) -> None:
    room.write("a", b"1")
    shutil.rmtree(room.store)
    other = Room(tmp_path)
    other.write("b", b"1")
    room.history.close()
    assert (room.store / "journal.db-wal").exists()
    other.write("b", b"2")
    assert [len(group.changes) for group in other.history.recent()] == [1, 1]


@pytest.mark.parametrize("at", [0, 1, MANY // 2, MANY - 1])
def test_removed_in_the_middle_of_many_files_all_change_and_are_on_record(room: Room, at: int) -> None:
    room.batch(**files(b"old "))
    change_all(room, b"new ", remove_at(room, at))
    assert holds(room, b"new ")
    assert room.history.notes == (REMOVED,)
    assert [len(group.changes) for group in room.history.recent()] == [MANY]
    assert room.history.undo().refused is None
    assert holds(room, b"old ")


def test_new_files_keep_their_mode_where_they_are_recorded_anew(room: Room) -> None:
    change_all(room, b"new ", remove_at(room, 5))
    before = room.look()
    assert room.history.undo().refused is None
    assert room.look() == {}
    assert room.history.redo().refused is None
    assert room.look() == before


def test_removed_in_the_middle_of_a_change_that_fails_all_is_as_it_was(room: Room) -> None:
    room.batch(**files(b"old "))

    def fail_later(position: int) -> None:
        remove_at(room, MANY // 2)(position)
        if position == MANY // 2 + 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change_all(room, b"new ", fail_later)
    assert holds(room, b"old ")
    room.write("a", b"1")
    assert [len(group.changes) for group in room.history.recent()] == [1]


def test_another_session_that_starts_a_new_history_meanwhile_shares_it(room: Room, tmp_path: Path) -> None:
    other = Room(tmp_path)
    room.batch(**files(b"old "))
    change_all(room, b"new ", remove_at(room, 9, lambda: other.write("other", b"1")))
    assert [len(group.changes) for group in room.history.recent()] == [MANY, 1]
    assert room.history.undo(to=0).refused is None
    assert holds(room, b"old ")
    assert not room.exists("other")


@pytest.mark.parametrize("back", [True, False])
def test_removed_in_the_middle_of_an_undo_or_redo_it_goes_all_the_way(room: Room, back: bool) -> None:
    room.batch(**files(b"old "))
    room.batch(**files(b"new "))
    if not back:
        room.history.undo()
    put, count = room.history._files.put, 0

    def counted(*arguments: object, **named: object) -> None:
        nonlocal count
        count += 1
        if count == MANY // 2:
            shutil.rmtree(room.store)
        put(*arguments, **named)  # type: ignore[arg-type]

    room.history._files.put = counted
    report = room.history.undo() if back else room.history.redo()
    assert holds(room, b"old " if back else b"new ")
    assert "history of changes was removed meanwhile" in str(report)


def test_removed_while_the_changes_of_a_command_are_made(room: Room) -> None:
    room.batch(**files(b"old "))
    contents = {digest(data): data for text in (b"old ", b"new ") for data in files(text).values()}
    opened = 0

    def content(change: Change, side: Side) -> BinaryIO:
        nonlocal opened
        opened += 1
        if opened == 2 * MANY + MANY // 2:  # both sides of all were kept, and half of them made
            shutil.rmtree(room.store)
        state = change.before if side is Side.BEFORE else change.after
        assert state is not None
        path = room.tree.parent / f"content-{opened}"
        path.write_bytes(contents[state.content])
        return path.open("rb")

    def mode(name: str) -> int:
        return (room.tree / name).stat().st_mode & 0o777

    room.history.make(
        [
            Change(
                0,
                room.tree / name,
                Operation.CHANGE,
                None,
                State(digest(files(b"old ")[name]), mode(name)),
                State(digest(data), mode(name)),
                0,
                True,
            )
            for name, data in files(b"new ").items()
        ],
        content,
    )
    assert holds(room, b"new ")
    assert room.history.undo().refused is None
    assert holds(room, b"old ")


def test_a_folder_that_is_removed_again_and_again_ends_in_words(room: Room) -> None:
    room.write("a", b"1")
    keep = room.history._store.keep

    def removed(*arguments: object, **named: object) -> bool:
        shutil.rmtree(room.store, ignore_errors=True)
        return keep(*arguments, **named)  # type: ignore[arg-type]

    room.history._store.keep = removed
    with pytest.raises(PathError, match="The history of changes cannot be kept"):
        room.write("a", b"2")
    assert room.read("a") == b"1"


def test_a_missing_change_of_the_journal_is_damage_and_no_index_error(room: Room) -> None:
    number = room.write("a", b"1")
    with room.history._store.locked() as journal, pytest.raises(sqlite3.DatabaseError, match="change 2 is gone"):
        journal.group(number + 1)


TOOLS: dict[str, tuple[str, dict[str, str | bool]]] = {
    "Write": ("Write", {"file_path": "new", "content": "1"}),
    "Edit": ("Edit", {"file_path": "a", "old_string": "old", "new_string": "new"}),
    "replacement": ("FileSearch", {"pattern": "old", "replace_with": "new", "preview_only": False}),
    "Bash": ("Bash", {"command": "echo new > a"}),
    "a failure": ("Edit", {"file_path": "a", "old_string": "nowhere", "new_string": "new"}),
}


async def meet(tmp_path: Path, lose: Callable[[Path], object], name: str) -> tuple[ToolResult, ToolResult]:
    """The results of the call that meets the loss, and of the next one."""
    store = tmp_path / "store"
    async with shell_desk(tmp_path, history_folder=store, single_call=True) as desk:
        (desk.workspace / "a").write_text("old\n")
        await desk.runtime.run("Write", {"file_path": "first", "content": "1"})
        lose(store)
        tool, arguments = TOOLS[name]
        found = await desk.runtime.run(tool, arguments)
        return found, await desk.runtime.run("Write", {"file_path": "last", "content": "1"})


@pytest.mark.parametrize("name", [name for name in TOOLS if name != "a failure"])
async def test_whatever_tool_meets_it_first_tells_the_model_once(tmp_path: Path, name: str) -> None:
    found, after = await meet(tmp_path, shutil.rmtree, name)
    assert found.success, found.llm_content
    assert found.metadata["notes"] == [REMOVED]
    assert found.llm_content.endswith(f"\n[{REMOVED}]")
    assert (tmp_path / "ws" / "a").read_text() == ("old\n" if name == "Write" else "new\n")
    assert "notes" not in after.metadata


async def test_a_broken_journal_is_told_by_whatever_meets_it_first(tmp_path: Path) -> None:
    def damage(store: Path) -> None:
        (store / "journal.db").unlink()
        (store / "journal.db-wal").unlink()
        (store / "journal.db").write_bytes(b"garbage" * 1000)

    found, after = await meet(tmp_path, damage, "Bash")
    assert found.llm_content.replace(str(tmp_path), "/data") == snapshot("""\
[Done, with no output.]
[The history of changes was replaced while this session was running. Changes that the one in its place does not list cannot be undone.]
[The history of changes could not be read (file is not a database) and was set aside as `/data/store/set-aside/journal.db`. A new one was started: earlier changes cannot be undone.]\
""")
    assert "notes" not in after.metadata


async def test_a_call_that_does_not_meet_it_leaves_it_to_the_next(tmp_path: Path) -> None:
    found, after = await meet(tmp_path, shutil.rmtree, "a failure")
    assert "notes" not in found.metadata
    assert after.metadata["notes"] == [REMOVED]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from(["write", "batch", "batch removed", "remove", "undo", "redo", "restart"]),
        min_size=1,
        max_size=12,
    )
)
def test_whenever_it_is_removed_undo_leads_back_to_what_was_there_then(work: list[str]) -> None:
    """What was done since the last loss is undone exactly; what was done before stays as it was."""
    import tempfile

    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        room = Room(Path(folder))
        floor = room.look()
        for number, one in enumerate(work, 1):
            before = room.look()
            if one == "write":
                room.write("f0", b"%d" % number)
            elif one.startswith("batch"):
                change_all(room, b"%d " % number, remove_at(room, 30) if one == "batch removed" else lambda _: None)
                assert holds(room, b"%d " % number)
                floor = before if one == "batch removed" else floor
            elif one == "remove":
                shutil.rmtree(room.store, ignore_errors=True)
                floor = before
            elif one == "restart":
                room.again()
            else:
                report = room.history.undo() if one == "undo" else room.history.redo()
                assert report.refused is None
        assert room.history.undo(to=0).refused is None
        assert room.look() == floor
        room.history.close()
