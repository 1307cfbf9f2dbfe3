"""Any sequence of changes, undos and redos agrees with a list of trees."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.workspace.history_room import MEMORY, Room

from ferrule.workspace.changes import Delete, Move, SetMode, Step, Write
from ferrule.workspace.problems import PathProblem

NAMES = st.sampled_from(["a", "b", "dir/c", "dir/deep/d", "other/e é", "other/f\nf"])
CONTENTS = st.one_of(st.binary(max_size=8), st.sampled_from([b"", b"same", b"x" * 9000]))
MODES = st.sampled_from([0o600, 0o644, 0o755, 0o400])
KINDS = st.sampled_from(["write", "write", "write", "delete", "move", "mode"])
ONE = st.tuples(KINDS, NAMES, NAMES, CONTENTS, MODES)


class UndoAgreesWithTheTrees(RuleBasedStateMachine):
    """`trees[n]` is the tree after the n-th group; `at` is where we are in it."""

    @initialize(old=CONTENTS)
    def begin(self, old: bytes) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.room = Room(self.folder)
        (self.room.tree / "b").write_bytes(old)
        self.trees = [self.room.look()]
        self.points = [0]
        self.at = 0

    @rule(wanted=st.lists(ONE, min_size=1, max_size=3))
    def change(self, wanted: list[tuple[str, str, str, bytes, int]]) -> None:
        steps: list[Step] = []
        used: set[str] = set()
        for kind, name, other, data, mode in wanted:
            if name in used or other in used:
                continue
            used.update({name, other})
            place = self.room.place(name)
            match kind:
                case "write":
                    steps.append(Write(place, data, mode if mode == 0o755 else None))
                case "delete":
                    steps.append(Delete(place))
                case "move" if name != other:
                    steps.append(Move(place, self.room.place(other)))
                case _:
                    steps.append(SetMode(place, mode))
        try:
            group = self.room.history.apply(steps)
        except PathProblem as problem:
            assert problem.code in ("missing", "exists")
            return
        if group is None:
            return
        # A change after an undo leaves no way forward for what it touched; what it did not touch stays redoable,
        # which this model does not follow, so it makes those give up too.
        touched = [path for group in self.room.history.recent(500) if group.phase == "undone" for path in group.paths]
        self.trees[self.at + 1 :] = [self.room.look()]
        self.points[self.at + 1 :] = [group.changes[-1].seq]
        self.at += 1
        self.stale = bool(touched)

    stale = False

    @rule()
    def undo(self) -> None:
        report = self.room.history.undo()
        assert report.refused is None
        assert len(report.groups) == (1 if self.at else 0)
        self.at = max(self.at - 1, 0)

    @precondition(lambda self: not self.stale)
    @rule()
    def redo(self) -> None:
        report = self.room.history.redo()
        assert report.refused is None
        assert len(report.groups) == (1 if self.at < len(self.trees) - 1 else 0)
        self.at = min(self.at + 1, len(self.trees) - 1)

    @rule(data=st.data())
    def undo_to(self, data: Any) -> None:
        to = data.draw(st.integers(0, self.at))
        assert self.room.history.undo(to=self.points[to]).refused is None
        self.at = to

    @precondition(lambda self: not self.stale)
    @rule(data=st.data())
    def redo_to(self, data: Any) -> None:
        to = data.draw(st.integers(self.at, len(self.trees) - 1))
        assert self.room.history.redo(to=self.points[to]).refused is None
        self.at = to

    @rule()
    def start_again(self) -> None:
        self.room.again()

    @invariant()
    def the_tree_is_the_models(self) -> None:
        assert self.room.look() == self.trees[self.at]

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self.room.history.undo(to=0)
            assert self.room.look() == self.trees[0]
            self.room.history.redo(to=self.points[self.at])
            assert self.room.look() == self.trees[self.at]
            assert self.room.history.notes == ()
        finally:
            self.room.history.close()
            shutil.rmtree(self.folder)


UndoAgreesWithTheTrees.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestUndo = UndoAgreesWithTheTrees.TestCase
