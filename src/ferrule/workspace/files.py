"""The files of one session: its paths, what it has read, and the history that makes every change undoable."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING

from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.paths import Paths
from ferrule.workspace.tracker import Tracker

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.context import Session
    from ferrule.workspace.snapshots.history import History
    from ferrule.workspace.snapshots.shell_changes import ShellChanges

_making = threading.Lock()

MOST_EDITABLE = 64_000_000
"""Bytes of the largest file that is read whole, and so can be edited."""


class Files:
    """What a file tool works with. Usable by plugins: `files_of(context.session)`."""

    def __init__(self, session: Session) -> None:
        self.paths = Paths(session.folders, session.directory, session.restrictions)
        self.hard_links = session.environment.hard_links
        """Whether a file that has other names may be changed. Those keep the old content."""
        self.tracker = Tracker(strict=not session.environment.single_call)
        self._session = session
        self._history: History | None = None

    @property
    def shell_changes(self) -> ShellChanges:
        """What shell commands do to the files, so that it can be undone."""
        return self.history.shell_changes

    @property
    def history(self) -> History:
        """Made at the first change; reading never needs it."""
        if self._history is None:
            from ferrule.workspace.snapshots.history import History  # a sixth of what a start costs; most never change

            with _making:
                if self._history is None:
                    folder = history_folder(self.paths.roots[0].path, self._session)
                    self._history = History(folder, self.paths, tell=self._session.note)
        return self._history


def files_of(session: Session) -> Files:
    """The files of a session, made at first use; a session that moved to another directory keeps what it read."""
    found = session.part(Files, lambda: Files(session))
    found.paths.directory = session.directory
    return found


def history_folder(workspace: Path, session: Session | None = None) -> Path:
    """Where the snapshots of a workspace lie: one store for each, outside it."""
    if session is not None and (chosen := session.environment.history_folder) is not None:
        return chosen
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    return data_folder() / "history" / f"{workspace.name[:40] or 'root'}-{name}"
