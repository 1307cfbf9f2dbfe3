"""Files of a tools folder, in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ferrule import Registry
from ferrule.plugins.discovery import FolderTools
from ferrule.plugins.tools_folder import ToolsFolder


def tool_file(name: str, gives: str = "1", before: str = "") -> str:
    """A file with one tool; `before` stands above it."""
    return (
        f'from ferrule import tool\n{before}\n@tool(kind="readonly")\ndef {name}() -> str:\n'
        f'    """Give something. Use this to test."""\n    return str({gives})\n'
    )


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def load(folder: Path, files: Mapping[str, str] | None = None, **options: Any) -> ToolsFolder:
    write(folder, files or {})
    loaded = ToolsFolder(folder, **options)
    loaded.refresh(loaded.look())
    return loaded


def tools_of(loaded: ToolsFolder) -> dict[str, Any]:
    return {tool.name: tool for file in loaded.files for tool in file.tools}


def given(loaded: ToolsFolder) -> dict[str, str]:
    """What each tool gives."""
    return {name: tool() for name, tool in tools_of(loaded).items()}


def findings(loaded: ToolsFolder | FolderTools) -> dict[str, str]:
    """What is wrong, by the name of the file."""
    broken = list(loaded.broken)
    if isinstance(loaded, ToolsFolder):
        broken += [one for file in loaded.files for one in file.broken]
    return {Path(one.source).name: one.reason for one in broken}


def in_registry(*folders: Path, disabled: Iterable[str] = (), **options: Any) -> tuple[FolderTools, Registry]:
    registry = Registry(disabled=disabled)
    loaded = FolderTools(folders, registry, **options)
    loaded.load()
    return loaded, registry
