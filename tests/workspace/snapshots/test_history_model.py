"""Any sequence of changes, undos and redos agrees with a model of what each group did to which file."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.workspace.history_room import MEMORY, Room

from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Delete, Move, SetMode, Step, Write

NAMES = st.sampled_from(["a", "b", "dir/c", "dir/deep/d", "other/e é", "other/f\nf"])
CONTENTS = st.one_of(st.binary(max_size=8), st.sampled_from([b"", b"same", b"x" * 9000]))
MODES = st.sampled_from([0o600, 0o644, 0o755, 0o400])
KINDS = st.sampled_from(["write", "write", "write", "delete", "move", "mode"])
ONE = st.tuples(KINDS, NAMES, NAMES, CONTENTS, MODES)

Tree = dict[str, tuple[int, bytes] | None]


@dataclass
class Made:
    """A group: what it left each of its files as; `undone` counts up, so that the last undone is redone first."""

    point: int
    effect: Tree
    undone: int = 0
    dropped: bool = False


class UndoAgreesWithTheModel(RuleBasedStateMachine):
    @initialize(old=CONTENTS)
    def begin(self, old: bytes) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.room = Room(self.folder)
        (self.room.tree / "b").write_bytes(old)
        self.first = self.room.look()
        self.groups: list[Made] = []
        self.undos = 0

    @rule(wanted=st.lists(ONE, min_size=1, max_size=3))
    def change(self, wanted: list[tuple[str, str, str, bytes, int]]) -> None:
        steps: list[Step] = []
        used: set[str] = set()
        for kind, name, other, data, mode in wanted:
            if used.isdisjoint((name, other)):
                used.update((name, other))
                steps.append(self.step(kind, name, other, data, mode))
        before = self.room.look()
        try:
            group = self.room.history.apply(steps)
        except PathError:
            assert self.room.look() == before
            return
        if group is None:
            assert self.room.look() == before
            return
        now = self.room.look()
        touched = {str(path.relative_to(self.room.tree)) for path in group.paths}
        self.groups.append(Made(group.number, {name: now.get(name) for name in touched}))
        for one in self.groups:
            if one.undone and not one.dropped and not touched.isdisjoint(one.effect):
                one.dropped = True
                touched.update(one.effect)

    def step(self, kind: str, name: str, other: str, data: bytes, mode: int) -> Step:
        place = self.room.place(name)
        match kind:
            case "write":
                return Write(place, data, mode if mode == 0o755 else None)
            case "delete":
                return Delete(place)
            case "move" if name != other:
                return Move(place, self.room.place(other))
            case _:
                return SetMode(place, mode)

    def take_back(self, to: int = -1) -> int:
        chosen = [one for one in reversed(self.groups) if not one.undone and one.point > to]
        for one in chosen[: 1 if to < 0 else None]:
            self.undos += 1
            one.undone = self.undos
        return len(chosen[: 1 if to < 0 else None])

    def bring_again(self, to: int = -1) -> int:
        chosen = [one for one in self.groups if one.undone and not one.dropped and (to < 0 or one.point <= to)]
        chosen = sorted(chosen, key=lambda one: -one.undone)[: 1 if to < 0 else None]
        for one in chosen:
            one.undone = 0
        return len(chosen)

    @rule()
    def undo(self) -> None:
        report = self.room.history.undo()
        assert report.refused is None
        assert len(report.groups) == self.take_back()

    @rule()
    def redo(self) -> None:
        report = self.room.history.redo()
        assert report.refused is None
        assert len(report.groups) == self.bring_again()

    @rule(data=st.data())
    def undo_to(self, data: Any) -> None:
        to = data.draw(st.sampled_from([0, *(one.point for one in self.groups)]))
        report = self.room.history.undo(to=to)
        assert report.refused is None
        assert len(report.groups) == self.take_back(to)

    @rule(data=st.data())
    def redo_to(self, data: Any) -> None:
        to = data.draw(st.sampled_from([0, *(one.point for one in self.groups)]))
        report = self.room.history.redo(to=to)
        assert report.refused is None
        assert len(report.groups) == self.bring_again(to)

    @rule()
    def start_again(self) -> None:
        self.room.again()

    def files(self) -> Tree:
        return {name: file for name, file in self.room.look().items() if file is not None}

    @invariant()
    def the_tree_is_the_models(self) -> None:
        expected = dict(self.first)
        for one in self.groups:
            if not one.undone:
                expected.update(one.effect)
        assert self.files() == {name: file for name, file in expected.items() if file is not None}

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            full = self.files()
            count = len(self.room.history.undo(to=0).groups)
            assert self.room.look() == self.first
            for _ in range(count):
                assert len(self.room.history.redo().groups) == 1
            assert self.files() == full
            assert self.room.history.notes == ()
        finally:
            self.room.history.close()
            shutil.rmtree(self.folder)


UndoAgreesWithTheModel.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestUndo = UndoAgreesWithTheModel.TestCase
