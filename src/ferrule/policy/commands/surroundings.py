"""What is known at a point of a command: the values of variables, the folders it may stand in, its functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .expansion import Loose, is_number
from .hazards import loads_code

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_FOLDERS = 4
_NOT_A_FILE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin", "/dev/zero", "/dev/full"})
_SETS_ITSELF = re.compile(
    r"_|REPLY|MAPFILE|COPROC\w*|OPT(ARG|IND|ERR)|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH\w*|BASH\w*|FUNCNAME|DIRSTACK|GROUPS|PIPESTATUS|HISTCMD|COMP_\w*|READLINE_\w*"
)
"""Variables that change without being set: what a command sets them to says nothing."""
_MOVES = re.compile(r"\b(cd|pushd|popd|chdir)\b")
_SETS = re.compile(r"\s*[-+*/%]?=(?!=)")
_SETS_NUMBER = re.compile(r"\s*[-+*/%]?=\s*(?:\$\(\(|-?[0-9]+(?:\b|$))")


class Surroundings:
    """Changes as the command goes on; a copy is kept where a way forks."""

    def __init__(self, directory: str | None, home: str | None) -> None:
        self.home = home or "~"
        self.variables: dict[str, str] = {"HOME": self.home}
        if directory is not None:
            self.variables["PWD"] = directory
        self.folders: tuple[str, ...] | None = (directory or "",)
        """Every folder that the command may stand in; empty for where it starts, None for anywhere."""
        self.functions: frozenset[str] = frozenset()
        self._texts_of_functions = ""

    def kept(self) -> tuple[dict[str, str], tuple[str, ...] | None, frozenset[str]]:
        """What `back_to` needs to undo everything from here on."""
        return dict(self.variables), self.folders, self.functions

    def back_to(self, kept: tuple[dict[str, str], tuple[str, ...] | None, frozenset[str]]) -> None:
        """Undo everything since `kept`: a subshell has ended."""
        self.variables, self.folders, self.functions = kept

    def start_over(self) -> None:
        """In another shell: nothing that this one set is known there."""
        self.variables = {"HOME": self.home}
        self.functions = frozenset()

    def maybe_since(self, kept: tuple[dict[str, str], tuple[str, ...] | None, frozenset[str]]) -> None:
        """All that happened since `kept` may have happened or not: only what holds both ways is still known."""
        before, folders, functions = kept
        self.forget_changes(before)
        self.may_have_stayed(folders)
        self.functions &= functions

    # -- variables

    def set(self, name: str, value: str | None) -> None:
        """A variable gets a value, or one that is not known."""
        if value is None or loads_code(name) or _SETS_ITSELF.fullmatch(name):
            self.variables.pop(name, None)
        else:
            self.variables[name] = value

    def set_number(self, name: str) -> None:
        """A variable gets some whole number."""
        self.variables[name] = Loose(f"${name}", option=False, number=True)

    def forget_changes(self, before: dict[str, str]) -> None:
        """What was set since `before` may or may not have been: forget it."""
        for name in [name for name in {*self.variables, *before} if before.get(name) is not self.variables.get(name)]:
            value = self.variables.pop(name, None)
            if value is not None and is_number(value) and name in before and is_number(before[name]):
                self.set_number(name)

    def define(self, name: str, text: str) -> None:
        """A function is defined; from now on it may be called, by whatever name leads to it."""
        self.functions |= {name}
        self._texts_of_functions += text

    def called(self) -> None:
        """A function ran, and with it perhaps others: forget what any of them names, and where they go."""
        for name in list(self.variables):
            if name != "HOME" and re.search(rf"\b{re.escape(name)}\b", self._texts_of_functions):
                del self.variables[name]
        self.lost_in(self._texts_of_functions)

    def forget_set_in(self, text: str) -> None:
        """Before a loop: forget the variables that its text may set, for it runs again."""
        for name in list(self.variables):
            found = re.finditer(rf"(?<![\w$])(?<!\$\{{){re.escape(name)}\b", text)
            stays = [_stays_number(text, one.start(), one.end()) for one in found]
            if stays and is_number(self.variables[name]) and all(stays):
                self.set_number(name)
            elif stays:
                del self.variables[name]

    # -- folders

    def move(self, folder: str) -> None:
        """Change the folder; empty is one that is not known."""
        if folder == "~":
            self.folders = (self.home,)
        elif folder.startswith(("/", "~")):
            self.folders = (folder,)
        elif folder and self.folders is not None:
            self.folders = tuple(_joined(one, folder) for one in self.folders)
        else:
            self.folders = None
        self.variables.pop("PWD", None)

    def may_have_stayed(self, before: tuple[str, ...] | None) -> None:
        """What came between may have failed: the folder is the one before or the one after."""
        if self.folders is not before:
            both = None if self.folders is None or before is None else tuple(dict.fromkeys((*self.folders, *before)))
            self.folders = both if both is None or len(both) <= _MOST_FOLDERS else None

    def lost_in(self, text: str) -> None:
        """A loop or function that changes the folder may be run any number of times."""
        if _MOVES.search(text):
            self.folders = None

    def paths(self, paths: Iterable[str]) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
        """Paths as they are seen from where the command starts, and the patterns among them."""
        found: list[str | None] = []
        globs: list[str] = []
        for path in paths:
            if path in _NOT_A_FILE or path == "-":
                continue
            if not isinstance(path, Loose):
                found += self._placed(path)
            elif path.known:
                found += [one for choice in path.choices for one in self._placed(choice)]
                placed = [one for glob in path.globs for one in self._placed(glob)]
                globs += [one for one in placed if one is not None]
                found += [None] if None in placed else []
            else:
                found.append(None)
        return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(globs))

    def _placed(self, path: str) -> list[str | None]:
        if path.startswith(("/", "~")):
            return [path]
        return [None] if self.folders is None else [_joined(folder, path) for folder in self.folders]


def is_no_file(path: str) -> bool:
    """Whether what is written there is kept nowhere."""
    return path in _NOT_A_FILE and not isinstance(path, Loose)


def _joined(folder: str, path: str) -> str:
    return path if not folder else f"{folder.rstrip('/')}/{path}"


def _stays_number(text: str, start: int, end: int) -> bool:
    """Whether a bare name in a loop's text is one that leaves a number a number."""
    before = text[:start].rstrip()
    after = text[end : end + 12]
    if before.endswith("(("):
        return True
    if _SETS.match(after):
        return _SETS_NUMBER.match(after) is not None
    return before[-1:] in tuple("(+-*/%<>=!&|?:,~^[;")
