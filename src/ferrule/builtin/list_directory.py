"""LS and listFiles: what a folder holds."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import note_lines, noted
from ferrule.core.sizes import size_words
from ferrule.workspace.files import paths_of, searches
from ferrule.workspace.names import about_names, one_line
from ferrule.workspace.paths import require_folder
from ferrule.workspace.restrictions import held_back_note
from ferrule.workspace.searching.find_files import EntryKind, Walk
from ferrule.workspace.searching.globs import compile_glob, glob_below
from ferrule.workspace.searching.search import Names

if TYPE_CHECKING:
    from pathlib import Path


_MOST = 1000


class ListedEntry(TypedDict):
    name: str
    kind: EntryKind
    size: int
    depth: int


class Listing(TypedDict):
    """The entries of a folder, folders first; below each folder what is in it, down to the depth asked for."""

    path: str
    entries: list[ListedEntry]
    notes: NotRequired[list[str]]


def _render(listing: Listing) -> str:
    lines = [_line(entry) for entry in listing["entries"]]
    return "\n".join([_summary(listing) + (":" if lines else ""), *lines, *note_lines(listing)])


def _line(entry: ListedEntry) -> str:
    mark = {"directory": "/", "link": " (link)", "other": " (special file)"}.get(entry["kind"])
    size = f"  {size_words(entry['size'])}" if mark is None else mark
    return f"{'  ' * (entry['depth'] + 1)}{one_line(entry['name'])}{size}"


def _summary(listing: Listing) -> str:
    entries = listing["entries"]
    folders = sum(entry["kind"] == "directory" for entry in entries)
    files = len(entries) - folders
    if not entries:
        return f"`{listing['path']}` has nothing to list"
    parts = [f"{number:,} {noun if number == 1 else several}" for number, noun, several in
             ((folders, "folder", "folders"), (files, "file", "files")) if number]  # fmt: skip
    return f"`{listing['path']}` holds {' and '.join(parts)}"


def _display(entries: int) -> str:
    return phrase("found 1 entry") if entries == 1 else phrase("found {n} entries", n=f"{entries:,}")


@tool(
    name="LS",
    display_name="Folder Listing",
    kind="readonly",
    category="files",
    tags=("standard", "files"),
    doing="listing `{path}`",
    timeout=30,
    describe=searches("path"),
    render=_render,
    display=lambda listing: _display(len(listing["entries"])),
)
def list_directory(  # noqa: D417 - the context is filled in
    context: ToolContext,
    path: str = ".",
    ignore: Annotated[list[str] | None, Field(max_length=100)] = None,
    depth: Annotated[int, Field(ge=1, le=20)] = 1,
) -> Listing:
    """List what a folder holds: folders first, then files with their sizes.

    Use this to get to know a folder. To find files by name use Glob; to search in them use Grep.

    Usage notes:
        - Hidden files are shown. `.git`, `node_modules`, and what `.gitignore`, `.ignore` or `.ferruleignore` names
          are left out, unless `path` starts there. Links are named and not followed.

    Examples:
        - list what is in this folder: {}
        - which files are in the docs folder: {"path": "docs"}

    Args:
        path: The folder; the working directory unless given.
        ignore: Globs of what else to leave out, e.g. `["*.log", "build/**"]`.
        depth: How many levels of folders to list; 1 is this folder alone.
    """
    paths = paths_of(context.session)
    place = paths.find(path)
    require_folder(paths, place, phrase("Read it, or list its folder."))
    globs = [compile_glob(glob_below(glob, place)) for glob in ignore or ()]
    root = place.root.path

    def leave_out(entry: Path) -> bool:
        inner = str(entry.relative_to(root))
        return any(glob.fullmatch(inner) for glob in globs)

    walk = Walk(paths, place, leave_out)
    entries: list[ListedEntry] = []
    walking = walk.all(depth)
    for level, entry in islice(walking, _MOST):
        context.cancellation.raise_if_requested()
        name = os.fsencode(entry.path.name).decode(errors="replace")
        entries.append({"name": name, "kind": entry.kind, "size": entry.size, "depth": level})
    notes = [*about_names(entry["name"] for entry in entries), *place.remarks]
    if next(walking, None) is not None:
        notes.append(f"Only the first {_MOST:,} entries. List a folder further down, or use Glob.")
    if walk.ignored:
        notes.append(f"{walk.ignored:,} ignored {'entry' if walk.ignored == 1 else 'entries'} left out.")
    notes += held_back_note(walk.held_back)
    if walk.denied:
        notes.append(f"{walk.denied:,} {'folder' if walk.denied == 1 else 'folders'} could not be read.")
    listing: Listing = {"path": place.shown, "entries": entries}
    return noted(listing, notes)


# listFiles: what a directory holds, as two lists.


_MOST_IN_LISTS = 2000


class ListedFiles(TypedDict):
    path: str
    files: list[str]
    directories: list[str]
    total: int
    notes: NotRequired[list[str]]


@tool(
    name="listFiles",
    display_name="List files",
    kind="readonly",
    category="files",
    tags=("assistant", "files"),
    doing="listing `{directoryPath}`",
    timeout=30,
    describe=searches("directory"),
    display=lambda listed: _display(listed["total"]),
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
    listed: ListedFiles = {"path": place.shown, "files": [], "directories": [], "total": 0}
    for _, entry in Walk(paths, place).all(None if recursive else 1):
        context.cancellation.raise_if_requested()
        listed["total"] += 1
        if listed["total"] <= _MOST_IN_LISTS:
            kind = "directories" if entry.kind == "directory" else "files"
            listed[kind].append(names.show(os.fsencode(entry.path.relative_to(place.root.path))))
    cut = [f"Only the first {_MOST_IN_LISTS:,} of {listed['total']:,} entries are listed."]
    return noted(listed, [*(cut if listed["total"] > _MOST_IN_LISTS else ()), *place.remarks])
