"""What came of an undo or a redo, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.nearest import nearest
from ferrule.core.phrases import glued, joined, phrase
from ferrule.workspace.names import one_line
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.history_diff import bounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.workspace.snapshots.changes import Change, Group

_MOST_FILES = 20
_MOST_DIFF = 20_000
_MOST_CALLS = 3


class Why(StrEnum):
    """Why a file was left alone."""

    CHANGED = "changed"
    DELETED = "deleted"
    EXISTS = "exists"
    MODE = "mode"
    ORDER = "order"
    LOST = "lost"
    FAILED = "failed"


@dataclass(slots=True, frozen=True)
class Conflict:
    """One file that stood in the way; `text` is a whole sentence, `diff` what would have been lost."""

    why: Why
    name: str
    text: str
    diff: str = ""


@dataclass(slots=True, frozen=True)
class Refusal:
    """A group that was left as it is, all of it."""

    group: Group
    conflicts: tuple[Conflict, ...]


@dataclass(slots=True, frozen=True)
class Report:
    """`groups` went through, in this order; `refused` stopped it; `uncovered` could not be taken along."""

    undo: bool
    groups: tuple[Group, ...] = ()
    refused: Refusal | None = None
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for group in self.groups for change in group.changes if change.covered)

    @property
    def uncovered(self) -> tuple[Change, ...]:
        return tuple(change for group in self.groups for change in group.uncovered)

    def __str__(self) -> str:
        return str(self.words)

    @property
    def words(self) -> str:
        return joined("\n", [self._result(), self.trouble])

    def _result(self) -> str:
        count = len(self.changes)
        if count == 1:
            return phrase("1 change undone.") if self.undo else phrase("1 change redone.")
        if count:
            many = f"{count:,}"
            return phrase("{n} changes undone.", n=many) if self.undo else phrase("{n} changes redone.", n=many)
        if self.refused or self.groups:
            return phrase("Nothing was undone.") if self.undo else phrase("Nothing was redone.")
        return phrase("There is nothing to be undone.") if self.undo else phrase("There is nothing to be redone.")

    @property
    def trouble(self) -> str:
        """What was left as it is, and why; empty where all went through."""
        lines: list[str] = [
            phrase(
                "`{name}` was left as it is. The history does not cover it: too large to keep, or in a folder it "
                "leaves out.",
                name=change.path.name,
            )
            for change in self.uncovered[:_MOST_FILES]
        ]
        if self.refused is not None:
            conflicts, number = self.refused.conflicts, self.refused.group.number
            lines.append(
                phrase("Change {number} could not be undone, and nothing of it was touched:", number=number)
                if self.undo
                else phrase("Change {number} could not be redone, and nothing of it was touched:", number=number)
            )
            lines += [glued("- ", one.text) for one in conflicts[:_MOST_FILES]]
            if len(conflicts) > _MOST_FILES:
                lines.append(phrase("- … and {count} more files.", count=f"{len(conflicts) - _MOST_FILES:,}"))
            diffs = bounded([one.diff for one in conflicts if one.diff], _MOST_DIFF)
            if diffs:
                lines.append("\n" + diffs.rstrip("\n"))
        return joined("\n", [*lines, *self.notes])


def no_such_call(call: str, calls: Sequence[str]) -> PathProblem:
    """An id that no change came from. `calls` are those that are kept, newest first."""
    close = nearest(call, calls, most=_MOST_CALLS)
    named = ", ".join(f"`{one_line(one)}`" for one in close or calls[:_MOST_CALLS])
    if close:
        hint = phrase("Did you mean {names}?", names=named)
    elif len(calls) == 1:
        hint = phrase("The only call that changed something is {names}.", names=named)
    else:
        hint = phrase("The latest calls that changed something are {names}.", names=named)
    return PathProblem(
        "missing",
        phrase("No call `{call}` is in the history: it changed nothing that is kept.", call=one_line(call)),
        kind=ErrorKind.NOT_FOUND,
        suggestion=joined(" ", [hint, phrase("`ferrule history --json` lists the calls.")]),
    )
