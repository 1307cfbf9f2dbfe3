"""What came of an undo or a redo, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
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
        word = "undone" if self.undo else "redone"
        count = len(self.changes)
        if count:
            lines = [f"{count:,} {'change' if count == 1 else 'changes'} {word}."]
        else:
            lines = [f"Nothing was {word}."] if self.refused or self.groups else [f"There is nothing to be {word}."]
        return "\n".join([*lines, self.trouble] if self.trouble else lines)

    @property
    def trouble(self) -> str:
        """What was left as it is, and why; empty where all went through."""
        word = "undone" if self.undo else "redone"
        lines: list[str] = []
        for change in self.uncovered[:_MOST_FILES]:
            text = "The history does not cover it: too large to keep, or in a folder it leaves out"
            lines.append(f"`{change.path.name}` was left as it is. {text}.")
        if self.refused is not None:
            conflicts = self.refused.conflicts
            first = str(self.refused.group)
            lines.append(f"{first[0].upper()}{first[1:]} could not be {word}, and nothing of it was touched:")
            lines += [f"- {one.text}" for one in conflicts[:_MOST_FILES]]
            if len(conflicts) > _MOST_FILES:
                lines.append(f"- … and {len(conflicts) - _MOST_FILES:,} more files.")
            diffs = bounded([one.diff for one in conflicts if one.diff], _MOST_DIFF)
            if diffs:
                lines += ["", diffs.rstrip("\n")]
        return "\n".join([*lines, *self.notes])


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
