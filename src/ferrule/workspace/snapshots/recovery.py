"""What a crash or a failure left in the middle is finished, or rolled back as if it had never begun."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import Change, Group, Node, Operation, Phase, Side
from ferrule.workspace.snapshots.content_store import ContentLost
from ferrule.workspace.snapshots.snapshot_store import Broken, unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from ferrule.workspace.snapshots.file_states import FileStates
    from ferrule.workspace.snapshots.journal import Journal
    from ferrule.workspace.snapshots.snapshot_store import SnapshotStore

_Result = TypeVar("_Result")
_NEW_STORES = 5
"""How often something begins anew because its store broke or was taken away."""


def again_if_broken(work: Callable[[], _Result]) -> _Result:
    """Do something with the store; where that broke or was taken away, with the new one."""
    for _ in range(_NEW_STORES):
        try:
            return work()
        except Broken as error:
            broken = error
    raise unusable(broken)  # pyright: ignore[reportPossiblyUnboundVariable] - it was tried at least once


class Recovery:
    """Works inside the lock of the store: whatever is in the middle there has nobody left who works on it."""

    def __init__(self, store: SnapshotStore, files: FileStates) -> None:
        self._store, self._files = store, files

    @contextmanager
    def settled(self) -> Generator[Journal]:
        """Be the only one who uses the journal, with what a crash left in the middle finished or rolled back."""
        with self._store.locked() as journal:
            for group in journal.unsettled():
                self.settle(group)
            yield journal

    def settle(self, group: Group) -> None:
        """After a kill: an undo or redo is finished; a change is done if it got to its end, and else rolled back."""
        for change in group.changes:
            self._files.clear_unfinished(change)
        if group.phase is Phase.UNDOING:
            self.return_to(group, Side.BEFORE)
        elif group.phase is Phase.REDOING:
            self.return_to(group, Side.AFTER)
        elif all(self._is_made(group, change) for change in group.changes):
            self._store.journal.finish(group, self.new_modes(group))
        else:
            self.roll_back(group)

    def roll_back(self, group: Group, at_hand: Mapping[str, bytes] | None = None) -> None:
        """Forget a change that was not made whole. What someone else has changed since stays, and in the list.

        `at_hand` are contents that need not be in the store any more.
        """
        kept = [change for change in reversed(group.changes) if not self._put(group, change, Side.BEFORE, at_hand)]
        gone = [change for change in group.changes if change not in kept]
        if not self._store.is_current():
            return  # its place has no list of it
        self._store.forget(group, gone)
        if kept:
            self._store.journal.finish(group, {})

    def return_to(self, group: Group, side: Side, at_hand: Mapping[str, bytes] | None = None) -> None:
        """Bring every file of a group to one end, as far as nobody else has changed it."""
        for change in group.changes if side is Side.AFTER else reversed(group.changes):
            if change.covered and not self._put(group, change, side, at_hand):
                self._store.note(f"`{change.path.name}` was changed while {group} was undone or redone.")
        self._store.journal.mark(group, Phase.UNDONE if side is Side.BEFORE else Phase.DONE)

    def new_modes(self, group: Group) -> dict[int, int]:
        """The modes that new files got from the umask."""
        found: dict[int, int] = {}
        for change in group.changes:
            after = change.after
            if change.operation is Operation.CREATE and after and after.node is Node.FILE and after.mode is None:
                state = self._files.look(self._files.place(change.path))
                if state is not None and state.mode is not None:
                    found[change.seq] = state.mode
        return found

    def _is_made(self, group: Group, change: Change) -> bool:
        if not change.covered:
            return self._files.got_there(change)
        return self._files.is_at(change, Side.AFTER) or self._is_past(group, change, Side.AFTER)

    def _put(self, group: Group, change: Change, side: Side, at_hand: Mapping[str, bytes] | None = None) -> bool:
        """Whether a change is at that end now; a file that is at neither is left alone."""
        if not change.covered:
            return not self._files.got_there(change)
        try:
            done = self._files.finish(change, side, partial(self._store.contents.get, at_hand=at_hand))
        except (PathProblem, ContentLost, OSError):
            return False
        return done or self._is_past(group, change, side)

    def _is_past(self, group: Group, change: Change, side: Side) -> bool:
        """Whether what stands there is further that way than the change alone goes: a folder that gives way to a file
        is removed by one change of a group, and the file made by the next.
        """
        at = group.changes.index(change)
        others = group.changes[:at] if side is Side.BEFORE else group.changes[at + 1 :]
        return any(one.path == change.path and self._files.is_at(one, side) for one in others)
