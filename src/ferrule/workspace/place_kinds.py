"""What is at a place: some tools need a folder, and none may open a pipe or a device."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from ferrule.workspace.paths import Paths, Place


def require_folder(paths: Paths, place: Place, suggestion: str) -> None:
    """Refuse what is not a folder."""
    found = paths.stat(place)
    if found is None or not stat.S_ISDIR(found.st_mode):
        raise PathProblem("file", f"`{place}` is a file, not a folder.", suggestion=suggestion)


def require_file_or_folder(paths: Paths, place: Place) -> None:
    """Refuse pipes, sockets and devices, which would never end."""
    found = paths.stat(place)
    if found is not None and not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise PathProblem(
            "special",
            f"`{place}` is a pipe, a socket or a device, and is not opened.",
            suggestion="Give a regular file or a folder.",
        )
