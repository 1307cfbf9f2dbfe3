"""Which files say what a search leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FERRULE_IGNORE = ".ferruleignore"
IN_EVERY_FOLDER = (".gitignore", ".ignore", ".rgignore")
"""Later ones win. `.ferruleignore` counts in the top folder of the workspace alone."""


def enclosing_ignore_files(root: Path) -> tuple[str, ...]:
    """Where a workspace is part of a larger repository: the ignore files from its top down to the workspace."""
    if (root / ".git").exists():
        return ()
    for depth, folder in enumerate(root.parents):
        if (folder / ".git").exists():
            folders = (folder, *root.parents[:depth])
            listed = [folder / ".git" / "info" / "exclude"]
            listed += [one / name for one in folders for name in IN_EVERY_FOLDER]
            return tuple(str(path) for path in listed if path.is_file() and not path.is_symlink())
    return ()
