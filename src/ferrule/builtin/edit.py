"""Write, Edit and MultiEdit: change a file, and show what a change would do before it is approved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from ferrule.core.context import Session, ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Output, noted
from ferrule.core.shown_text import cut
from ferrule.workspace.changing import SECONDS_TO_CHANGE, Changed, Make, change_file, plan_change, require_text
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.edits.multi_edit import edited_bytes, find_edits
from ferrule.workspace.files import opens_file
from ferrule.workspace.names import amount
from ferrule.workspace.problems import PathError
from ferrule.workspace.texts.diff import line_count
from ferrule.workspace.texts.text import Text, encode_new

_PREVIEW = 51  # 50 characters and a mark


async def _preview(params: Any, session: Session) -> str:
    """What a call would do to a file, as a diff, before it is approved. Nothing is written."""
    import asyncio

    file_path: str = params.file_path
    if hasattr(params, "content"):
        make = _writer(params.content)
    elif hasattr(params, "edits"):
        make = _editor(file_path, lambda whole: find_edits(whole, _steps(params.edits)))
    else:
        old, new, replace_all = params.old_string, params.new_string, params.replace_all
        make = _editor(file_path, lambda whole: find_edit(whole, old, new, replace_all=replace_all))
    must_exist = not hasattr(params, "content")
    return await asyncio.to_thread(lambda: plan_change(session, file_path, make, must_exist=must_exist).diff.text)


class FileWritten(TypedDict):
    """What a file holds now; `added` and `removed` count lines."""

    file_path: str
    is_overwrite: bool
    line_count: int
    byte_count: int
    added: int
    removed: int
    notes: NotRequired[list[str]]


@tool(
    name="Write",
    display_name="File Write",
    kind="write",
    category="files",
    tags=("standard", "files"),
    doing="writing `{file_path}`",
    grace=SECONDS_TO_CHANGE,
    describe=opens_file("Write", write=True),
    preview=_preview,
)
def write(
    file_path: Annotated[str, Field(description="The file, relative to the working directory or absolute.")],
    content: Annotated[
        str,
        Field(validation_alias=AliasChoices("content", "contents"), description="The whole new content of the file."),
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
    changed = change_file(context, file_path, _writer(content), must_exist=False)
    verb = "Created" if changed.created else "Overwrote"
    count = line_count(changed.text.text) if changed.text else 0
    words = f"{verb} `{changed.place}` ({amount(count, 'line')}, {amount(changed.size, 'byte')})."
    data: FileWritten = {
        "file_path": changed.place.shown, "is_overwrite": not changed.created, "line_count": count,
        "byte_count": changed.size, "added": changed.added, "removed": changed.removed,
    }  # fmt: skip
    told = {key: data[key] for key in ("file_path", "is_overwrite", "line_count", "byte_count")}
    said = changed.place.with_remarks(words)
    lines = phrase("1 line") if count == 1 else phrase("{n} lines", n=f"{count:,}")
    shown = phrase("created, {lines}", lines=lines) if changed.created else phrase("overwritten, {lines}", lines=lines)
    data = noted(data, changed.place.remarks)
    return Output(data, llm_content=said, display_content=shown, metadata={**told, **changed.metadata})


class FileEdited(TypedDict):
    """What became of an edited file; `added` and `removed` count lines."""

    file_path: str
    replacements: int
    added: int
    removed: int
    matched_by: list[str]
    notes: NotRequired[list[str]]


@tool(
    name="Edit",
    display_name="File Edit",
    kind="write",
    category="files",
    tags=("standard", "files"),
    doing="editing `{file_path}`",
    grace=SECONDS_TO_CHANGE,
    describe=opens_file("Edit", write=True),
    preview=_preview,
)
def edit(
    file_path: Annotated[str, Field(description="The file, relative to the working directory or absolute.")],
    old_string: Annotated[str, Field(description="The text to replace, exactly as it appears in the file.")],
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
    make = _editor(file_path, lambda whole: find_edit(whole, old_string, new_string, replace_all=replace_all), found)
    changed = _change_existing(context, file_path, make, old_string)
    notes = [found[0].note] if found[0].note else []
    return _edited(changed, found, notes, old_string)


class OneEdit(BaseModel):
    """One of the changes."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # not at start-up, but when the tool is first used

    old_string: str = Field(description="The text to replace, exactly as it appears after the edits before this one.")
    new_string: str = Field(
        description="The text to put in its place, literally: later lines need their whole indentation."
    )
    replace_all: bool = Field(default=False, description="Replace every occurrence instead of the only one.")


@tool(
    name="MultiEdit",
    display_name="File Edits",
    kind="write",
    category="files",
    tags=("standard", "files"),
    doing="editing `{file_path}`",
    grace=SECONDS_TO_CHANGE,
    describe=opens_file("MultiEdit", write=True),
    preview=_preview,
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
    make = _editor(file_path, lambda whole: find_edits(whole, _steps(edits)), found)
    changed = _change_existing(context, file_path, make, edits[0].old_string)
    steps = found[0].steps
    notes = [f"Edit {number}: {step.note}" for number, step in enumerate(steps, 1) if step.note]
    return _edited(changed, steps, notes, edits[0].old_string)


# What the three have in common: how a file's new bytes are made of its old ones, and what is said of that.


def _writer(content: str) -> Make:
    return lambda _before, text: encode_new(content, text)


def _editor(file_path: str, find: Callable[[str | bytes], Any], found: list[Any] | None = None) -> Make:
    """Where the text was found is noted in `found`."""

    def make(before: bytes | None, text: Text | None) -> bytes:
        one, after = edited_bytes(file_path, before or b"", require_text(file_path, text), find)
        if found is not None:
            found.append(one)
        return after

    return make


def _steps(edits: list[OneEdit]) -> list[tuple[str, str, bool]]:
    return [(one.old_string, one.new_string, one.replace_all) for one in edits]


def _change_existing(context: ToolContext, file_path: str, make: Make, old_string: str) -> Changed:
    """Change a file; one that is not there, of which nothing is to be replaced, is to be made with Write."""
    try:
        return change_file(context, file_path, make, must_exist=True)
    except PathError as problem:
        if old_string or problem.code != "missing":
            raise
        raise PathError(
            problem.code, problem.message, kind=problem.kind, suggestion=phrase("To create it, use Write.")
        ) from None


def _edited(changed: Changed, steps: Sequence[Any], notes: list[str], old_string: str) -> Output[FileEdited]:
    replacements, name = sum(len(step.spans) for step in steps), changed.place.shown
    words = f"Edited `{changed.place}` in {amount(replacements, 'place')} (+{changed.added} -{changed.removed} lines)."
    data: FileEdited = {
        "file_path": name, "replacements": replacements, "added": changed.added, "removed": changed.removed,
        "matched_by": [step.rung.value for step in steps],
    }  # fmt: skip
    return Output(
        noted(data, [*notes, *changed.place.remarks]),
        llm_content=changed.place.with_remarks(" ".join([words, *notes])),
        display_content=phrase("edited (+{added} −{removed})", added=changed.added, removed=changed.removed),
        metadata={
            "file_path": name, "replacements": replacements, "old_string_preview": cut(old_string, _PREVIEW),
            **changed.metadata,
        },
    )  # fmt: skip
