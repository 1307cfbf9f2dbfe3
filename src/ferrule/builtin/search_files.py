"""searchFiles: find files by name, for the assistant set."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.workspace.files import searches
from ferrule.workspace.searching.find_files import search_by_name


class FilesFound(TypedDict):
    pattern: str
    matches: list[str]
    count: int
    notes: list[str]


def _show(found: FilesFound) -> str:
    count = found["count"]
    return f"found {count:,} file{'' if count == 1 else 's'}"


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
    display=_show,
)
async def search_files(
    context: ToolContext,
    pattern: Annotated[
        str,
        Field(min_length=1, max_length=4096, description="A glob from `baseDir` on, e.g. `*.py` or `src/**/*.ts`."),
    ],
    folder: Annotated[
        str, Field(alias="baseDir", description="The directory to look in; the working directory unless given.")
    ] = ".",
) -> FilesFound:
    """Find files whose name or path fits a glob, newest first.

    Use this when you know a part of a file's name. `count` counts every match; the newest 1,000 are listed. No match
    is a success with a count of 0.

    Usage notes:
        - A pattern without a slash fits at any depth; `**` spans directories; `{a,b}` chooses.
        - Hidden files count. `.git`, `node_modules`, links, and what `.gitignore`, `.ignore` or `.ferruleignore`
          names are left out, unless `baseDir` starts there.

    Examples:
        - find all Python files: {"pattern": "*.py"}
    """
    place, names, found = await search_by_name(context, pattern, folder, "baseDir")
    matches = [names.show(name) for name in found.names]
    return {"pattern": pattern, "matches": matches, "count": found.total, "notes": [*found.notes, *place.remarks]}
