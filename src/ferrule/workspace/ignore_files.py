"""Ignore files: what searches, listings and the changes of a command leave out.

A line is read as git reads it. `Ignored` says what a search or a listing does not show; ripgrep reads most of these
files itself, and it is for where it does not. `IgnoredPaths` says which paths of a layer are build output and caches:
a command cannot hide what it did there, since a `.gitignore` that it wrote itself does not count, what git tracks is
never ignored, and neither is a place that other programs obey. Only a folder that is new as a whole may call itself a
cache.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ferrule.core.guarded_names import is_setting
from ferrule.workspace.git import GitIndex, enclosing_repository, index_of
from ferrule.workspace.git_folders import git_folder, has_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

NEVER = (".git", "node_modules")
"""Folders that no search goes into, unless it starts there."""
FERRULE_IGNORE = ".ferruleignore"
"""At the top of a root; `.ignore` is for the folders below."""
_IGNORE, _EXCLUDE = ".gitignore", ".git/info/exclude"
_IN_EVERY_FOLDER = (".rgignore", ".ignore", _IGNORE)
_ALWAYS = "__pycache__"
_TAG, _SIGNATURE = "CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55"
_LARGEST, _LONGEST, _MOST_SPANS = 1 << 20, 4096, 8
_CLASSES = {
    b"alnum": rb"a-zA-Z0-9", b"alpha": rb"a-zA-Z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f", b"digit": rb"0-9",
    b"graph": rb"!-~", b"lower": rb"a-z", b"print": rb" -~", b"punct": rb"!-\x2f:-@\x5b-`{-~", b"space": rb"\s",
    b"upper": rb"A-Z", b"xdigit": rb"0-9a-fA-F",
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class IgnoreRule:
    """One line of an ignore file, as a pattern for the path from its folder on, or for the name alone."""

    pattern: re.Pattern[bytes]
    name_alone: bool
    folders_only: bool
    keeps: bool

    def fits(self, inner: bytes, name: bytes, *, folder: bool) -> bool:
        if self.folders_only and not folder:
            return False
        return self.pattern.fullmatch(name if self.name_alone else inner) is not None


# For searches and listings


_IgnoreFile = tuple["Path", tuple[IgnoreRule, ...]]
"""The folder that an ignore file is in, and its lines, the last first."""


class Ignored:
    """What the ignore files of a root leave out.

    As ripgrep has it: a kind of file that says anything of a path outweighs the kinds after it (`.ignore`, then
    `.gitignore`, then `.git/info/exclude`, then the root's `.ferruleignore`); of one kind the nearest file counts, and
    in it the last line that fits.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = enclosing_repository(root) or root
        self._rules: dict[Path, tuple[IgnoreRule, ...]] = {}
        self._said: dict[Path, list[list[_IgnoreFile]]] = {}

    def __call__(self, path: Path, *, is_folder: bool) -> bool:
        """Whether the entry at this path is left out; its folder is taken not to be."""
        if path.name in NEVER:
            return True
        # The files with any rule that count in this folder, nearest first; most folders have none, which is quick.
        if path.parent not in self._said:
            above = [path.parent, *path.parent.parents]
            folders = [one for one in above if one == self._top or self._top in one.parents]
            kinds = [self._with_rules(folders, kind) for kind in _IN_EVERY_FOLDER]
            kinds += [self._with_rules([self._top], _EXCLUDE), self._with_rules([self._root], FERRULE_IGNORE)]
            self._said[path.parent] = [files for files in kinds if files]
        name = os.fsencode(path.name)
        for files in self._said[path.parent]:
            for folder, rules in files:
                inner = os.fsencode(path.relative_to(folder))
                for rule in rules:
                    if rule.fits(inner, name, folder=is_folder):
                        return not rule.keeps
        return False

    def _with_rules(self, folders: list[Path], kind: str) -> list[_IgnoreFile]:
        for file in (folder / kind for folder in folders):
            if file not in self._rules:
                self._rules[file] = _rules(str(file))
        return [(folder, rules) for folder in folders if (rules := self._rules[folder / kind])]


def enclosing_ignore_files(root: Path) -> tuple[str, ...]:
    """The ignore files above a workspace that count in it: those from the top of its repository down."""
    top = enclosing_repository(root)
    if top is None:
        return ()
    folders = [folder for folder in root.parents if folder == top or top in folder.parents]
    listed = [top / _EXCLUDE, *(folder / name for folder in folders for name in _IN_EVERY_FOLDER)]
    return tuple(str(path) for path in listed if path.is_file() and not path.is_symlink())


# For the layer of a command


_Files = tuple[tuple[int, tuple[IgnoreRule, ...]], ...]
"""Ignore files: how many bytes of a path lead to the folder of each, and its lines, the last first."""


@dataclass(slots=True, frozen=True)
class _Repository:
    """A repository that paths belong to: how many bytes lead to it, and what git tracks in it."""

    length: int
    index: GitIndex


class IgnoredPaths:
    """What git ignores below one root of a workspace. Paths are relative to the root.

    As git has it: of the `.gitignore`s up to the top of the repository the nearest that says anything counts, and in it
    the last line that fits; then `.git/info/exclude`. What is in an ignored folder is ignored.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root).rstrip("/")
        self._top = str(enclosing_repository(root) or root).rstrip("/")
        self._said: dict[str, _Files] = {}
        self._repositories: dict[str, _Repository | None] = {}

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether git ignores a path whose own folder it does not ignore."""
        above, _, last = path.rpartition("/")
        if folder and last == _ALWAYS:
            return True
        files = self._files(self._whole(above))
        whole, name = (os.fsencode(self._whole(path)), os.fsencode(last)) if files else (b"", b"")
        for length, rules in files:
            inner = whole[length:]
            for rule in rules:
                if rule.fits(inner, name, folder=folder):
                    return not rule.keeps
        return False

    def tracks(self, path: str) -> bool:
        """Whether git tracks a file, or something in a folder of this path."""
        repository = self._repository(self._whole(path.rpartition("/")[0]))
        if repository is None:
            return False
        name = os.fsencode(self._whole(path))[repository.length :]
        return repository.index.tracks(name) or repository.index.tracks_below(name)

    def holds(self, path: str, content: Iterator[bytes], size: int, *, link: bool) -> bool:
        """Whether git has the content that a file has in the workspace: its index names it, and the object is there."""
        repository = self._repository(self._whole(path.rpartition("/")[0]))
        if repository is None:
            return False
        whole = os.fsencode(self._whole(path))
        named = repository.index.names_content(whole[repository.length :], content, size, link=link)
        return bool(named) and has_object(git_folder(os.fsdecode(whole[: repository.length - 1])), named)

    def is_cache(self, path: str, there: bool, above: Iterable[Path]) -> bool:
        """Whether a folder says that it is a cache. One that is not `there` in the workspace, so that all in it is new,
        may say so itself; `above` are the same folder in the layers.
        """
        if there:
            return _is_tag(f"{self._whole(path)}/{_TAG}")
        return any(_is_tag(f"{one}/{_TAG}") or _lines(f"{one}/{_IGNORE}") == [b"*"] for one in above)

    def _whole(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _files(self, folder: str) -> _Files:
        """The ignore files that count in a folder, the nearest first; a repository within another has its own alone."""
        new: list[str] = []
        while folder not in self._said:
            new.append(folder)
            if folder == self._top or os.path.lexists(f"{folder}/.git"):
                self._said[folder] = *_file(folder, _IGNORE), *_file(folder, _EXCLUDE)
                break
            folder = folder.rpartition("/")[0]
        for one in reversed(new):
            if one not in self._said:
                self._said[one] = *_file(one, _IGNORE), *self._said[one.rpartition("/")[0]]
        return self._said[new[0] if new else folder]

    def _repository(self, folder: str) -> _Repository | None:
        new: list[str] = []
        while folder not in self._repositories:
            new.append(folder)
            if os.path.lexists(f"{folder}/.git"):
                self._repositories[folder] = _Repository(len(os.fsencode(folder)) + 1, index_of(folder))
            elif folder == self._top:
                self._repositories[folder] = None
            else:
                folder = folder.rpartition("/")[0]
        found = self._repositories[folder]
        self._repositories.update(dict.fromkeys(new, found))
        return found


def is_guarded(path: str) -> bool:
    """Whether other programs run or obey what is at a path, or in it."""
    return is_setting(path) or ".git" in path.split("/")


def is_made_again(path: str) -> bool:
    """Whether a program recreates a file whenever it is missing, so that deleting it loses nothing."""
    return _ALWAYS in path.split("/")[:-1]


def _file(folder: str, name: str) -> _Files:
    rules = _rules(f"{folder}/{name}")
    return ((len(os.fsencode(folder)) + 1, rules),) if rules else ()


# Reading a file


def _rules(file: str) -> tuple[IgnoreRule, ...]:
    """The lines that say something, the last first: it outweighs those before it."""
    return tuple(rule for line in reversed(_lines(file)) if (rule := _rule(line)) is not None)


def _is_tag(file: str) -> bool:
    return _content(file, len(_SIGNATURE)) == _SIGNATURE


def _lines(file: str) -> list[bytes]:
    """The lines of an ignore file that say something."""
    lines = _content(file, _LARGEST).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    bodies = [re.sub(rb"(?<!\\) +$", b"", line.removesuffix(b"\r")) for line in lines]
    return [body for body in bodies if body and not body.startswith(b"#")]


def _content(file: str, most: int) -> bytes:
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(opened, most)
    except OSError:  # a folder of that name
        return b""
    finally:
        os.close(opened)


def _rule(line: bytes) -> IgnoreRule | None:
    """What a line says; None where it is no pattern that can be read."""
    keeps = line.startswith(b"!")
    body = line[1:] if keeps else line
    folders_only = body.endswith(b"/")
    body = body[:-1] if folders_only else body
    name_alone = b"/" not in body
    try:
        return IgnoreRule(_compiled(body.removeprefix(b"/")), name_alone, folders_only, keeps)
    except (ValueError, re.error):
        return None


@lru_cache(maxsize=4096)
def _compiled(glob: bytes) -> re.Pattern[bytes]:
    if not glob or len(glob) > _LONGEST or glob.count(b"**") > _MOST_SPANS:
        raise ValueError
    parts = _parts(glob)
    pattern = b""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == b"**" and len(parts) > 1:
            pattern += b".+" if last else b"(?:.*/)?"
        else:
            pattern += _segment(part) + (b"" if last else b"/")
    return re.compile(pattern, re.DOTALL)


def _parts(glob: bytes) -> list[bytes]:
    """What is between slashes; one in brackets is a character like others."""
    parts: list[bytes] = []
    at = start = 0
    while at < len(glob):
        one = glob[at : at + 1]
        if one == b"[":
            _, at = _bracket(glob, at + 1)
            continue
        if one == b"/":
            parts.append(glob[start:at])
            start = at + 1
        at += 2 if one == b"\\" else 1
    return [*parts, glob[start:]]


def _segment(glob: bytes) -> bytes:
    """A pattern for one part of a path. What stands between two stars is met where it first occurs, which is enough,
    so that no pattern takes longer than the name is long.
    """
    chunks: list[bytes] = [b""]
    at = 0
    while at < len(glob):
        one = glob[at : at + 1]
        at += 1
        if one == b"*":
            chunks.append(b"")
        elif one == b"?":
            chunks[-1] += b"[^/]"
        elif one == b"[":
            pattern, at = _bracket(glob, at)
            chunks[-1] += pattern
        else:
            if one == b"\\":
                one, at = glob[at : at + 1], at + 1
                if not one:
                    raise ValueError
            chunks[-1] += re.escape(one)
    first, *others = chunks
    if not others:
        return first
    *middle, end = others
    return first + b"".join(b"(?>[^/]*?%s)" % chunk for chunk in middle if chunk) + b"[^/]*" + end


def _bracket(glob: bytes, at: int) -> tuple[bytes, int]:
    """`[a-z]` from after its `[` on, and where it ends."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    inside = b""
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        if glob.startswith(b"[:", at):
            name, closed, _ = glob[at + 2 :].partition(b":]")
            if not closed or name not in _CLASSES:
                raise ValueError
            inside += _CLASSES[name]
            at += len(name) + 4
            continue
        low, at = _character(glob, at)
        if glob[at : at + 1] == b"-" and glob[at + 1 : at + 2] not in (b"]", b""):
            high, at = _character(glob, at + 1)
            if low <= high:
                inside += re.escape(low) + b"-" + re.escape(high)
        else:
            inside += re.escape(low)
    if not inside:
        return (b"[^/]" if negated else b"(?!)"), at + 1
    return (b"(?!/)[%s%s]" % (b"^" if negated else b"", inside)), at + 1


def _character(glob: bytes, at: int) -> tuple[bytes, int]:
    at += glob[at : at + 1] == b"\\"
    one = glob[at : at + 1]
    if not one:
        raise ValueError
    return one, at + 1
