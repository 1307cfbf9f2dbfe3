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


_File = tuple["Path", list[Rule]]
"""The folder that an ignore file is in, and what it says."""
_Said = tuple[list[list[_File]], list[_File]]
"""The ignore files of each kind, and the `.ferruleignore`s, the nearest first."""


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
        self._said: dict[Path, _Said] = {}

    def __call__(self, path: Path, *, is_folder: bool) -> bool:
        """Whether the entry at this path is left out; its folder is taken not to be."""
        if path.name in NEVER:
            return True
        kinds, own = self._said_in(path.parent)
        for files in kinds:
            if (found := _verdict(path, files, is_folder=is_folder)) is not None:
                return found
        return any(_verdict(path, [file], is_folder=is_folder) for file in own)

    def _said_in(self, folder: Path) -> _Said:
        """The files with any rule that count for what is in a folder. Most folders have none, and that is quick."""
        if folder not in self._said:
            above = [folder, *folder.parents]
            folders = [one for one in above if one == self._top or self._top in one.parents]
            kinds = [self._with_rules(folders, kind) for kind in _IN_EVERY_FOLDER]
            kinds.append(self._with_rules([self._top], _EXCLUDE))
            inside = [one for one in above if one == self._root or self._root in one.parents]
            self._said[folder] = [files for files in kinds if files], self._with_rules(inside, FERRULE_IGNORE)
        return self._said[folder]

    def _with_rules(self, folders: list[Path], kind: str) -> list[_File]:
        return [(folder, rules) for folder in folders if (rules := self._of(folder / kind))]

    def _of(self, file: Path) -> list[Rule]:
        if file not in self._rules:
            self._rules[file] = list(_read(file))
        return self._rules[file]


def _verdict(path: Path, files: list[_File], *, is_folder: bool) -> bool | None:
    for folder, rules in files:
        relative = str(path.relative_to(folder))
        for rule in reversed(rules):
            if (is_folder or not rule.folders_only) and rule.fits.fullmatch(relative):
                return not rule.keeps
    return None


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
