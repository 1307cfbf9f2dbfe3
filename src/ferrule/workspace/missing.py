"""Nothing is at a path: what is near, so that the next try succeeds."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING
from unicodedata import normalize

from ferrule.core.errors import ErrorKind
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.workspace.names import one_line
from ferrule.workspace.path_names import escaped, look_alikes, same_letters, slips
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from ferrule.workspace.paths import Paths, Place


def nothing_at(paths: Paths, given: str, place: Place) -> PathProblem:
    """The problem of a path where nothing is, with the names that may be meant."""
    if "\\" in given and (other := _with_slashes(paths, given)):
        return _missing(
            phrase("There is no file at `{given}`.", given=one_line(given)),
            phrase("Did you mean `{other}`?", other=other),
            [other],
        )
    folder = paths.beside(place, place.path.parent)
    if not _is_folder(paths, folder):
        return _no_folder(paths, given, folder)
    names = paths.names_in(folder)
    alike = same_letters(place.path.name, names)
    if len(alike) > 1:
        return _missing(
            phrase(
                "There is no file at `{given}`, but several names are made of the same letters: {names}.",
                given=escaped(given),
                names=joined(" and ", [f"`{escaped(name)}`" for name in alike]),
            ),
            phrase("Give the one that is meant exactly as it is written."),
            [paths.from_here(folder.path / name) for name in alike],
        )
    wanted = place.path.name
    plainer = normalize("NFKC", wanted)  # `a．b`, whose full stop is the full-width one
    close = slips(wanted, names) or [name for name in names if name == plainer] or nearest(wanted, names)
    listed = [paths.from_here(folder.path / name) for name in close]
    if listed:
        suggestion = phrase("Did you mean {names}?", names=joined(" or ", [f"`{one_line(one)}`" for one in listed]))
    else:
        suggestion = phrase("No name in `{folder}` is like it; list the folder to see what is there.", folder=folder)
    return _missing(
        phrase("There is no file at `{given}`.", given=one_line(given)),
        joined(" ", [_strange(given), suggestion]),
        listed,
    )


def _no_folder(paths: Paths, given: str, folder: Place) -> PathProblem:
    root = folder.root.path
    above = (one for one in folder.path.parents if one == root or root in one.parents)
    existing = next((one for one in above if _is_folder(paths, paths.beside(folder, one))), root)
    message = phrase("There is no file at `{given}`, and no folder `{folder}`.", given=one_line(given), folder=folder)
    if paths.exists(folder):
        message = phrase(
            "There is no file at `{given}`, because `{folder}` is a file, not a folder.",
            given=one_line(given),
            folder=folder,
        )
    nearest_one = phrase(
        "The nearest folder that exists is `{existing}`.", existing=one_line(paths.from_here(existing))
    )
    return _missing(message, joined(" ", [_strange(given), nearest_one]))


def _strange(given: str) -> str:
    found = look_alikes(given)
    return phrase("The path holds {found}, which only looks like a slash or a dot.", found=found) if found else ""


def _is_folder(paths: Paths, place: Place) -> bool:
    found = paths.stat(place)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _with_slashes(paths: Paths, given: str) -> str | None:
    """A path as another system writes it, as it is written here, if there is something."""
    try:
        return paths.from_here(paths.find(given.replace("\\", "/")).path)
    except PathProblem:
        return None


def _missing(message: str, suggestion: str, close: list[str] | None = None) -> PathProblem:
    return PathProblem(
        "missing", message, kind=ErrorKind.NOT_FOUND, suggestion=suggestion, details={"nearest": close or []}
    )
