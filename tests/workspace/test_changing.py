"""One change of one file, as every tool makes it: in turn, undoable, and shown (P11)."""
# ruff: noqa: E501 - words for a model stand as they are

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused
from tests.workspace.nobody import as_nobody

from ferrule import RawCall, ToolResult
from ferrule.workspace import atomic as locks
from ferrule.workspace import changing
from ferrule.workspace.files import history_folder
from ferrule.workspace.snapshots.changes import Group, Phase
from ferrule.workspace.snapshots.journal import Journal
from ferrule.workspace.snapshots.snapshot_store import StoreLock

LINES = "".join(f"line {number:02}\n" for number in range(50))
WANTED = LINES.replace("line", "done").encode()


def edits() -> list[RawCall]:
    return [
        RawCall("Edit", {"file_path": "f.txt", "old_string": f"line {number:02}", "new_string": f"done {number:02}"})
        for number in range(50)
    ]


# At once


def test_fifty_edits_at_once_all_land(desk: Desk) -> None:
    desk.seen("f.txt", LINES)

    async def all_at_once() -> list[ToolResult]:
        return await asyncio.gather(*map(desk.runtime.run, edits()))

    assert all(result.success for result in asyncio.run(all_at_once()))
    assert desk.bytes_of("f.txt") == WANTED
    assert desk.names() == ["f.txt"]


def test_fifty_edits_in_a_batch_all_land_and_can_all_be_taken_back(desk: Desk) -> None:
    desk.seen("f.txt", LINES)
    assert all(result.success for result in desk.batch(*edits()))
    assert desk.bytes_of("f.txt") == WANTED
    for _ in range(50):
        assert desk.files.history.undo().groups
    assert desk.bytes_of("f.txt") == LINES.encode()


def test_edits_from_several_event_loops_and_through_two_names_all_land(desk: Desk) -> None:
    """Each loop in a thread of its own, one of them by way of a link."""
    desk.seen("f.txt", LINES)
    (desk.workspace / "link.txt").symlink_to("f.txt")
    calls = edits()

    def work(mine: list[RawCall], name: str) -> list[ToolResult]:
        async def run() -> list[ToolResult]:
            return [
                await desk.runtime.run("Edit", {**dict(call.arguments), "file_path": name})  # type: ignore[arg-type]
                for call in mine
            ]

        return asyncio.run(run())

    async def both() -> tuple[list[ToolResult], list[ToolResult]]:
        return await asyncio.gather(
            asyncio.to_thread(work, calls[::2], "f.txt"), asyncio.to_thread(work, calls[1::2], "link.txt")
        )

    results = [result for part in asyncio.run(both()) for result in part]
    assert [result.llm_content for result in results if not result.success] == []
    assert desk.bytes_of("f.txt") == WANTED


def test_two_sessions_never_overwrite_each_other_unseen(desk: Desk) -> None:
    """Whoever comes second is refused, and told to read again: nothing is lost silently."""
    desk.seen("f.txt", LINES)
    other = Desk(desk.workspace)
    assert other.read("f.txt").success

    async def both() -> list[ToolResult]:
        calls = edits()
        return await asyncio.gather(*map(desk.runtime.run, calls[:10]), *map(other.runtime.run, calls[10:20]))

    results = asyncio.run(both())
    text = desk.bytes_of("f.txt").decode()
    for number, result in enumerate(results):
        assert (f"done {number:02}" in text) == result.success, result.llm_content
        if not result.success:
            refused(result, "changed")
    assert any(result.success for result in results)


# Shown


