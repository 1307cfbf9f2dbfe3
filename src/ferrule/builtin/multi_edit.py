"""MultiEdit: several changes of one file, all or none."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ferrule.builtin.edit import FileEdited, change_existing, edited
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.result import Output
from ferrule.workspace.changing import SECONDS_TO_CHANGE, Make, require_text
from ferrule.workspace.edits.multi_edit import edited_bytes, find_edits
from ferrule.workspace.files import opens_file
from ferrule.workspace.texts.text import Text


class OneEdit(BaseModel):
    """One of the changes."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # not at start-up, but when the tool is first used

    old_string: str = Field(description="The text to replace, exactly as it stands after the edits before this one.")
    new_string: str = Field(
        description="The text to put in its place, literally: later lines need their whole indentation."
    )
    replace_all: bool = Field(default=False, description="Replace every occurrence instead of the only one.")


@tool(
    name="MultiEdit",
    kind="write",
    category="files",
    tags=("standard", "files"),
    doing="editing `{file_path}`",
    grace=SECONDS_TO_CHANGE,
    describe=opens_file("MultiEdit", write=True),
)
def multi_edit(
    file_path: Annotated[str, Field(description="The file, relative to the working directory or absolute.")],
    edits: Annotated[list[OneEdit], Field(min_length=1, description="The changes, made one after the other.")],
    context: ToolContext,
) -> Output[FileEdited]:
    """Make several changes in one file, all or none.

    Use this instead of several Edits of the same file: either every change is made, or the file stays as it is.

    Important:
        - The file must have been read first, and be unchanged since.
        - Each edit works on what the edits before it made.

    Examples:
        - make two changes in a.py:
          {"file_path": "a.py", "edits": [{"old_string": "x = 1", "new_string": "x = 2"},
          {"old_string": "y = 1", "new_string": "y = 2"}]}
    """
    found: list[Any] = []
    make = edits_maker(file_path, edits, found=found)
    changed = change_existing(context, file_path, make, edits[0].old_string)
    steps = found[0].steps
    notes = [f"Edit {number}: {step.note}" for number, step in enumerate(steps, 1) if step.note]
    replaced = sum(len(step.spans) for step in steps)
    return edited(changed, replaced, notes, [step.rung.value for step in steps])


def edits_maker(file_path: str, edits: list[OneEdit], *, found: list[Any] | None = None) -> Make:
    """What makes the file's new bytes of its old ones; where the texts were found is noted in `found`."""

    def make(before: bytes | None, text: Text | None) -> bytes:
        all_of_them, after = edited_bytes(
            file_path,
            before or b"",
            require_text(file_path, text),
            lambda whole: find_edits(whole, [(one.old_string, one.new_string, one.replace_all) for one in edits]),
        )
        if found is not None:
            found.append(all_of_them)
        return after

    return make
