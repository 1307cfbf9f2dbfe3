"""What a crash or a failure left in the middle is finished, or rolled back as if it had never begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import Change, Group, Operation, Phase, Side
from ferrule.workspace.snapshots.content_store import ContentLost

if TYPE_CHECKING:
    from ferrule.workspace.snapshots.file_states import FileStates
    from ferrule.workspace.snapshots.snapshot_store import SnapshotStore


class Recovery:
    """Works inside the lock of the store: whatever is in the middle there has nobody left who works on it."""

    def __init__(self, store: SnapshotStore, files: FileStates) -> None:
        self._store, self._files = store, files

    def settle(self, group: Group) -> None:
        """After a kill: an undo or redo is finished; a change is done if it got to its end, and else rolled back."""
        for change in group.changes:
            self._files.clear_unfinished(change)
        if group.phase is Phase.UNDOING:
            self.return_to(group, Side.BEFORE)
        elif group.phase is Phase.REDOING:
            self.return_to(group, Side.AFTER)
        elif all(self._is_made(change) for change in group.changes):
            self._store.journal.finish(group, self.new_modes(group))
        else:
            self.roll_back(group)

    def roll_back(self, group: Group) -> None:
        """Forget a change that was not made whole. What someone else has changed since stays, and in the list."""
        kept = [change for change in reversed(group.changes) if not self._put(change, Side.BEFORE)]
        gone = [change for change in group.changes if change not in kept]
        self._store.remove(self._store.journal.forget(group, gone))
        if kept:
            self._store.journal.finish(group, {})

    def return_to(self, group: Group, side: Side) -> None:
        """Bring every file of a group to one end, as far as nobody else has changed it."""
        for change in group.changes if side is Side.AFTER else reversed(group.changes):
            if change.covered and not self._put(change, side):
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

    def _is_made(self, change: Change) -> bool:
        return self._files.is_at(change, Side.AFTER) if change.covered else self._files.got_there(change)

    def _put(self, change: Change, side: Side) -> bool:
        """Whether a change is at that end now; a file that is at neither is left alone."""
        if not change.covered:
            return not self._files.got_there(change)
        try:
            return self._files.finish(change, side, self._store.contents.get)
        except (PathProblem, ContentLost, OSError):
            return False
