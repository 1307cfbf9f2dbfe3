"""Read: the lines of a file, numbered; pictures and notebooks as what they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.errors import ToolError
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Attachment, Output
from ferrule.workspace.amounts import amount
from ferrule.workspace.cut_pictures import is_cut_off
from ferrule.workspace.files import MOST_EDITABLE, files_of
from ferrule.workspace.media import SHOWN_IMAGES, media_type, notebook_cells
from ferrule.workspace.session_paths import file_signature, folder_rule, reads_file, refuses_file_outside
from ferrule.workspace.texts.pages import WHOLE, Page, read_lines
from ferrule.workspace.texts.text import decode
from ferrule.workspace.tracker import digest_of

if TYPE_CHECKING:
    from ferrule.workspace.files import Files
    from ferrule.workspace.paths import Place

_MOST_IMAGE = 5_000_000


@tool(
    name="Read",
    kind="readonly",
    category="files",
    tags=("standard", "files"),
    doing="reading `{file_path}`",
    touches_in=reads_file,
    refusal_in=refuses_file_outside,
    signature_in=file_signature,
    abstract_rule_in=folder_rule("Read"),
    max_result=400_000,
)
def read(
    file_path: Annotated[str, Field(description="The file, relative to the working directory or absolute.")],
    context: ToolContext,
    offset: Annotated[int, Field(ge=0, description="How many lines to skip, from 0.")] = 0,
    limit: Annotated[int, Field(ge=1, le=10_000, description="How many lines to read.")] = 2000,
) -> Output:
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
        page = _read_page(files, place, opened, offset, limit)
        output = page if isinstance(page, Output) else _numbered(place, page, offset)
        output.llm_content = place.with_remarks(output.llm_content or "")
        return output
    finally:
        os.close(opened)


def _read_page(files: Files, place: Place, opened: int, offset: int, limit: int) -> Page | Output:
    found = os.fstat(opened)
    size, kind = found.st_size, media_type(os.pread(opened, 300, 0))
    if size <= WHOLE or (size <= MOST_EDITABLE and (kind in SHOWN_IMAGES or place.path.suffix == ".ipynb")):
        with os.fdopen(os.dup(opened), "rb") as file:
            data = file.read()
        files.tracker.saw(place, data, found=found)
        if kind in SHOWN_IMAGES:
            return _image(place, kind, data)
        if (
            place.path.suffix == ".ipynb"
            and (text := decode(data))
            and (cells := notebook_cells(text.text)) is not None
        ):
            return _notebook(place, cells, offset, limit)
    elif size <= MOST_EDITABLE and not files.tracker.has_seen(place, found):
        # A later change must tell whether this is still what was seen: of the very file that is shown, which another
        # may have replaced by now.
        with os.fdopen(os.dup(opened), "rb") as file:
            files.tracker.saw(place, name=digest_of(file), found=found)
    page = read_lines(opened, offset, limit)
    if page is not None:
        return page
    return Output(
        data={"file_path": place.name, "media_type": kind, "size": size},
        llm_content=f"`{place}` is a binary file ({kind}, {size:,} bytes); its content is not shown.",
        display_content=f"binary file, {size:,} bytes",
    )


def _numbered(place: Place, page: Page, offset: int) -> Output:
    data = {
        "file_path": place.name,
        "total_lines": page.total,
        "lines_read": len(page.lines),
        "has_more": page.has_more,
        "encoding": page.encoding,
    }
    metadata = {key: data[key] for key in ("total_lines", "lines_read", "has_more")}
    if not page.lines:
        empty = page.total in (0, None) and offset == 0
        words = f"`{place}` is empty." if empty else _past_end(place, amount(page.total or 0, "line"), offset)
        return Output(data=data, llm_content=words, display_content=words, metadata=metadata)
    rows = [f"{number:>6}\t{line}{_cut_note(page, number)}" for number, line in enumerate(page.lines, page.first)]
    if page.has_more:
        following = page.first - 1 + len(page.lines)
        left = amount(page.total - following, "more line") if page.total is not None else "more lines"
        rows.append(f"[… {left}; read on with offset={following}]")
    display = f"read {amount(len(page.lines), 'line')}" + (
        f" of {page.total:,}" if page.has_more and page.total else ""
    )
    return Output(data=data, llm_content="\n".join(rows), display_content=display, metadata=metadata)


def _cut_note(page: Page, number: int) -> str:
    return f" [… line cut, {page.cut[number]:,} bytes in all]" if number in page.cut else ""


def _image(place: Place, kind: str, data: bytes) -> Output:
    if len(data) > _MOST_IMAGE:
        raise ToolError(
            phrase(
                "`{place}` is a picture of {count} bytes; at most {most} are shown.",
                place=place,
                count=f"{len(data):,}",
                most=f"{_MOST_IMAGE:,}",
            ),
            suggestion=phrase("Make a smaller copy of it and read that."),
        )
    found = {"file_path": place.name, "media_type": kind, "size": len(data)}
    if is_cut_off(kind, data):
        return Output(
            data=found,
            llm_content=f"`{place}` is a picture ({kind}, {len(data):,} bytes) whose end is missing, so it is not "
            "shown. Make or download it again; if a program is still writing it, read it when that has ended.",
            display_content=f"picture without its end, {len(data):,} bytes",
        )
    return Output(
        data=found,
        llm_content=f"`{place}` is a picture ({kind}, {len(data):,} bytes).",
        display_content=f"picture, {len(data):,} bytes",
        attachments=[Attachment(kind, data, name=place.path.name)],
    )


def _notebook(place: Place, cells: list[str], offset: int, limit: int) -> Output:
    shown = cells[offset : offset + limit]
    more = len(cells) - offset - len(shown)
    text = "\n\n".join(shown) + (
        f"\n[… {amount(more, 'more cell')}; read on with offset={offset + len(shown)}]" if more > 0 else ""
    )
    none = _past_end(place, amount(len(cells), "cell"), offset) if cells else f"`{place}` is a notebook without cells."
    return Output(
        data={"file_path": place.name, "cells": len(cells), "cells_read": len(shown), "has_more": more > 0},
        llm_content=text or none,
        display_content=f"read {amount(len(shown), 'cell')}",
    )


def _past_end(place: Place, length: str, offset: int) -> str:
    return f"`{place}` has {length}; offset {offset:,} is past its end."
