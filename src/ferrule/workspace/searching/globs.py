"""Globs: what a model writes, in the form ripgrep reads, and as a regular expression for where there is no ripgrep.

`*` and `?` stay within a name, `**` spans folders, `{a,b}` and `[a-z]` choose. A glob without a slash means a name at
any depth; one with a slash starts at the folder that is searched.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeAlias

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathProblem, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ferrule.workspace.paths import Paths


_LONGEST = 4096
_OWN_TYPE = "ferrule"


def split_globs(text: str) -> list[str]:
    """Several globs in one text, as models write them: `*.ts, *.tsx`. A comma in braces or brackets stays."""
    parts: list[str] = [""]
    depth = 0
    for position, character in enumerate(text):
        escaped = position > 0 and text[position - 1] == "\\"
        if character in "{[" and not escaped:
            depth += 1
        elif character in "}]" and not escaped:
            depth = max(0, depth - 1)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def excluded_globs(text: str) -> list[str]:
    """The globs of what `text` names, to be left out: files, and whole folders with all that is in them."""
    out: list[str] = []
    for one in split_globs(text):
        name = one.removeprefix("!").rstrip("/")
        inside = f"{name}/**" if "/" in name else f"**/{name}/**"
        out += [inside] if one.endswith("/") else [name, inside]
    return out


def glob_below(glob: str, place: Place) -> str:
    """The glob as it reads from the root of `place`; what would lead out is refused."""
    negated = glob.startswith("!")
    body = glob[1:] if negated else glob
    if len(body) > _LONGEST:
        raise _refused(
            glob[:60] + "…",
            phrase("is {count} characters long", count=f"{len(glob):,}"),
            phrase("Use at most {most}.", most=f"{_LONGEST:,}"),
        )
    if "\0" in body:
        raise _refused(glob.replace("\0", "\\0"), phrase("holds a NUL byte"), phrase("Remove it."))
    if ".." in body.split("/"):
        raise _refused(glob, phrase("leads out with `..`"), phrase("Give the folder as `path`, and the glob below it."))
    body = body.removeprefix("./")
    if body.startswith(("/", "~")):
        body = _relative(glob, body, place)
    if body.endswith("/"):
        body += "**"
    if not body:
        raise _refused(glob, phrase("is empty"), phrase("Use `**` for every file."))
    if "/" in body:
        inner = "" if place.inner == "." else escape_glob(place.inner) + "/"
        body = f"/{inner}{body}"
    return f"!{body}" if negated else body


def _relative(glob: str, body: str, place: Place) -> str:
    """An absolute glob that lies in the searched folder, from there on."""
    start = PurePosixPath(body)
    fixed: list[str] = []
    for part in start.parts:
        if any(character in part for character in "*?[{\\"):
            break
        fixed.append(part)
    folder = PurePosixPath(*fixed) if fixed else start
    if not folder.is_relative_to(place.path):
        raise _refused(
            glob,
            phrase("does not lie in `{folder}`", folder=place.name),
            phrase("Write it from the folder given as `path`."),
        )
    return "/".join(start.parts[len(place.path.parts) :]) or "**"


def escape_glob(text: str) -> str:
    """The glob that means just this text."""
    return re.sub(r"([*?\[\]{}!\\])", r"\\\1", text)


def _refused(glob: str, why: str, suggestion: str) -> ToolError:
    return ToolError(
        phrase("The glob `{glob}` {why}.", glob=glob, why=why), kind=ErrorKind.VALIDATION, suggestion=suggestion
    )


Fit: TypeAlias = "Callable[[Sequence[bytes]], Iterable[object]]"


@dataclass(slots=True, frozen=True)
class Selection:
    """Which files a search is for: what ripgrep is told, and what it cannot be told and is looked at afterwards.

    ripgrep's own `--glob` would bring back what the ignore files leave out, so wanted names go in as a file type.
    """

    flags: tuple[str, ...]
    fit: Fit | None
    """For each of some names whether it fits (truthy), where that has to be looked at."""


def select(globs: Sequence[str], file_type: str | None = None) -> Selection:
    """The files that fit any of the globs and none of those that begin with `!`, of one type if it is given."""
    flags = [f"--glob={glob}" for glob in globs if glob.startswith("!")]
    wanted = [glob for glob in globs if not glob.startswith("!")]
    names = [_name_part(glob) for glob in wanted]
    if file_type is not None:
        flags.append(f"--type={file_type}")
    elif wanted and all(names):
        flags += [f"--type-add={_OWN_TYPE}:{name}" for name in names if name]
        flags.append(f"--type={_OWN_TYPE}")
    told = file_type is None and all(names) and all(map(_anywhere, wanted))
    if not wanted or told or wanted == ["**"]:
        return Selection(tuple(flags), None)
    either = "|".join(f"(?:{compile_glob(glob).pattern})" for glob in wanted)
    fits = re.compile(rf"(?:\./)?(?:{either})", re.DOTALL).fullmatch

    def fit(names: Sequence[bytes]) -> Iterable[object]:
        # Ten thousand names are looked at in a moment, if it is not one by one.
        return map(fits, os.fsdecode(b"\0".join(names)).split("\0"))

    return Selection(tuple(flags), fit)


def both(first: Fit | None, second: Fit) -> Fit:
    """Both must say that a name fits; one that is None says so of every name."""
    if first is None:
        return second
    return lambda names: [one and other for one, other in zip(first(names), second(names), strict=True)]


def _anywhere(glob: str) -> bool:
    """Whether a glob asks nothing of the folders that a name lies in."""
    return "/" not in glob or glob.rpartition("/")[0] == "/**"


def _name_part(glob: str) -> str | None:
    """What a glob asks of the name alone; None where that cannot be told."""
    folders, _, name = glob.rpartition("/")
    if not name or "**" in name or folders.count("{") != folders.count("}") or ("[" in folders and "]" not in folders):
        return None
    return None if ":" in name else name  # a colon means something else in ripgrep's definition of a type


@lru_cache(maxsize=1024)
def compile_glob(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression over a path from the root, `/` between its parts."""
    anchored = "/" in glob.rstrip("/")
    body = glob.strip("/") if anchored else glob.rstrip("/")
    try:
        translated = _translate(body)
        return re.compile(("" if anchored else "(?:.*/)?") + translated, re.DOTALL)
    except re.error as error:
        raise _refused(
            glob, phrase("cannot be read: {error}", error=error.msg), phrase("Put a special character in brackets.")
        ) from None