def test_every_change_has_a_unified_diff_and_a_number_to_undo_it_by(desk: Desk) -> None:
    desk.seen("f.txt", "one\ntwo\nthree\n")
    edited = desk.edit("f.txt", "two", "2")
    assert edited.metadata["diff"] == snapshot("""\
--- a/f.txt
+++ b/f.txt
@@ -1,3 +1,3 @@
 one
-two
+2
 three
""")
    assert {key: edited.metadata[key] for key in ("added", "removed", "change")} == snapshot(
        {"added": 1, "removed": 1, "change": 1}
    )
    created = desk.write("new.txt", "first\n")
    assert created.metadata["diff"] == snapshot("""\
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+first
""")
    assert desk.multi_edit("f.txt", ("one", "1"), ("three", "3")).metadata["diff"] == snapshot("""\
--- a/f.txt
+++ b/f.txt
@@ -1,3 +1,3 @@
-one
+1
 2
-three
+3
""")
    assert desk.write("f.txt", "all new\n").metadata["diff"] == snapshot("""\
--- a/f.txt
+++ b/f.txt
@@ -1,3 +1 @@
-1
-2
-3
+all new
""")


def test_writing_what_is_there_already_changes_nothing(desk: Desk) -> None:
    path = desk.seen("f.txt", "one\n")
    before = path.stat()
    result = desk.write("f.txt", "one\n")
    assert result.success
    assert (result.metadata["change"], result.metadata["diff"]) == (None, "")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_change_says_whose_it_was(desk: Desk) -> None:
    desk.session.turn = "7"
    result = desk.write("f.txt", "x")
    [group] = desk.files.history.recent()
    origin = group.origin
    assert (origin.session, origin.turn, origin.call, origin.tool) == (desk.session.id, "7", result.call_id, "Write")
    assert group.number == result.metadata["change"]


# Taken back


def test_undo_gives_the_bytes_back_and_redo_gives_them_again(desk: Desk) -> None:
    first = "é\r\nsecond\r\n".encode("utf-16")
    path = desk.seen("f.txt", first)
    path.chmod(0o751)
    assert desk.edit("f.txt", "second", "2").success
    assert desk.write("deep/new/g.txt", "x").success
    after = desk.bytes_of("f.txt")
    history = desk.files.history
    history.undo()
    assert desk.names() == ["f.txt"]
    history.undo()
    assert (desk.bytes_of("f.txt"), path.stat().st_mode & 0o777) == (first, 0o751)
    history.redo()
    history.redo()
    assert (desk.bytes_of("f.txt"), desk.bytes_of("deep/new/g.txt")) == (after, b"x")


def test_a_refused_change_leaves_no_trace_in_the_history(desk: Desk) -> None:
    desk.seen("f.txt", "one\n")
    for result in (desk.edit("f.txt", "absent", "x"), desk.write("../x", "x"), desk.edit("none", "a", "b")):
        assert not result.success
    assert desk.files.history.recent() == []
    assert desk.names() == ["f.txt"]


def test_undo_refuses_where_someone_else_changed_the_file(desk: Desk) -> None:
    desk.seen("f.txt", "one\n")
    assert desk.edit("f.txt", "one", "two").success
    desk.put("f.txt", "theirs\n")
    report = desk.files.history.undo()
    assert report.refused is not None
    assert desk.bytes_of("f.txt") == b"theirs\n"
    assert desk.files.history.recent()[0].phase is Phase.DONE


# Refused


