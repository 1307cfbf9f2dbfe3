"""The paths of a session: made once, and shared by every tool that runs in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.access import READS_ANYTHING, Touches, reads
from ferrule.workspace.paths import Paths

if TYPE_CHECKING:
    from ferrule.core.context import Session

_KEY = "ferrule.paths"


def paths_of(session: Session) -> Paths:
    """The workspace of a session and the folders added to it."""
    paths = session.state.get(_KEY)
    if not isinstance(paths, Paths):
        added = (Path(root) for root in session.config.get("roots", ()))
        paths = session.state[_KEY] = Paths((session.workspace, *added), session.directory)
    return paths


def reads_below(path: str | None) -> Touches:
    """What a search touches. Only a session knows what a relative path means; until then it may be anything."""
    if path and path.startswith(("/", "~")) and "\0" not in path:
        return (reads("path", os.path.realpath(Path(path).expanduser())),)
    return READS_ANYTHING
