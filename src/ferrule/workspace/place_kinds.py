"""What is at a place: some tools need a folder, and none may open a pipe or a device."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    import os

    from ferrule.workspace.paths import Paths, Place

_SPECIAL = {
    stat.S_IFIFO: phrase("a pipe"),
    stat.S_IFSOCK: phrase("a socket"),
    stat.S_IFCHR: phrase("a device"),
    stat.S_IFBLK: phrase("a device"),
}


def require_regular(place: Place, found: os.stat_result) -> None:
    """Refuse what is not a regular file."""
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise PathProblem(
            "directory",
            phrase("`{place}` is a directory, not a file.", place=place),
            suggestion=phrase("List it instead."),
        )
    raise _special(place, found.st_mode, phrase("Give a regular file."))


def require_folder(paths: Paths, place: Place, suggestion: str) -> None:
    """Refuse what is not a folder."""
    found = paths.stat(place)
    if found is not None and stat.S_ISDIR(found.st_mode):
        return
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise _special(place, found.st_mode, phrase("Give a folder."))
    raise PathProblem("file", phrase("`{place}` is a file, not a folder.", place=place), suggestion=suggestion)


def require_file_or_folder(paths: Paths, place: Place) -> None:
    """Refuse pipes, sockets and devices, which would never end."""
    found = paths.stat(place)
    if found is not None and not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise _special(place, found.st_mode, phrase("Give a regular file or a folder."))


def _special(place: Place, mode: int, suggestion: str) -> PathProblem:
    kind = _SPECIAL.get(stat.S_IFMT(mode), phrase("not a regular file"))
    return PathProblem(
        "special", phrase("`{place}` is {kind}, and is not opened.", place=place, kind=kind), suggestion=suggestion
    )
