"""getCurrentDirectory: where relative paths start."""

from __future__ import annotations

from typing import TypedDict

from ferrule.core.access import NOTHING
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool


class CurrentDirectory(TypedDict):
    path: str
    basename: str


def _show(here: CurrentDirectory) -> str:
    return here["path"]


@tool(
    name="getCurrentDirectory",
    display_name="Current directory",
    kind="readonly",
    may_block=False,
    category="files",
    tags=("assistant", "files"),
    doing="looking where it is",
    touches=NOTHING,
    display=_show,
)
async def get_current_directory(context: ToolContext) -> CurrentDirectory:
    """Get the directory that relative paths start from.

    Use this to learn where you are before naming files by relative paths.

    Examples:
        - which directory is this: {}
    """
    directory = context.working_directory
    return {"path": str(directory), "basename": directory.name}
