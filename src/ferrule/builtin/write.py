"""Write: a whole file, new or in place of what was there."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import AliasChoices, Field

from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.result import Output
from ferrule.workspace.changing import SECONDS_TO_CHANGE, change_file
from ferrule.workspace.files import opens_file
from ferrule.workspace.names import amount
from ferrule.workspace.texts.text import Text, encode_new


class FileWritten(TypedDict):
    """What a file holds now; `added` and `removed` count lines."""

    file_path: str
    is_overwrite: bool
    line_count: int
    byte_count: int
    added: int
    removed: int
    notes: list[str]


@tool(
    name="Write",
    kind="write",
    category="files",
    tags=("standard", "files"),
    doing="writing `{file_path}`",
    grace=SECONDS_TO_CHANGE,
    describe=opens_file("Write", write=True),
)
def write(
    file_path: Annotated[str, Field(description="The file, relative to the working directory or absolute.")],
    content: Annotated[
        str,
        Field(validation_alias=AliasChoices("content", "contents"), description="All that the file shall hold."),
    ],
    context: ToolContext,
) -> Output[FileWritten]:
    """Write a whole file, making it and its folders where they are missing.

    Use this for new files, or when most of a file changes; use Edit for small changes.

    Important:
        - A file that exists must have been read first, and be unchanged since.
        - Encoding and line endings of an existing file are kept.

    Examples:
        - create a file todo.txt with the text "call Ann": {"file_path": "todo.txt", "content": "call Ann"}
    """

    def make(_before: bytes | None, text: Text | None) -> bytes:
        return encode_new(content, text)

    changed = change_file(context, file_path, make, must_exist=False)
    verb = "Created" if changed.created else "Overwrote"
    words = f"{verb} `{changed.place}` ({amount(changed.lines, 'line')}, {amount(changed.size, 'byte')})."
    data: FileWritten = {
        "file_path": changed.place.name, "is_overwrite": not changed.created, "line_count": changed.lines,
        "byte_count": changed.size, "added": changed.added, "removed": changed.removed,
        "notes": list(changed.place.remarks),
    }  # fmt: skip
    told = {key: data[key] for key in ("file_path", "is_overwrite", "line_count", "byte_count")}
    said = changed.place.with_remarks(words)
    return Output(data, llm_content=said, display_content=words, metadata={**told, **changed.metadata})
