"""The list of built-ins; the only place that names them all."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.builtin.background import bash_output, kill_shell
from ferrule.builtin.bash import bash, bash_input, execute_command
from ferrule.builtin.edit import edit, multi_edit, write
from ferrule.builtin.file_search import file_search
from ferrule.builtin.glob import glob, search_files
from ferrule.builtin.grep import grep
from ferrule.builtin.list_directory import list_directory, list_files
from ferrule.builtin.read import read, read_file
from ferrule.builtin.surroundings import get_current_date_time, get_current_directory, get_git_info

if TYPE_CHECKING:
    from ferrule.core.tool import Tool


def builtin_tools(workspace: str | Path | None = None) -> list[Tool[Any]]:
    """Every tool Ferrule brings, for the workspace that a session says.

    With a folder, they work in that one wherever a runtime is given no session of its own:
    `Runtime([*builtin_tools("."), my_tool])`.
    """
    standard: list[Tool[Any]] = [read, write, edit, multi_edit, glob, grep, file_search, list_directory]
    shell: list[Tool[Any]] = [bash, bash_output, bash_input, kill_shell]
    assistant: list[Tool[Any]] = [read_file, list_files, search_files, get_git_info, execute_command]
    every = [*standard, *shell, *assistant, get_current_date_time, get_current_directory]
    if workspace is None:
        return every
    folder = Path(workspace).expanduser().resolve()
    if not folder.is_dir():
        raise NotADirectoryError(f"There is no folder {str(workspace)!r} for the tools to work in.")
    placed = [copy(one) for one in every]
    for one in placed:
        one.workspace = folder
    return placed
