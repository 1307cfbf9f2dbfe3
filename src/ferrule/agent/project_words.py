"""What a project says to assistants: the `AGENTS.md` and `CLAUDE.md` of the workspace and the folders above it.

Read up to the root of the git repository, outermost first. They are the project's words: whoever can write the project
can write them, so they are marked as such, bounded, and never lead out of the repository through a link.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("AGENTS.md", "CLAUDE.md")
MOST = 32_000
_MOST_FOLDERS = 40


@dataclass(slots=True, frozen=True)
class ProjectWords:
    """One file: its name as the model would say it, and what it holds."""

    name: str
    text: str


def project_words(workspace: Path, denied: Callable[[Path], bool] = lambda path: False) -> list[ProjectWords]:
    """Every file, outermost folder first, within `MOST` characters in all; the nearest come first where room is short.

    `denied` says of a real path that a rule forbids to read it.
    """
    workspace = Path(os.path.realpath(workspace))
    folders = _folders(workspace)
    found: list[ProjectWords] = []
    seen: set[str] = set()
    room = MOST
    for folder in folders:
        for name in NAMES:
            text = _read(folder / name, folders[-1], denied)
            if text is None or not text.strip() or text in seen or room <= 0:
                continue
            seen.add(text)
            if len(text) > room:
                left = len(text) - room
                text = f"{text[:room]}\n[… {left:,} more characters are not shown; read the file for the rest.]"
            room -= len(text)
            found.append(ProjectWords(os.path.relpath(folder / name, workspace), text))
    return found[::-1]


def git_root(folder: Path) -> Path | None:
    """The folder above this one, or this one, that holds `.git`."""
    for one in (folder, *folder.parents)[:_MOST_FOLDERS]:
        if (one / ".git").exists():
            return one
    return None


def git_branch(folder: Path) -> str | None:
    """The branch that is checked out, read without starting git; a short commit where there is none."""
    root = git_root(folder)
    if root is None:
        return None
    place = root / ".git"
    try:
        if place.is_file():  # a worktree: it says where
            place = root / (_text_of(place, 4096) or "").partition("gitdir:")[2].strip()
        head = (_text_of(place / "HEAD", 300) or "").partition("\n")[0].strip()
    except OSError:
        return None
    name = head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:12]
    return "".join(one for one in name[:100] if one.isprintable() and one not in "`<>") or None


def _folders(workspace: Path) -> list[Path]:
    """From the workspace up to the git root; without one, the workspace alone."""
    root = git_root(workspace)
    if root is None:
        return [workspace]
    inside = [one for one in (workspace, *workspace.parents) if one == root or root in one.parents]
    return inside[:_MOST_FOLDERS]


def _read(path: Path, root: Path, denied: Callable[[Path], bool]) -> str | None:
    real = Path(os.path.realpath(path))
    if root not in real.parents or denied(real):
        return None
    try:
        return _text_of(real, 4 * MOST, getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None


def _text_of(path: Path, most: int, flags: int = 0) -> str | None:
    """The beginning of a file; None for a pipe or a device, which would wait or never end."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        return os.pread(file, most, 0).decode("utf-8", "replace") if stat.S_ISREG(os.fstat(file).st_mode) else None
    finally:
        os.close(file)
