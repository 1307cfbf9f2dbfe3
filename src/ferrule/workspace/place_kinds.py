"""What is at a place: some tools need a folder, and none may open a pipe or a device."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    import os

    from ferrule.workspace.paths import Paths, Place

_SPECIAL = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def require_regular(place: Place, found: os.stat_result) -> None:
    """Refuse what is not a regular file."""
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise PathProblem("directory", f"`{place}` is a directory, not a file.", suggestion="List it instead.")
    raise _special(place, found.st_mode, "Give a regular file.")


def require_folder(paths: Paths, place: Place, suggestion: str) -> None:
    """Refuse what is not a folder."""
    found = paths.stat(place)
    if found is not None and stat.S_ISDIR(found.st_mode):
        return
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise _special(place, found.st_mode, "Give a folder.")
    raise PathProblem("file", f"`{place}` is a file, not a folder.", suggestion=suggestion)


def require_file_or_folder(paths: Paths, place: Place) -> None:
    """Refuse pipes, sockets and devices, which would never end."""
    found = paths.stat(place)
    if found is not None and not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise _special(place, found.st_mode, "Give a regular file or a folder.")


def _special(place: Place, mode: int, suggestion: str) -> PathProblem:
    kind = _SPECIAL.get(stat.S_IFMT(mode), "not a regular file")
    return PathProblem("special", f"`{place}` is {kind}, and is not opened.", suggestion=suggestion)
