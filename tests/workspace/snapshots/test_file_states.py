from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Operation, Side, State
from ferrule.workspace.snapshots.file_states import FileStates
from ferrule.workspace.tracker import digest


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    paths = Paths([tmp_path])
    state, data = FileStates(paths, 4).read(paths.locate("a"))
    assert state is not None
    assert (state.digest, data) == ("", None)
    assert FileStates(paths, 5).read(paths.locate("a"))[1] == b"12345"


def test_pipes_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    paths = Paths([tmp_path])
    with pytest.raises(PathError, match="is a pipe"):
        FileStates(paths, 5).look(paths.locate("pipe"))


def test_touching_a_file_is_no_change_and_neither_is_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    files = FileStates(Paths([tmp_path]), 100)
    change = Change(1, tmp_path / "a", Operation.CHANGE, None, State("x", 0o644), State(digest(b"1"), 0o644), 0, True)
    os.utime(tmp_path / "a", (0, 0))
    (tmp_path / "a").chmod(0o600)
    assert files.is_at(change, Side.AFTER)
    assert not files.is_at(change, Side.BEFORE)


def test_a_mode_is_set_on_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "a").chmod(0)
    files = FileStates(Paths([tmp_path]), 100)
    change = Change(1, tmp_path / "a", Operation.MODE, None, State("", 0o644), State("", 0), 0, covered=True)
    files.put(change, Side.BEFORE, lambda _: b"")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
