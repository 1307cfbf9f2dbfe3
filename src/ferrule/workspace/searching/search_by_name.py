"""A search by name as a tool makes it: a glob below a folder, and names shown as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.names import one_line
from ferrule.workspace.place_kinds import require_folder
from ferrule.workspace.searching.find_files import find_files
from ferrule.workspace.searching.globs import glob_below
from ferrule.workspace.searching.matches import Names
from ferrule.workspace.session_paths import paths_of

if TYPE_CHECKING:
    from ferrule.core.context import ToolContext
    from ferrule.workspace.paths import Place
    from ferrule.workspace.searching.find_files import FoundFiles

MOST = 1000
"""Files that are listed."""


async def search_by_name(
    context: ToolContext, pattern: str, folder: str, parameter: str
) -> tuple[Place, Names, FoundFiles]:
    """The newest files that fit; `parameter` is what the tool calls the folder."""
    paths = paths_of(context.session)
    place = paths.find(folder)
    require_folder(paths, place, phrase("Give a folder as `{parameter}`.", parameter=parameter))
    names = Names(paths, place)
    left = MOST

    def show(found: list[bytes]) -> None:
        nonlocal left
        if left > 0 and context.watched:
            context.partial("\n".join(one_line(names.show(name)) for name in found[:left]))
            left -= len(found)

    return place, names, await find_files(paths, place, (glob_below(pattern, place),), MOST, show)
