"""What the calls of one session share: paths, what was read, and the history."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.workspace.desk import Desk

from ferrule import Decision, Environment, Invocation, RulePolicy, Session, Touch, reads, writes
from ferrule.workspace.files import Files, files_of, history_folder


def test_a_session_has_one_set_of_files_however_many_ask_at_once(tmp_path: Path) -> None:
    session = Session(workspace=tmp_path)
    ready, found = threading.Barrier(8), list[Files]()

    def ask() -> None:
        ready.wait()
        found.append(files_of(session))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_a_session_that_moves_keeps_what_it_read(desk: Desk) -> None:
    desk.put("sub/f.txt", "one\n")
    assert desk.read("sub/f.txt").success
    desk.session.working_directory = desk.workspace / "sub"
    assert desk.edit("f.txt", "one", "two").success
    assert desk.bytes_of("sub/f.txt") == b"two\n"


def test_reading_makes_no_history(desk: Desk, tmp_path: Path) -> None:
    desk.seen("f.txt", "one\n")
    assert not (tmp_path / "data").exists()
    assert desk.write("new.txt", "one\n").success
    assert (tmp_path / "data/history").is_dir()


def test_snapshots_lie_outside_the_workspace_one_store_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    first, second = history_folder(tmp_path / "a/ws"), history_folder(tmp_path / "b/ws")
    assert first != second
    assert first.parent == second.parent == tmp_path / "data/history"
    assert first.name.startswith("ws-")
    assert history_folder(Path("/")).name.startswith("root-")


def test_a_session_may_choose_where_its_snapshots_lie(desk: Desk, tmp_path: Path) -> None:
    chosen = Desk(desk.workspace, environment=Environment(history_folder=tmp_path / "chosen"))
    assert chosen.write("f.txt", "x").success
    assert (tmp_path / "chosen").is_dir()
    assert not (tmp_path / "data").exists()


def test_two_sessions_in_one_workspace_share_the_history(desk: Desk) -> None:
    assert desk.write("f.txt", "one\n").success
    other = Desk(desk.workspace)
    other.files.history.undo()
    assert desk.names() == []


def test_permission_and_schedule_go_by_the_real_path(desk: Desk) -> None:
    """T6: a rule for a folder cannot be passed by a link, and two names of one file never run together."""
    desk.put("real/f.txt", "one\n")
    (desk.workspace / "link").symlink_to("real/f.txt")
    (desk.workspace / "folder").symlink_to("real")
    wanted = str(desk.workspace / "real/f.txt")
    asked: list[Touch] = []

    class Watching(RulePolicy):
        def decide(self, invocation: Invocation, session: Session) -> Decision:
            asked.extend(invocation.touches)
            return super().decide(invocation, session)

    desk.runtime.policy = Watching(mode="accept-edits")
    desk.read("link")
    desk.write("folder/new.txt", "x")
    assert asked == [reads("path", wanted), writes("path", desk.workspace / "real/new.txt")]
