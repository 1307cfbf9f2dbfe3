"""Read and readFile: the content of a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.errors import ToolError
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Attachment, Output, note_lines, noted
from ferrule.workspace.files import MOST_EDITABLE, files_of, opens_file
from ferrule.workspace.media import SHOWN_IMAGES, is_cut_off, media_type, notebook_cells
from ferrule.workspace.names import amount
from ferrule.workspace.texts.pages import WHOLE, Page, read_lines
from ferrule.workspace.texts.text import decode

if TYPE_CHECKING:
    from ferrule.workspace.files import Files
    from ferrule.workspace.paths import Place


_MOST_IMAGE = 5_000_000
_TEXT, _NOTEBOOK = "text/plain", "application/x-ipynb+json"


class FileRead(TypedDict):
    """What was read of a file. The lines of a notebook are its cells; a picture or another binary file has none."""

    file_path: str
    media_type: str
    size: int
    encoding: str | None
    offset: int
    total_lines: int | None
    lines_read: int
    has_more: bool
    content: str
    notes: NotRequired[list[str]]


def _render(found: FileRead) -> str:
    lines, first = found["lines_read"], found["offset"] + 1
    if not lines:
        said, *remarks = found.get("notes", [""])
        return "\n".join([said, *(f"[{one}]" for one in remarks)])
    rows = [found["content"]]
    if found["media_type"] == _TEXT:
        rows = [f"{number:>6}\t{line}" for number, line in enumerate(found["content"].split("\n"), first)]
    if found["has_more"]:
        following, total = found["offset"] + lines, found["total_lines"]
        left = f"more {_noun(found)}s" if total is None else amount(total - following, f"more {_noun(found)}")
        rows.append(f"[… {left}; read on with offset={following}]")
    return "\n".join([*rows, *note_lines(found)])


def _display(found: FileRead) -> str:
    if found["encoding"] is None:
        size = f"{found['size']:,}"
        is_picture = found["media_type"] in SHOWN_IMAGES
        return phrase("image, {n} bytes", n=size) if is_picture else phrase("binary file, {n} bytes", n=size)
    if not found["lines_read"] and found["media_type"] == _TEXT:
        return found.get("notes", ("",))[0]
    count, cells = found["lines_read"], found["media_type"] == _NOTEBOOK
    if not (found["offset"] or found["has_more"]):
        if count == 1:
            return phrase("read 1 cell") if cells else phrase("read 1 line")
        return phrase("read {n} cells", n=f"{count:,}") if cells else phrase("read {n} lines", n=f"{count:,}")
    first, last = f"{found['offset'] + 1:,}", f"{found['offset'] + count:,}"
    if (total := found["total_lines"]) is None:
        return phrase("read lines {first} to {last}", first=first, last=last)
    if cells:
        return phrase("read cells {first} to {last} of {n}", first=first, last=last, n=f"{total:,}")
    if count == 1:
        return phrase("read line {line} of {n}", line=last, n=f"{total:,}")
    return phrase("read lines {first} to {last} of {n}", first=first, last=last, n=f"{total:,}")


def _noun(found: FileRead) -> str:
    return "cell" if found["media_type"] == _NOTEBOOK else "line"


@tool(
    name="Read",
    display_name="File Read",
    kind="readonly",
    category="files",
    tags=("standard", "files"),
    render=_render,
    display=_display,
    doing="reading `{file_path}`",
    describe=opens_file("Read"),
    max_result=400_000,
)
def read(
    file_path: Annotated[str, Field(description="The file, relative to the working directory or absolute.")],
    context: ToolContext,
    offset: Annotated[int, Field(ge=0, description="How many lines to skip, from 0.")] = 0,
    limit: Annotated[int, Field(ge=1, le=10_000, description="How many lines to read.")] = 2000,
) -> Output[FileRead]:
    """Read a file.

    Use this before changing a file, and whenever its content matters: each line comes with its number. Pictures are
    shown, notebooks come as cells, and of other binary files you get the type and the size.

    Usage notes:
        - A long file comes in pages: read on with `offset`.
        - Lines over 2000 characters are cut, and say so.

    Examples:
        - show what is in README.md: {"file_path": "README.md"}
        - read the first 40 lines of src/app.py: {"file_path": "src/app.py", "limit": 40}
    """
    files = files_of(context.session)
    place = files.paths.find(file_path)
    opened = files.paths.open_file(place)
    try:
        found, attachments = _read_page(files, place, opened, offset, limit)
    finally:
        os.close(opened)
    found = noted(found, [*found.get("notes", ()), *place.remarks])
    told = ("file_path", "offset", "total_lines", "lines_read", "has_more")
    return Output(found, attachments=attachments, metadata={key: found[key] for key in told})


def _read_page(files: Files, place: Place, opened: int, offset: int, limit: int) -> tuple[FileRead, list[Attachment]]:
    status = os.fstat(opened)
    size, kind = status.st_size, media_type(os.pread(opened, 300, 0))
    found: FileRead = {
        "file_path": place.shown, "media_type": kind, "size": size, "encoding": None, "offset": offset,
        "total_lines": None, "lines_read": 0, "has_more": False, "content": "",
    }  # fmt: skip
    if size <= WHOLE or (size <= MOST_EDITABLE and (kind in SHOWN_IMAGES or place.path.suffix == ".ipynb")):
        with os.fdopen(os.dup(opened), "rb") as file:
            data = file.read()
        files.tracker.saw(place, data, found=status)
        if kind in SHOWN_IMAGES:
            return _picture(found, place, data)
        if (
            place.path.suffix == ".ipynb"
            and (text := decode(data))
            and (cells := notebook_cells(text.text)) is not None
        ):
            return _notebook(found, place, cells, text.encoding, limit), []
    else:
        files.note_seen(place, opened)  # the very file that is shown, which another may have replaced by now
    page = read_lines(opened, offset, limit)
    if page is not None:
        return _lines(found, place, page), []
    found.setdefault("notes", []).append(
        f"`{place}` is a binary file ({kind}, {size:,} bytes); its content is not shown."
    )
    return found, []


def _lines(found: FileRead, place: Place, page: Page) -> FileRead:
    offset, lines = found["offset"], list(page.lines)
    for number, size in page.cut.items():
        lines[number - page.first] += f" [… line cut, {size:,} bytes in all]"
    if not lines:
        empty = page.total in (0, None) and offset == 0
        past = _past_end(place, amount(page.total or 0, "line"), offset)
        found.setdefault("notes", []).append(f"`{place}` is empty." if empty else past)
    return {
        **found, "media_type": _TEXT, "encoding": page.encoding, "total_lines": page.total, "lines_read": len(lines),
        "has_more": page.has_more, "content": "\n".join(lines),
    }  # fmt: skip


def _picture(found: FileRead, place: Place, data: bytes) -> tuple[FileRead, list[Attachment]]:
    kind = found["media_type"]
    if len(data) > _MOST_IMAGE:
        raise ToolError(
            phrase(
                "`{place}` is an image of {count} bytes; the limit is {most}.",
                place=place,
                count=f"{len(data):,}",
                most=f"{_MOST_IMAGE:,}",
            ),
            suggestion=phrase("Make a smaller copy of it and read that."),
        )
    found["size"] = len(data)
    if is_cut_off(kind, data):
        found.setdefault("notes", []).append(
            f"`{place}` is an image ({kind}, {len(data):,} bytes) that is truncated, so it is not shown. "
            "Create or download it again; if a program is still writing it, read it once that has finished."
        )
        return found, []
    found = noted(found, [f"`{place}` is an image ({kind}, {len(data):,} bytes)."])
    return found, [Attachment(kind, data, name=place.path.name)]


def _notebook(found: FileRead, place: Place, cells: list[str], encoding: str, limit: int) -> FileRead:
    offset = found["offset"]
    shown = cells[offset : offset + limit]
    if not shown:
        past = _past_end(place, amount(len(cells), "cell"), offset)
        found.setdefault("notes", []).append(past if cells else f"`{place}` is a notebook without cells.")
    return {
        **found, "media_type": _NOTEBOOK, "encoding": encoding, "total_lines": len(cells), "lines_read": len(shown),
        "has_more": offset + len(shown) < len(cells) and bool(shown), "content": "\n\n".join(shown),
    }  # fmt: skip


def _past_end(place: Place, length: str, offset: int) -> str:
    return f"`{place}` has {length}; offset {offset:,} is past its end."


# readFile: the assistant set's way to read a whole text file.


class FileContent(TypedDict):
    filePath: str
    content: str
    size: int
    encoding: str
    notes: NotRequired[list[str]]


@tool(
    name="readFile",
    display_name="Read file",
    kind="readonly",
    category="files",
    tags=("assistant", "files"),
    doing="reading `{filePath}`",
    describe=opens_file("readFile"),
    render=lambda value: "\n".join([value["content"] or "The file is empty.", *note_lines(value)]),
    display=lambda value: phrase("read {n} bytes", n=f"{value['size']:,}"),
    max_result=400_000,
)
def read_file(
    file_path: Annotated[
        str, Field(alias="filePath", description="The file, relative to the working directory or absolute.")
    ],
    context: ToolContext,
) -> FileContent:
    """Read a whole text file.

    Use this when the content of a file matters, and before changing it.

    Examples:
        - show what is in README.md: {"filePath": "README.md"}
    """
    files = files_of(context.session)
    place = files.paths.find(file_path)
    found = files.paths.stat(place)
    if found is not None and found.st_size > MOST_EDITABLE:
        raise ToolError(
            phrase("`{place}` has {size} bytes, too many to read at once.", place=place, size=f"{found.st_size:,}"),
            suggestion=phrase("Use Read, page by page."),
        )
    data = files.paths.read(place)
    text = decode(data)
    if text is None:
        raise ToolError(
            phrase(
                "`{place}` is a binary file ({kind}, {count} bytes).",
                place=place,
                kind=media_type(data[:300]),
                count=f"{len(data):,}",
            ),
            suggestion=phrase("Use a tool made for its type; Read shows images."),
        )
    files.tracker.saw(place, data)
    content: FileContent = {
        "filePath": place.shown, "content": text.text, "size": len(data), "encoding": text.encoding,
    }  # fmt: skip
    return noted(content, place.remarks)
