"""Edit: one exact change inside a file."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from pydantic import Field

from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Output
from ferrule.workspace.changing import SECONDS_TO_CHANGE, Changed, Make, change_file, require_text
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.edits.multi_edit import edited_bytes
from ferrule.workspace.files import opens_file
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.texts.text import Text


class FileEdited(TypedDict):
    """What became of an edited file; `added` and `removed` count lines."""

    file_path: str
    replacements: int
    added: int
    removed: int
    matched_by: list[str]
    notes: list[str]


@tool(
    name="Edit",
    kind="write",
    category="files",
    tags=("standard", "files"),
    doing="editing `{file_path}`",
    grace=SECONDS_TO_CHANGE,
    describe=opens_file("Edit", write=True),
)
def edit(
    file_path: Annotated[str, Field(description="The file, relative to the working directory or absolute.")],
    old_string: Annotated[str, Field(description="The text to replace, exactly as it stands in the file.")],
    new_string: Annotated[
        str, Field(description="The text to put in its place, literally: later lines need their whole indentation.")
    ],
    context: ToolContext,
    replace_all: Annotated[bool, Field(description="Replace every occurrence instead of the only one.")] = False,
) -> Output[FileEdited]:
    """Replace a piece of text in a file.

    Use this for changes inside an existing file: everything else in it stays as it is, to the byte.

    Important:
        - The file must have been read first, and be unchanged since.
        - `old_string` must stand in the file exactly once, unless `replace_all` is set; give enough lines around it.

    Examples:
        - change "port = 80" to "port = 8080" in server.ini:
          {"file_path": "server.ini", "old_string": "port = 80", "new_string": "port = 8080"}
    """
    found: list[Any] = []
    make = edit_maker(file_path, old_string, new_string, replace_all=replace_all, found=found)
    changed = change_existing(context, file_path, make, old_string)
    notes = [found[0].note] if found[0].note else []
    return edited(changed, len(found[0].spans), notes, [found[0].rung.value])


def change_existing(context: ToolContext, file_path: str, make: Make, old_string: str) -> Changed:
    """Change a file; one that is not there, of which nothing is to be replaced, is to be made with Write."""
    try:
        return change_file(context, file_path, make, must_exist=True)
    except PathProblem as problem:
        if old_string or problem.code != "missing":
            raise
        raise PathProblem(
            problem.code, problem.message, kind=problem.kind, suggestion=phrase("To create it, use Write.")
        ) from None


def edit_maker(
    file_path: str, old_string: str, new_string: str, *, replace_all: bool, found: list[Any] | None = None
) -> Make:
    """What makes the file's new bytes of its old ones; where the text was found is noted in `found`."""

    def make(before: bytes | None, text: Text | None) -> bytes:
        one, after = edited_bytes(
            file_path,
            before or b"",
            require_text(file_path, text),
            lambda whole: find_edit(whole, old_string, new_string, replace_all=replace_all),
        )
        if found is not None:
            found.append(one)
        return after

    return make


def edited(changed: Changed, replacements: int, notes: list[str], rungs: list[str]) -> Output[FileEdited]:
    """What a model and a person hear of an edit."""
    places = "1 place" if replacements == 1 else f"{replacements} places"
    words = f"Edited `{changed.place}` in {places} (+{changed.added} -{changed.removed} lines)."
    name = changed.place.name
    return Output(
        {
            "file_path": name, "replacements": replacements, "added": changed.added, "removed": changed.removed,
            "matched_by": rungs, "notes": [*notes, *changed.place.remarks],
        },
        llm_content=changed.place.with_remarks(" ".join([words, *notes])),
        display_content=f"edited {changed.place} (+{changed.added} -{changed.removed})",
        metadata={"file_path": name, "replacements": replacements, **changed.metadata},
    )  # fmt: skip
