"""The list of built-ins; the only place that names them all."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.builtin.bash import bash
from ferrule.builtin.bash_input import bash_input
from ferrule.builtin.bash_output import bash_output
from ferrule.builtin.edit import edit
from ferrule.builtin.execute_command import execute_command
from ferrule.builtin.file_search import file_search
from ferrule.builtin.get_current_date_time import get_current_date_time
from ferrule.builtin.get_current_directory import get_current_directory
from ferrule.builtin.get_git_info import get_git_info
from ferrule.builtin.glob import glob
from ferrule.builtin.grep import grep
from ferrule.builtin.kill_shell import kill_shell
from ferrule.builtin.list_directory import list_directory
from ferrule.builtin.list_files import list_files
from ferrule.builtin.multi_edit import multi_edit
from ferrule.builtin.read import read
from ferrule.builtin.read_file import read_file
from ferrule.builtin.search_files import search_files
from ferrule.builtin.write import write

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
