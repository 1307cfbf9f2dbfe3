"""The list of built-ins; the only place that names them all."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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


Family = Literal["standard", "assistant", "all"]


def builtin_tools(workspace: str | Path | None = None, *, family: Family = "standard") -> list[Tool[Any]]:
    """Ferrule's own tools, for the workspace that a session says.

    `family` chooses their names: `Read`, `Glob`, `LS`, `Bash` and the others, or the seven of the `assistant` family,
    whose `readFile`, `searchFiles`, `listFiles` and `executeCommand` do the same. A model that has both has to guess
    between them, so only a registry that people choose from needs `all`. With a folder, the tools work in that one
    wherever a runtime is given no session of its own: `Runtime([*builtin_tools("."), my_tool])`.
    """
    files: list[Tool[Any]] = [read, write, edit, multi_edit, glob, grep, file_search, list_directory]
    shell: list[Tool[Any]] = [bash, bash_output, bash_input, kill_shell]
    twins: list[Tool[Any]] = [read_file, list_files, search_files, execute_command]
    both: list[Tool[Any]] = [get_git_info, get_current_date_time, get_current_directory]
    families: dict[Any, list[Tool[Any]]] = {
        "standard": [*files, *shell, *both],
        "assistant": [*twins, *both],
        "all": [*files, *shell, *twins, *both],
    }
    if family not in families:
        raise ValueError(f"There is no family {family!r} of tools. Choose one of {', '.join(families)}.")
    chosen = families[family]
    if workspace is None:
        return chosen
    folder = Path(workspace).expanduser().resolve()
    if not folder.is_dir():
        raise NotADirectoryError(f"There is no folder {str(workspace)!r} for the tools to work in.")
    placed = [copy(one) for one in chosen]
    for one in placed:
        one.workspace = folder
    return placed
