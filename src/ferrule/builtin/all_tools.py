"""The list of built-ins; the only place that names them all."""

from __future__ import annotations

from copy import copy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ferrule.core.tool import Tool
    from ferrule.registry.registry import Registry


Family = Literal["standard", "assistant", "all"]

_STANDARD = {
    "Read": "read.read",
    "Write": "edit.write",
    "Edit": "edit.edit",
    "MultiEdit": "edit.multi_edit",
    "Glob": "glob.glob",
    "Grep": "grep.grep",
    "FileSearch": "file_search.file_search",
    "LS": "list_directory.list_directory",
    "Bash": "bash.bash",
    "BashOutput": "background.bash_output",
    "BashInput": "bash.bash_input",
    "KillShell": "background.kill_shell",
}
_TWINS = {
    "readFile": "read.read_file",
    "listFiles": "list_directory.list_files",
    "searchFiles": "glob.search_files",
    "executeCommand": "bash.execute_command",
}
_BOTH = {
    "getGitInfo": "surroundings.get_git_info",
    "getCurrentDateTime": "surroundings.get_current_date_time",
    "getCurrentDirectory": "surroundings.get_current_directory",
}
_FAMILIES: dict[str, dict[str, str]] = {
    "standard": {**_STANDARD, **_BOTH},
    "assistant": {**_TWINS, **_BOTH},
    "all": {**_STANDARD, **_TWINS, **_BOTH},
}
TWINS = frozenset(_TWINS)
"""The built-ins of the assistant family that are standard ones under another name."""


def builtin_tools(workspace: str | Path | None = None, *, family: Family = "standard") -> list[Tool[Any]]:
    """Ferrule's own tools, for the workspace that a session says.

    `family` chooses their names: `Read`, `Glob`, `LS`, `Bash` and the others, or the seven of the `assistant` family,
    whose `readFile`, `searchFiles`, `listFiles` and `executeCommand` do the same. A model that has both has to guess
    between them, so only a registry that people choose from needs `all`. With a folder, the tools work in that one
    wherever a runtime is given no session of its own: `Runtime([*builtin_tools("."), my_tool])`.
    """
    chosen = [_loaded(home) for home in builtin_names(family).values()]
    if workspace is None:
        return chosen
    folder = Path(workspace).expanduser().resolve()
    if not folder.is_dir():
        raise NotADirectoryError(f"There is no folder {str(workspace)!r} for the tools to work in.")
    placed = [copy(one) for one in chosen]
    for one in placed:
        one.workspace = folder
    return placed


def builtin_names(family: Family) -> dict[str, str]:
    """The names of a family, each with the place of its tool; nothing is imported."""
    if family not in _FAMILIES:
        raise ValueError(f"There is no family {family!r} of tools. Choose one of {', '.join(_FAMILIES)}.")
    return _FAMILIES[family]


def register_builtins(registry: Registry, *, drafts: bool) -> None:
    """Add all of them, each to be imported when it is first looked at; with `drafts`, what a model makes tools with."""
    for name, home in builtin_names("all").items():
        registry.register_later([name], partial(_load, home), origin="builtin")
    if drafts:
        registry.register_later(["draft_tool"], lambda: [_loaded("draft_tool.DraftTool")(registry)], origin="builtin")


def _load(home: str) -> list[Tool[Any]]:
    return [_loaded(home)]


def _loaded(home: str) -> Any:
    module, name = home.split(".")
    return getattr(import_module(f"ferrule.builtin.{module}"), name)
