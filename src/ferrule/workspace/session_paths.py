"""What a call says of the paths it is given: the real ones, as its session makes them out (T6).

Links inside the workspace are followed, so a schedule, a permission rule and a person are told where a call really
goes. A rule for a folder can then not be passed by a link into it.
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

from ferrule.core.access import READS_ANYTHING, Touches, reads, writes
from ferrule.workspace.files import files_of, real_path
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.context import Session
    from ferrule.core.errors import ToolError
    from ferrule.workspace.paths import Paths


def paths_of(session: Session) -> Paths:
    """The workspace of a session and the folders added to it."""
    return files_of(session).paths


def reads_below(path: str | None, session: Session | None) -> Touches:
    """What a search touches: all below a folder. Only a session knows which; until then it may be anything."""
    if session is None or (path and "\0" in path):
        return READS_ANYTHING
    return (reads("path", real_path(session, path or ".")),)


def reads_file(params: Any, session: Session | None) -> Touches:
    """A read of the file in `file_path`."""
    return (reads("path", real_path(session, params.file_path)),)


def writes_file(params: Any, session: Session | None) -> Touches:
    """A change of the file in `file_path`."""
    return (writes("path", real_path(session, params.file_path)),)


def refuses_outside(path: str | None, session: Session) -> ToolError | None:
    """That a path leads out of the workspace, where it does: whoever allows the call, it would be refused."""
    try:
        paths_of(session).locate(path or ".")
    except PathProblem as problem:
        return problem if problem.code == "outside" else None
    return None


def refuses_file_outside(params: Any, session: Session) -> ToolError | None:
    """The same of the file in `file_path`."""
    return refuses_outside(params.file_path, session)


def file_signature(params: Any, session: Session | None) -> str:
    """The real path of the file in `file_path`."""
    return real_path(session, params.file_path)


def folder_rule(tool: str) -> Callable[[Any, Session | None], str]:
    """«Always allow» for the files that lie in the same real folder: `Edit:/work/src/*`."""

    def rule(params: Any, session: Session | None) -> str:
        folder = os.path.dirname(real_path(session, params.file_path)) or "."  # noqa: PTH120 - keeps what is given
        return f"{tool}:{glob.escape(folder.rstrip('/'))}/*"

    return rule