def _translate(glob: str) -> str:
    out: list[str] = []
    position = braces = 0
    while position < len(glob):
        rest = glob[position:]
        character = glob[position]
        if rest.startswith("**/") and (position == 0 or glob[position - 1] == "/"):
            out.append("(?:.*/)?")
            position += 3
            continue
        if rest == "**" and (position == 0 or glob[position - 1] == "/"):
            out.append(".*")
            position += 2
            continue
        position += 1
        if character == "*":
            if not (out and out[-1] == "[^/]*"):
                out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[" and (end := glob.find("]", position + 1 + glob[position : position + 1].count("!"))) > 0:
            chosen = glob[position:end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^/{chosen[1:]}]" if chosen[:1] in ("!", "^") else f"(?!/)[{chosen}]")
            position = end + 1
        elif character == "{" and "}" in rest:
            braces += 1
            out.append("(?:")
        elif character == "}" and braces:
            braces -= 1
            out.append(")")
        elif character == "," and braces:
            out.append("|")
        elif character == "\\" and position < len(glob):
            out.append(re.escape(glob[position]))
            position += 1
        else:
            out.append(re.escape(character))
    return "".join(out) + ")" * braces


# Which files say what a search leaves out, and what they say, for where ripgrep does not read them itself.


NEVER = (".git", "node_modules")
"""Folders that no search goes into, unless it starts there."""
FERRULE_IGNORE = ".ferruleignore"
_IN_EVERY_FOLDER = (".rgignore", ".ignore", ".gitignore")
_EXCLUDE = ".git/info/exclude"
_LARGEST = 1 << 20


@dataclass(slots=True, frozen=True)
class IgnoreRule:
    """One line of an ignore file."""

    fits: re.Pattern[str]
    keeps: bool
    folders_only: bool


_File = tuple["Path", list[IgnoreRule]]
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
        self._rules: dict[Path, list[IgnoreRule]] = {}
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

    def _of(self, file: Path) -> list[IgnoreRule]:
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


def _read(file: Path) -> Iterator[IgnoreRule]:
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
            yield IgnoreRule(compile_glob(body), keeps, body.endswith("/"))
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


# Lists folders: what is in them that is not ignored, without following a link or leaving the workspace.


EntryKind = Literal["file", "directory", "link", "other"]


@dataclass(slots=True, frozen=True)
class Entry:
    """Something in a folder."""

    path: Path
    kind: EntryKind
    size: int
    changed: int
    """When its content changed last, in nanoseconds."""


class Walk:
    """Goes through a folder and those below it."""

    def __init__(self, paths: Paths, start: Place, leave_out: Callable[[Path], bool] | None = None) -> None:
        self._paths = paths
        self._start = start
        self._ignored = Ignored(start.root.path)
        self._leave_out = leave_out
        self.ignored = 0
        self.held_back = 0
        self.denied = 0

    def folder(self, path: Path) -> list[Entry]:
        """What is in one folder: folders first, each sort in order of name."""
        place = Place(self._start.root, path, str(path))
        opened = self._paths.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        entries: list[Entry] = []
        try:
            for name in os.listdir(opened):  # noqa: PTH208 - of an open folder
                found = _stat(name, opened)
                if found is None:
                    continue
                entry = Entry(path / name, _kind(found.st_mode), found.st_size, found.st_mtime_ns)
                if self._skips(entry):
                    self.ignored += 1
                elif self._paths.kept.hides and self._paths.kept.hidden(entry.path):
                    self.held_back += 1
                else:
                    entries.append(entry)
        finally:
            os.close(opened)
        return sorted(entries, key=lambda entry: (entry.kind != "directory", os.fsencode(entry.path)))

    def all(self, depth: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Every entry with its depth from 0 on, a folder before what is in it."""
        try:
            waiting = [(0, entry) for entry in reversed(self.folder(self._start.path))]
        except OSError as error:
            raise failed(str(self._start), error) from None
        while waiting:
            level, entry = waiting.pop()
            yield level, entry
            if entry.kind == "directory" and (depth is None or level + 1 < depth):
                try:
                    inside = self.folder(entry.path)
                except (OSError, PathProblem):
                    self.denied += 1
                    continue
                waiting += [(level + 1, one) for one in reversed(inside)]

    def _skips(self, entry: Entry) -> bool:
        if self._ignored(entry.path, is_folder=entry.kind == "directory"):
            return True
        return self._leave_out is not None and self._leave_out(entry.path)


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"
