"""What a call that changes files would do to them, as a diff, before anybody has agreed to it. Nothing is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferrule.core.context import Session, ToolContext
from ferrule.core.errors import ToolError
from ferrule.workspace.changing import Make, plan_change
from ferrule.workspace.texts.text import Text, encode_new

if TYPE_CHECKING:
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.confirm import Question


@dataclass(slots=True, frozen=True)
class Preview:
    """A unified diff, or why the call would fail if it ran now."""

    diff: str = ""
    problem: str = ""


async def preview_of(question: Question) -> Preview | None:
    """What a yes would change: what a tried call did, or else what the call can be foreseen to do."""
    effects = question.effects
    if effects is None:
        return await preview_change(question.invocation)
    left_out = f"… the changes of {effects.left_out:,} more files are not shown\n" if effects.left_out else ""
    return Preview(effects.diff + left_out) if effects.diff or left_out else None


async def preview_change(invocation: Invocation) -> Preview | None:
    """What the call would change; None for a call of which that cannot be told, such as a command."""
    name, params, session = invocation.tool.name, invocation.params, invocation.session
    if session is None or invocation.tool is not _built_in(name):
        return None
    try:
        if name == "FileSearch":
            return None if params.preview_only or params.replace_with is None else await _replacement(params, session)
        return await asyncio.to_thread(_file_change, name, params, session)
    except (ToolError, OSError) as error:
        return Preview(problem=error.message if isinstance(error, ToolError) else str(error))


def _built_in(name: str) -> object:
    """The tool of ours with this name that changes files in a way that can be foreseen."""
    if name == "Edit":
        from ferrule.builtin.edit import edit as found
    elif name == "MultiEdit":
        from ferrule.builtin.multi_edit import multi_edit as found
    elif name == "Write":
        from ferrule.builtin.write import write as found
    elif name == "FileSearch":
        from ferrule.builtin.file_search import file_search as found
    else:
        return None
    return found


def _file_change(name: str, params: Any, session: Session) -> Preview:
    if name == "Edit":
        from ferrule.builtin.edit import edit_maker

        make = edit_maker(params.file_path, params.old_string, params.new_string, replace_all=params.replace_all)
    elif name == "MultiEdit":
        from ferrule.builtin.multi_edit import edits_maker

        make = edits_maker(params.file_path, params.edits)
    else:
        make = _writer(params.content)
    return Preview(plan_change(session, params.file_path, make, must_exist=name != "Write").diff.text)


def _writer(content: str) -> Make:
    def make(_before: bytes | None, text: Text | None) -> bytes:
        return encode_new(content, text)

    return make


async def _replacement(params: Any, session: Session) -> Preview:
    """The tool's own preview: what is shown here is what it holds itself to when it runs."""
    from ferrule.builtin.file_search import file_search

    output = await file_search.run(
        params.model_copy(update={"preview_only": True}), ToolContext(session, "preview", "FileSearch")
    )
    diff = str(output.metadata.get("diff", ""))
    left_out = output.metadata.get("diff_left_out")
    return Preview(diff + (f"… {left_out:,} more files are not shown\n" if left_out else ""))
