"""The paths of a session, as searching tools need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.access import READS_ANYTHING, Touches, reads
from ferrule.workspace.files import files_of, real_path

if TYPE_CHECKING:
    from ferrule.core.context import Session
    from ferrule.workspace.paths import Paths


def paths_of(session: Session) -> Paths:
    """The workspace of a session and the folders added to it."""
    return files_of(session).paths


def reads_below(path: str | None, session: Session | None) -> Touches:
    """What a search touches: all below a folder. Only a session knows which; until then it may be anything."""
    if session is None or (path and "\0" in path):
        return READS_ANYTHING
    return (reads("path", real_path(session, path or ".")),)
