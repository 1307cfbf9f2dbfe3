from __future__ import annotations

from pathlib import Path

from ferrule.workspace.paths import Paths
from ferrule.workspace.snapshots.changes import Caps, Change, Operation, Side, State, Write


def test_the_ends_of_a_change() -> None:
    old, new = State("1", 0o644), State("2", 0o755)
    change = Change(1, Path("/a"), Operation.CHANGE, None, old, new, 0, covered=True)
    assert change.at(Side.BEFORE) == {Path("/a"): old}
    assert change.at(Side.BEFORE.opposite) == {Path("/a"): new}
    assert change.mode_matters


def test_the_ends_of_a_move() -> None:
    state = State("", 0o644)
    move = Change(1, Path("/a"), Operation.MOVE, Path("/b"), state, state, 0, covered=True)
    assert move.at(Side.BEFORE) == {Path("/a"): state, Path("/b"): None}
    assert move.at(Side.AFTER) == {Path("/a"): None, Path("/b"): state}
    assert move.paths == (Path("/a"), Path("/b"))


def test_a_step_does_not_print_what_it_writes(tmp_path: Path) -> None:
    assert "secret" not in repr(Write(Paths([tmp_path]).locate("a"), b"secret"))


def test_the_caps_are_those_of_the_docs() -> None:
    text = (Path(__file__).parents[3] / "docs" / "concepts" / "undo.md").read_text(encoding="utf-8")
    caps = Caps()
    for shown in (f"{caps.total >> 20} MB", f"{caps.age / 86400:g} days", f"{caps.changes:,}", f"{caps.file >> 20} MB"):
        assert shown in text
