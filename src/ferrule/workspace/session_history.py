"""`session.history`: what the calls of one session changed in files, listed, shown, undone and redone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.workspace.files import files_of
from ferrule.workspace.snapshots.changes import Phase

if TYPE_CHECKING:
    from ferrule.core.context import Session
    from ferrule.workspace.snapshots.changes import Group
    from ferrule.workspace.snapshots.undo_report import Report

_MOST = 1_000


class SessionHistory:
    """The changes that a session's calls made to files; those of other sessions in the same workspace are not in it.

    The history is on disk: a `Session` with the same id and workspace has the same one, also in another process. Every
    method blocks while it works; in async code, write `await asyncio.to_thread(session.history.undo)`.
    """

    def __init__(self, session: Session) -> None:
        self._session, self._history = session.id, files_of(session).history

    def recent(self, limit: int = 50) -> list[Group]:
        """The newest changes first; each has `number`, `time`, `phase`, `origin` and the `changes` of files."""
        return self._history.recent(limit, session=self._session)

    def diff(self, first: int | None = None, last: int | None = None) -> str:
        """What change `first` did, or all from `first` to `last`, as a unified diff.

        Without a number: all that the session changed and that was not undone.
        """
        if first is not None:
            return self._history.diff(first, last)
        done = [one.number for one in self.recent(_MOST) if one.phase is Phase.DONE]
        return "".join(self._history.diff(number) for number in reversed(done))

    def undo(self, *, to: int | None = None, call: str | None = None, turn: bool = False) -> Report:
        """Undo the newest change; or all after change `to` (0: all); or those of a call; or all of the last turn.

        A change is undone whole or, where a file has changed since, not at all: `report.refused` says why then, and
        `str(report)` says what was done.
        """
        if turn:
            return self._history.undo_turns(self._session, most=1)[0]
        return self._history.undo(to=to, call=call, session=self._session)

    def redo(self, *, to: int | None = None, call: str | None = None, turn: bool = False) -> Report:
        """Redo the change that was undone last; or all up to change `to`; or those of a call; or all of a turn."""
        if turn:
            return self._history.redo_turn(self._session)
        return self._history.redo(to=to, call=call, session=self._session)
