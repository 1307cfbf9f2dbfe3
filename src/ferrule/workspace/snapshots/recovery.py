"""What a crash or a failure left in the middle is finished, or rolled back as if it had never begun."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import Change, Group, Operation, Phase, Side
from ferrule.workspace.snapshots.content_store import ContentLost
from ferrule.workspace.snapshots.snapshot_store import Broken

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ferrule.workspace.snapshots.file_states import FileStates
    from ferrule.workspace.snapshots.journal import Journal
    from ferrule.workspace.snapshots.snapshot_store import SnapshotStore

_Result = TypeVar("_Result")


def again_if_broken(work: Callable[[], _Result]) -> _Result:
    """Do something with the store; where that had to be set aside, with the new one."""
    try:
        return work()
    except Broken:
        return work()


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

    def roll_back(self, group: Group) -> None:
        """Forget a change that was not made whole. What someone else has changed since stays, and in the list."""
        kept = [change for change in reversed(group.changes) if not self._put(group, change, Side.BEFORE)]
        gone = [change for change in group.changes if change not in kept]
        self._store.remove(self._store.journal.forget(group, gone))
        if kept:
            self._store.journal.finish(group, {})

    def return_to(self, group: Group, side: Side) -> None:
        """Bring every file of a group to one end, as far as nobody else has changed it."""
        for change in group.changes if side is Side.AFTER else reversed(group.changes):
            if change.covered and not self._put(group, change, side):
                self._store.notes.append(f"`{change.path.name}` was changed while {group} was undone or redone.")
        self._store.journal.mark(group, Phase.UNDONE if side is Side.BEFORE else Phase.DONE)

    def new_modes(self, group: Group) -> dict[int, int]:
        """The modes that new files got from the umask."""
        found: dict[int, int] = {}
        for change in group.changes:
            if change.operation is Operation.CREATE and change.after is not None and change.after.mode is None:
                state = self._files.look(self._files.place(change.path))
                if state is not None and state.mode is not None:
                    found[change.seq] = state.mode
        return found

    def _is_made(self, group: Group, change: Change) -> bool:
        if not change.covered:
            return self._files.got_there(change)
        return self._files.is_at(change, Side.AFTER) or self._is_past(group, change, Side.AFTER)

    def _put(self, group: Group, change: Change, side: Side) -> bool:
        """Whether a change is at that end now; a file that is at neither is left alone."""
        if not change.covered:
            return not self._files.got_there(change)
        try:
            done = self._files.finish(change, side, self._store.contents.get)
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
