"""The files of one session: its paths, what it has read, and the history that makes every change undoable."""

from __future__ import annotations

import glob
import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any

from ferrule.core.access import Touch
from ferrule.core.call import CallInfo
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.paths import Paths, with_home
from ferrule.workspace.problems import PathError
from ferrule.workspace.tracker import Tracker, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ferrule.core.context import Session
    from ferrule.workspace.paths import Place
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

    def note_seen(self, place: Place, opened: int) -> None:
        """Remember an open file's content, so that a later change can tell whether the file is still what was shown."""
        status = os.fstat(opened)
        if status.st_size <= MOST_EDITABLE and not self.tracker.has_seen(place, status):
            with os.fdopen(os.dup(opened), "rb") as file:
                self.tracker.saw(place, name=digest_of(file), found=status)
                file.seek(0)

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


# What a call that names a file or a folder would do, told by real paths (T6).


def paths_of(session: Session) -> Paths:
    """The workspace of a session and the folders added to it."""
    return files_of(session).paths


def touching(given: str, session: Session, *, write: bool = False) -> CallInfo:
    """A call that reads or writes one path, or all below it; where it leads out, it would be refused in any case."""
    path, refusal = _settled(given, session)
    return CallInfo(touches=(Touch(f"path:{path}", write),), refusal=refusal)


def searches(parameter: str) -> Callable[[Any, Session], CallInfo]:
    """`describe` for a tool that reads all below the folder in a parameter; none given is the working directory."""

    def describe(params: Any, session: Session) -> CallInfo:
        return touching(getattr(params, parameter) or ".", session)

    return describe


def opens_file(tool: str, *, write: bool = False) -> Callable[[Any, Session], CallInfo]:
    """`describe` for a tool that reads or changes the file in `file_path`.

    Its "always" is for the files that lie in the same real folder: `Edit:/home/ada/app/src/*`.
    """

    def describe(params: Any, session: Session) -> CallInfo:
        path, refusal = _settled(params.file_path, session)
        folder = os.path.dirname(path) or "."  # noqa: PTH120 - keeps what is given
        return CallInfo(
            touches=(Touch(f"path:{path}", write),),
            signature=path,
            always_rule=f"{tool}:{glob.escape(folder.rstrip('/'))}/*",
            refusal=refusal,
        )

    return describe


def _settled(given: str, session: Session) -> tuple[str, PathError | None]:
    """The path that scheduling and permission go by, and why a tool will refuse it whoever approves.

    Where a tool will refuse it, the path is the one that it would have led to.
    """
    refusal = None
    try:
        return str(paths_of(session).locate(given).path), None
    except PathError as problem:
        refusal = problem if problem.code == "outside" else None
    except OSError:
        pass
    path = session.directory / with_home(given)
    try:
        return os.path.normpath(path) if "\0" in given else os.path.realpath(path), refusal
    except OSError:  # a link on the way was replaced at this very moment
        return os.path.normpath(path), refusal
