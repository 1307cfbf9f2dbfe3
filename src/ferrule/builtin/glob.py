"""Glob and searchFiles: find files by name."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.nearest import nearest
from ferrule.core.phrases import phrase
from ferrule.core.result import Output, note_lines, noted
from ferrule.workspace.files import paths_of, searches
from ferrule.workspace.names import about_names, decoded, one_line
from ferrule.workspace.searching.find_files import MOST, find_files, search_by_name

if TYPE_CHECKING:
    from ferrule.workspace.paths import Paths, Place


_MOST_CHARACTERS = 90_000


class GlobResult(TypedDict):
    """The files, newest first; `count` counts those left out too."""

    pattern: str
    path: str
    count: int
    files: list[str]
    notes: NotRequired[list[str]]


def _render(found: GlobResult) -> str:
    count = found["count"]
    summary = f"Found {count:,} file{'' if count == 1 else 's'}."
    if not count:
        summary = f"No file fits `{found['pattern'][:200]}` in `{found['path']}`."
    lines = [summary, *map(one_line, found["files"]), *note_lines(found)]
    return "\n".join(lines)


def _display(found: GlobResult | FilesFound) -> str:
    count = found["count"]
    return phrase("found 1 file") if count == 1 else phrase("found {n} files", n=f"{count:,}")


@tool(
    name="Glob",
    display_name="File Search",
    kind="readonly",
    may_block=False,
    category="files",
    tags=("standard", "files", "search"),
    doing="looking for files like `{pattern}`",
    timeout=30,
    describe=searches("path"),
    render=_render,
    display=_display,
)
async def glob(  # noqa: D417 - the context is filled in
    context: ToolContext, pattern: Annotated[str, Field(min_length=1, max_length=4096)], path: str = "."
) -> Output[GlobResult]:
    """Find files by their name or path, newest first.

    Use this when you know a part of the name, or want every file of a kind. To search in contents use Grep; to see
    what a folder holds use LS.

    Usage notes:
        - `*` and `?` stay within a name, `**` spans folders, `{a,b}` and `[a-z]` choose: `src/**/*.{ts,tsx}`.
        - A pattern fits at any depth: `*.py`, `core/*.ts`. One that begins with `./` starts at `path`: `./*.md`.
        - Files only, hidden ones too. Left out are folders, links, `.git`, `node_modules`, and what `.gitignore`,
          `.ignore` or `.ferruleignore` names, unless `path` starts there.

    Examples:
        - find all Python files: {"pattern": "*.py"}
        - find files named setup.cfg in the lib folder: {"pattern": "setup.cfg", "path": "lib"}

    Args:
        pattern: The glob, for names or ends of paths.
        path: The folder to look in; the working directory unless given.
    """
    place, names, found = await search_by_name(context, pattern, path, "path")
    files: list[str] = []
    characters = 0
    for name in found.names:
        files.append(names.show(name))
        characters += len(files[-1]) + 1
        if characters > _MOST_CHARACTERS:
            break
    notes = [*about_names(files), *found.notes, *place.remarks]
    if len(files) < found.total:
        left_out = found.total - len(files)
        notes.insert(0, f"The {left_out:,} oldest of {found.total:,} left out. Narrow the pattern, or give a `path`.")
    if not found.total:
        paths = paths_of(context.session)
        notes += _nearest(paths, place, pattern) or await _endings(paths, place)
    told = {"pattern": pattern, "path": place.shown, "cwd": str(place.path), "count": found.total}
    data: GlobResult = {"pattern": pattern, "path": place.shown, "count": found.total, "files": files}
    return Output(noted(data, notes), metadata=told)


def _nearest(paths: Paths, place: Place, pattern: str) -> list[str]:
    """Why nothing fits, where one look at the named folders tells."""
    folder = place.path
    for part in pattern.strip("/").split("/"):
        if any(character in part for character in "*?[{!\\"):
            break
        here, names = folder / part, paths.names_in(paths.beside(place, folder))
        if part not in names:
            if close := nearest(part, names):
                listed = " or ".join(f"`{one_line(paths.show(folder / one))}`" for one in close)
                return [f"There is no `{one_line(paths.show(here))}`. Did you mean {listed}?"]
            return []
        if here.is_symlink():
            return [f"`{one_line(paths.show(here))}` is a link, and searches follow none. Give it as `path`."]
        folder = here
    else:
        if folder.is_dir() and folder != place.path:
            return [f"`{paths.show(folder)}` is a folder. For the files in it use `{pattern.rstrip('/')}/**`."]
        return ["It may be ignored: `.gitignore`, `.ignore` and `.ferruleignore` count."]
    return []


async def _endings(paths: Paths, place: Place) -> list[str]:
    """What the files there are, when none of them is what was looked for."""
    found = await find_files(paths, place, (), MOST, lambda names: None)
    if not found.total:
        return [f"`{place}` contains no files, or all of them are ignored."]
    counted = Counter(PurePosixPath(decoded(name)).suffix for name in found.names)
    listed = ", ".join(f"`*{ending}` ({count:,})" for ending, count in counted.most_common(5) if ending)
    return [f"Most files there are {listed}. What is ignored is not found."] if listed else []


# searchFiles: find files by name, for the assistant set.


class FilesFound(TypedDict):
    pattern: str
    matches: list[str]
    count: int
    notes: NotRequired[list[str]]


@tool(
    name="searchFiles",
    display_name="Search files",
    kind="readonly",
    may_block=False,
    category="files",
    tags=("assistant", "files", "search"),
    doing="looking for files like `{pattern}`",
    timeout=30,
    describe=searches("folder"),
    display=_display,
)
async def search_files(
    context: ToolContext,
    pattern: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4096,
            description="A glob for names or ends of paths, e.g. `*.py` or `src/**/*.ts`.",
        ),
    ],
    folder: Annotated[
        str, Field(alias="baseDir", description="The directory to look in; the working directory unless given.")
    ] = ".",
) -> FilesFound:
    """Find files whose name or path fits a glob, newest first.

    Use this when you know a part of a file's name. `count` counts every match; the newest 1,000 are listed. No match
    is a success with a count of 0.

    Usage notes:
        - A pattern fits at any depth, unless it begins with `./`; `**` spans directories; `{a,b}` chooses.
        - Hidden files count. `.git`, `node_modules`, links, and what `.gitignore`, `.ignore` or `.ferruleignore`
          names are left out, unless `baseDir` starts there.

    Examples:
        - find all Python files: {"pattern": "*.py"}
    """
    place, names, found = await search_by_name(context, pattern, folder, "baseDir")
    matches = [names.show(name) for name in found.names]
    data: FilesFound = {"pattern": pattern, "matches": matches, "count": found.total}
    return noted(data, [*found.notes, *place.remarks])
