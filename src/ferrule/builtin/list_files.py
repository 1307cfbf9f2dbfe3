"""listFiles: what a directory holds, as two lists."""

from __future__ import annotations

import os
from typing import Annotated, TypedDict

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.workspace.files import paths_of, searches
from ferrule.workspace.paths import require_folder
from ferrule.workspace.searching.find_files import Walk
from ferrule.workspace.searching.search import Names

_MOST = 2000


class ListedFiles(TypedDict):
    path: str
    files: list[str]
    directories: list[str]
    total: int
    notes: list[str]


def _show(listed: ListedFiles) -> str:
    total = listed["total"]
    return f"found {total:,} {'entry' if total == 1 else 'entries'}"


@tool(
    name="listFiles",
    display_name="List files",
    kind="readonly",
    category="files",
    tags=("assistant", "files"),
    doing="listing `{directoryPath}`",
    timeout=30,
    describe=searches("directory"),
    display=_show,
)
def list_files(
    context: ToolContext,
    directory: Annotated[
        str, Field(alias="directoryPath", description="The directory; the working directory unless given.")
    ] = ".",
    recursive: Annotated[bool, Field(description="Whether to list the directories below it too.")] = False,
) -> ListedFiles:
    """List the files and directories in a directory.

    Use this to see what is there before reading files. `total` counts every entry; of more than 2,000 entries the
    first are listed, and `notes` says so.

    Usage notes:
        - Hidden files are listed. `.git`, `node_modules` and what `.gitignore`, `.ignore` or `.ferruleignore` names
          are left out, unless `directoryPath` starts there. Links are listed as files and not followed.

    Examples:
        - list what is in this folder: {}
        - list the files in docs and all folders below it: {"directoryPath": "docs", "recursive": true}
    """
    paths = paths_of(context.session)
    place = paths.find(directory)
    require_folder(paths, place, phrase("Read it, or list the folder it is in."))
    names = Names(paths, place)
    listed: ListedFiles = {"path": place.name, "files": [], "directories": [], "total": 0, "notes": []}
    for _, entry in Walk(paths, place).all(None if recursive else 1):
        context.cancellation.raise_if_requested()
        listed["total"] += 1
        if listed["total"] <= _MOST:
            kind = "directories" if entry.kind == "directory" else "files"
            listed[kind].append(names.show(os.fsencode(entry.path.relative_to(place.root.path))))
    if listed["total"] > _MOST:
        listed["notes"].append(f"Only the first {_MOST:,} of {listed['total']:,} entries are listed.")
    listed["notes"] += place.remarks
    return listed
