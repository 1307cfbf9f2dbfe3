"""What a call that names a file or a folder would do, told by real paths (T6).

Links inside the workspace are followed, so a schedule, a permission rule and a person are told where a call really
goes. A rule for a folder can then not be passed by a link into it.
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any

from ferrule.core.access import Touch
from ferrule.core.call import CallInfo
from ferrule.workspace.files import files_of
from ferrule.workspace.paths import with_home
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.context import Session
    from ferrule.workspace.paths import Paths


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


def _settled(given: str, session: Session) -> tuple[str, PathProblem | None]:
    """The path that scheduling and permission go by, and why a tool will refuse it whoever approves.

    Where a tool will refuse it, the path is the one that it would have led to.
    """
    refusal = None
    try:
        return str(paths_of(session).locate(given).path), None
    except PathProblem as problem:
        refusal = problem if problem.code == "outside" else None
    except OSError:
        pass
    path = session.directory / with_home(given)
    try:
        return os.path.normpath(path) if "\0" in given else os.path.realpath(path), refusal
    except OSError:  # a link on the way was replaced at this very moment
        return os.path.normpath(path), refusal
