"""Which files say what a search leaves out, and what they say, for where ripgrep does not read them itself."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.core.errors import ToolError
from ferrule.workspace.searching.globs import compile_glob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEVER = (".git", "node_modules")
"""Folders that no search goes into, unless it starts there."""
FERRULE_IGNORE = ".ferruleignore"
_IN_EVERY_FOLDER = (".rgignore", ".ignore", ".gitignore")
_EXCLUDE = ".git/info/exclude"
_LARGEST = 1 << 20


@dataclass(slots=True, frozen=True)
class Rule:
    """One line of an ignore file."""

    fits: re.Pattern[str]
    keeps: bool
    folders_only: bool


class Ignored:
    """What the ignore files of a root leave out.

    As ripgrep has it: a kind of file that says anything of a path outweighs the kinds after it (`.ignore`, then
    `.gitignore`, then `.git/info/exclude`, then `.ferruleignore`); of one kind the nearest file counts, and in it the
    last line that fits. Only a `.ferruleignore` cannot bring back what one in a folder above it leaves out: ripgrep
    reads the one at the top itself, and does not even look there.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = enclosing_repository(root) or root
        self._rules: dict[Path, list[Rule]] = {}

    def __call__(self, path: Path, *, is_folder: bool) -> bool:
        """Whether the entry at this path is left out; its folder is taken not to be."""
        if path.name in NEVER:
            return True
        folders = [one for one in path.parents if one == self._top or self._top in one.parents]
        for kind in _IN_EVERY_FOLDER:
            if (found := self._verdict(path, folders, kind, is_folder=is_folder)) is not None:
                return found
        if (found := self._verdict(path, [self._top], _EXCLUDE, is_folder=is_folder)) is not None:
            return found
        own = [one for one in path.parents if one == self._root or self._root in one.parents]
        return any(self._verdict(path, [folder], FERRULE_IGNORE, is_folder=is_folder) for folder in own)

    def _verdict(self, path: Path, folders: list[Path], kind: str, *, is_folder: bool) -> bool | None:
        for folder in folders:
            rules = self._of(folder / kind)
            if not rules:
                continue
            relative = str(path.relative_to(folder))
            for rule in reversed(rules):
                if (is_folder or not rule.folders_only) and rule.fits.fullmatch(relative):
                    return not rule.keeps
        return None

    def _of(self, file: Path) -> list[Rule]:
        if file not in self._rules:
            self._rules[file] = list(_read(file))
        return self._rules[file]


def _read(file: Path) -> Iterator[Rule]:
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        text = os.fsdecode(os.read(opened, _LARGEST))
    except OSError:  # a folder of that name
        return
    finally:
        os.close(opened)
    for line in text.splitlines():
        body = re.sub(r"(?<!\\)\s+$", "", line)
        if not body or body.startswith("#"):
            continue
        keeps = body.startswith("!")
        body = body[1:] if keeps else body
        try:
            yield Rule(compile_glob(body), keeps, body.endswith("/"))
        except ToolError:
            continue  # a line that cannot be read says nothing


def enclosing_repository(root: Path) -> Path | None:
    """The top of the larger repository that a workspace is a part of."""
    if _has_git(root):
        return None
    return next((folder for folder in root.parents if _has_git(folder)), None)


def _has_git(folder: Path) -> bool:
    return os.path.exists(folder / ".git")  # noqa: PTH110 - False, not an error, where the folder may not be searched


def enclosing_ignore_files(root: Path) -> tuple[str, ...]:
    """The ignore files above a workspace that count in it: those from the top of its repository down."""
    top = enclosing_repository(root)
    if top is None:
        return ()
    folders = [folder for folder in root.parents if folder == top or top in folder.parents]
    listed = [top / _EXCLUDE, *(folder / name for folder in folders for name in _IN_EVERY_FOLDER)]
    return tuple(str(path) for path in listed if path.is_file() and not path.is_symlink())
