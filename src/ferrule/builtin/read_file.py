"""readFile: the assistant set's way to read a whole text file."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.errors import ToolError
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.workspace.files import MOST_EDITABLE, files_of, opens_file
from ferrule.workspace.media import media_type
from ferrule.workspace.texts.text import decode


class FileContent(TypedDict):
    filePath: str
    content: str
    size: int
    encoding: str
    notes: list[str]


@tool(
    name="readFile",
    display_name="Read file",
    kind="readonly",
    category="files",
    tags=("assistant", "files"),
    doing="reading `{filePath}`",
    describe=opens_file("readFile"),
    render=lambda value: "\n".join([value["content"] or "The file is empty.", *(f"[{one}]" for one in value["notes"])]),
    display=lambda value: f"read {value['size']:,} bytes",
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
            phrase("`{place}` has {size} bytes, too many to read whole.", place=place, size=f"{found.st_size:,}"),
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
            suggestion=phrase("Use a tool made for its kind; Read shows pictures."),
        )
    files.tracker.saw(place, data)
    notes = list(place.remarks)
    return {"filePath": place.name, "content": text.text, "size": len(data), "encoding": text.encoding, "notes": notes}
