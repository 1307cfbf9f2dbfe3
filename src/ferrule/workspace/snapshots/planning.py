"""From the steps that were asked for to the changes they are, with the old contents safely kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import NOTHING, Change, Delete, Move, Operation, SetMode, State, Step, Write
from ferrule.workspace.snapshots.content_store import NewContents
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ferrule.workspace.paths import Place
    from ferrule.workspace.snapshots.file_states import FileStates
    from ferrule.workspace.snapshots.snapshot_store import SnapshotStore


_MOST_NAMED = 5


class ChangedMeanwhile(PathProblem):
    """A file is not what the step expected."""

    def __init__(self, place: Place, now: State | None) -> None:
        super().__init__(
            "changed",
            phrase("`{place}` does not exist any more, and was left as it is.", place=place)
            if now is None
            else phrase("`{place}` has changed meanwhile, and was left as it is.", place=place),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Read it again, then make the change."),
        )


class NotAsBefore(PathProblem):
    """Something is not as it was when a command began that ran aside from the workspace."""

    def __init__(self, *shown: str) -> None:
        names = ", ".join(f"`{one}`" for one in shown[:_MOST_NAMED])
        super().__init__(
            "changed",
            phrase("{places} has changed since the command began, so nothing of it was kept.", places=names)
            if len(shown) == 1
            else phrase("{places} have changed since the command began, so nothing of it was kept.", places=names)
            if len(shown) <= _MOST_NAMED
            else phrase(
                "{places} and {count} more have changed since the command began, so nothing of it was kept.",
                places=names,
                count=f"{len(shown) - _MOST_NAMED:,}",
            ),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Run the command again."),
        )


@dataclass(slots=True)
class Plan:
    """What will be done: `contents` are new in the store and how much room they take, `data` what files hold before
    and after.
    """

    changes: list[Change] = field(default_factory=list[Change])
    contents: NewContents = field(default_factory=NewContents)
    data: dict[str, bytes] = field(default_factory=dict[str, bytes])
    through_hard_links: set[Path] = field(default_factory=set["Path"])
    durable: bool = True
    """Whether what it needs must outlast a power cut before anything is changed.

    So it must where something would be gone for good, or half done. One file that is written is old or new after a
    power cut, whatever the history knows of it; to wait for the disk three times more would only keep its undo, which
    the kernel writes to the disk half a minute later anyway. A kill loses nothing of either.
    """


class _Planner:
    def __init__(self, store: SnapshotStore, files: FileStates, *, durable: bool) -> None:
        self._store, self._files = store, files
        self.plan = Plan(durable=durable)
        self._needed: set[str] = set()

    def add(self, step: Step) -> None:
        match step:
            case Write():
                self._write(step)
            case Delete():
                self._delete(step)
            case Move():
                self._move(step)
            case SetMode():
                self._set_mode(step)

    def _write(self, step: Write) -> None:
        place = step.place
        before, old = self._files.read(place, holds=step.holds, named=step.expect)
        _check(place, before, step.expect)
        name = digest(step.data)
        mode = before.mode if before and step.mode is None else step.mode
        after = State(name, mode)
        if before == after:
            return
        self.plan.data[name] = step.data
        if step.through_hard_links:
            self.plan.through_hard_links.add(place.path)
        covered = (before is None or self._keep(before, old, durable=self.plan.durable)) and self._keep(
            after, step.data, durable=False
        )
        operation = Operation.CREATE if before is None else Operation.CHANGE
        made = self._files.missing_folders(place) if before is None else 0
        self._note(place, operation, before, after, made=made, covered=covered)

    def _delete(self, step: Delete) -> None:
        before, old = self._files.read(step.place)
        _check(step.place, before, step.expect)
        if before is None:
            raise _missing(step.place)
        self._note(step.place, Operation.DELETE, before, None, covered=self._keep(before, old, durable=True))

    def _move(self, step: Move) -> None:
        state = self._files.look(step.place)
        if state is None:
            raise _missing(step.place)
        if self._files.look(step.to) is not None:
            raise PathProblem(
                "exists",
                phrase("`{place}` was not moved: there is a file at `{to}`.", place=step.place, to=step.to),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Choose another name, or delete that file first."),
            )
        made = self._files.missing_folders(step.to)
        self._note(step.place, Operation.MOVE, state, state, other=step.to.path, made=made)

    def _set_mode(self, step: SetMode) -> None:
        before = self._files.look(step.place)
        if before is None:
            raise _missing(step.place)
        if before.mode != step.mode:
            self._note(step.place, Operation.MODE, before, State("", step.mode))

    def _keep(self, state: State, data: bytes | None, *, durable: bool) -> bool:
        if data is None:
            return False
        self._needed.add(state.digest)
        self.plan.data.setdefault(state.digest, data)
        return self._store.keep(state.digest, data, self._needed, self.plan.contents, durable=durable)

    def _note(
        self,
        place: Place,
        operation: Operation,
        before: State | None,
        after: State | None,
        *,
        other: Path | None = None,
        made: int = 0,
        covered: bool = True,
    ) -> None:
        self.plan.changes.append(Change(0, place.path, operation, other, before, after, made, covered))


def plan(steps: Sequence[Step], store: SnapshotStore, files: FileStates) -> Plan:
    """What the steps will change, their old contents in the store. Steps that change nothing are left out."""
    planner = _Planner(store, files, durable=len(steps) > 1 or any(isinstance(step, Delete) for step in steps))
    for step in steps:
        planner.add(step)
    return planner.plan


def _check(place: Place, now: State | None, expect: str | None) -> None:
    if expect is not None and (now.digest if now else NOTHING) != expect:
        raise ChangedMeanwhile(place, now)


def _missing(place: Place) -> PathProblem:
    return PathProblem("missing", phrase("There is no file at `{given}`.", given=place), kind=ErrorKind.NOT_FOUND)
