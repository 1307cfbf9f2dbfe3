"""Many files changed as one: quick, whole or not at all, and after a kill as if nothing had begun."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Delete, Step, Write
from ferrule.workspace.snapshots.history import History
from ferrule.workspace.tracker import digest

MANY = 90


def room(tmp_path: Path) -> tuple[Path, History, list[Step]]:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    paths = Paths([workspace])
    for number in range(MANY):
        file = workspace / f"d{number % 3}" / f"{number}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"old {number}\n")
        file.chmod(0o640)
    steps: list[Step] = [
        Write(paths.find(f"d{number % 3}/{number}.txt"), b"new %d\n" % number, expect=digest(b"old %d\n" % number))
        for number in range(1, MANY)
    ]
    steps += [Delete(paths.find("d0/0.txt")), Write(paths.locate("made/deep/new.txt"), b"new\n", expect="")]
    return workspace, History(tmp_path / "history", paths), steps


def contents(workspace: Path) -> dict[str, bytes]:
    return {str(one.relative_to(workspace)): one.read_bytes() for one in workspace.rglob("*") if one.is_file()}


def test_all_are_changed_and_all_are_undone(tmp_path: Path) -> None:
    workspace, history, steps = room(tmp_path)
    before = contents(workspace)
    group = history.apply(steps)
    assert group is not None
    after = contents(workspace)
    assert len(after) == MANY
    assert after["d1/1.txt"] == b"new 1\n"
    assert after["made/deep/new.txt"] == b"new\n"
    assert (workspace / "d1/1.txt").stat().st_mode & 0o777 == 0o640
    history.undo()
    assert contents(workspace) == before
    assert not (workspace / "made").exists()
    history.redo()
    assert contents(workspace) == after


def test_the_disk_is_waited_for_a_few_times_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, history, steps = room(tmp_path)
    waits: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _opened: waits.append("file"))  # type: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(os, "sync", lambda: waits.append("all"))
    replace = os.replace

    def noted(*given: Any, **named: Any) -> None:
        if named["src_dir_fd"] is not None:  # in the workspace; in the store otherwise
            waits.append("put")
        replace(*given, **named)

    monkeypatch.setattr(os, "replace", noted)
    history.apply(steps)
    assert "file" not in waits
    assert waits[:2] == ["all", "all"]  # kept, and staged, before the first file changes
    assert waits.count("put") == len(steps) - 1
    assert waits[-1] == "all"


def test_one_that_changes_meanwhile_stops_all(tmp_path: Path) -> None:
    workspace, history, steps = room(tmp_path)
    before = contents(workspace)

    def interfere(position: int) -> None:
        if position == 50:
            (workspace / "d0/60.txt").write_text("somebody else\n")

    with pytest.raises(PathError, match="changed meanwhile"):
        history.apply(steps, before_each=interfere)
    assert contents(workspace) == {**before, "d0/60.txt": b"somebody else\n"}
    assert not (workspace / "made").exists()


@pytest.mark.parametrize("moment", [0, 40, MANY])
def test_a_kill_leaves_nothing_half_done(tmp_path: Path, moment: int) -> None:
    workspace, history, steps = room(tmp_path)
    before = contents(workspace)
    history.close()
    child = os.fork()
    if child == 0:

        def die(position: int) -> None:
            if position == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        History(tmp_path / "history", Paths([workspace])).apply(steps, before_each=die)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert contents(workspace) != before  # what was staged, or changed, is still there
    assert History(tmp_path / "history", Paths([workspace])).recent() == []
    assert contents(workspace) == before
    assert not (workspace / "made").exists()