def test_a_file_that_is_too_large_is_left_to_other_means(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    path = desk.put("big.log", b"")
    os.truncate(path, 64_000_001)
    for result in (desk.write("big.log", "x"), desk.edit("big.log", "a", "b")):
        assert refused(result, "too_large").llm_content == snapshot("""\
Error (execution_error): `big.log` has 64,000,001 bytes; files over 64,000,000 are not changed by this tool.

Suggestion: Change it with a command, or split it.\
""")
    assert path.stat().st_size == 64_000_001
    monkeypatch.setattr(changing, "MOST_EDITABLE", 5)
    desk.seen("small.txt", "12345")
    assert desk.edit("small.txt", "1", "one").success
    refused(desk.edit("small.txt", "one", "1"), "too_large")


def test_plan_mode_changes_nothing(desk: Desk) -> None:
    planning = Desk(desk.workspace, mode="plan")
    desk.put("f.txt", "one\n")
    assert planning.read("f.txt").success
    for result in (planning.write("f.txt", "x"), planning.edit("f.txt", "one", "x"), planning.write("new.txt", "x")):
        assert not result.success
        assert result.error is not None
        assert result.error.kind == "permission_error"
    assert planning.write("new.txt", "x").llm_content == snapshot("""\
Error (permission_error): `Write` was not run: mode plan runs only read-only tools.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")
    assert (desk.names(), desk.bytes_of("f.txt")) == (["f.txt"], b"one\n")


def test_with_nobody_to_ask_a_change_is_refused(desk: Desk) -> None:
    careful = Desk(desk.workspace, mode="default")
    assert not careful.write("new.txt", "x").success
    assert desk.names() == []


def test_a_session_in_a_sub_directory_changes_files_there(desk: Desk, tmp_path: Path) -> None:
    (desk.workspace / "sub").mkdir()
    below = Desk(desk.workspace, working_directory=desk.workspace / "sub")
    assert below.write("f.txt", "one\n").success
    assert below.write("../g.txt", "one\n").success
    assert desk.names() == ["g.txt", "sub", "sub/f.txt"]
    below.files.history.undo()
    below.files.history.undo()
    assert desk.names() == ["sub"]


def test_a_file_that_cannot_be_read_any_more_is_not_changed(desk: Desk) -> None:
    """Neither «not read yet» nor «changed since»: nobody can tell."""
    desk.workspace.chmod(0o755)
    file = desk.seen("f.txt", "one\n")
    file.chmod(0)
    with as_nobody():
        results = [desk.write("f.txt", "two\n"), desk.edit("f.txt", "one", "two")]
    for result in results:
        assert refused(result, "unverified").llm_content == snapshot("""\
Error (permission_error): Whether `f.txt` is still as you read it could not be verified, because it cannot be read: permission denied. It was not changed.

Suggestion: Ask the user to make it readable, or write to another file.\
""")
    file.chmod(0o644)
    assert desk.bytes_of("f.txt") == b"one\n"


# Told to stop


def test_a_change_that_is_told_to_stop_while_it_waits_is_not_made_and_holds_up_nobody(desk: Desk) -> None:
    """P6, P11: another program works on the history meanwhile."""
    desk.write("a.txt", "one\n")
    folder = history_folder(desk.workspace)

    async def main() -> ToolResult:
        with StoreLock(folder / "lock", 10).held():
            running = asyncio.create_task(desk.runtime.run(RawCall("Write", {"file_path": "b.txt", "content": "2"})))
            while not locks._locks:  # pyright: ignore[reportPrivateUsage]
                await asyncio.sleep(0.001)
            running.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not (desk.workspace / "b.txt").exists()
        return await desk.runtime.run(RawCall("Write", {"file_path": "c.txt", "content": "3"}))

    assert asyncio.run(main()).success
    assert [str(one.changes[0].path.name) for one in desk.files.history.recent()] == ["c.txt", "a.txt"]


def test_a_change_that_is_made_although_it_was_cancelled_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_middle, late = threading.Event(), threading.Event()
    finish = Journal.finish

    def slowly(self: Journal, group: Group, modes: Mapping[int, int]) -> None:
        in_the_middle.set()
        late.wait()
        finish(self, group, modes)

    async def main() -> ToolResult:
        call = RawCall("Write", {"file_path": "a.txt", "content": "1"})
        running = asyncio.create_task(desk.runtime.run(call))
        await asyncio.to_thread(in_the_middle.wait)
        desk.runtime.cancel(call.id)
        for _ in range(5):
            await asyncio.sleep(0)
        late.set()
        return await running

    monkeypatch.setattr(Journal, "finish", slowly)
    assert asyncio.run(main()).llm_content == snapshot("""\
Error (cancelled_error): `Write` was cancelled. It returned before it could be stopped, so it may have done its work.

Suggestion: Check whether it is done before you do it again.\
""")
    assert desk.bytes_of("a.txt") == b"1"
    assert [str(one.changes[0].path.name) for one in desk.files.history.recent()] == ["a.txt"]
