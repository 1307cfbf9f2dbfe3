"""Finds the places that programs run or obey because something names them: what git's configuration points to, which
git itself is asked about, and what links in the user's home lead to.

A configuration file is asked about once for as long as it stays the same, and one that git could only read remotes and
the like from is not asked about at all. A condition (`includeIf`) counts as fulfilled: it may be tomorrow.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ferrule.core.files import start_of
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.process.arguments import ProgramWords
from ferrule.process.sandbox.git_config import harmless
from ferrule.process.sandbox.places import find_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ferrule.process.arguments import CommandLine

_SECONDS, _MOST_READ, _MOST_KEPT, _MOST_FILES, _LONGEST = 5, 1 << 20, 2_000, 200, 4_000
_CLOCK_STEP = 20_000_000  # of the coarsest clock a file system uses, in nanoseconds
_HOOKS = (
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
    "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
    "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
    "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist",
    "p4-post-changelist", "p4-pre-submit", "post-index-change",
)  # fmt: skip
_FOLDERS = {"core.hookspath", "init.templatedir"}
_EXPANDED = lazy_pattern(r"\$(?:\([^()]*\)|\{\w+\}|\w+)(?=/)")
"""What a shell puts at the start of a path, as in `$(git rev-parse --show-toplevel)/x`: most likely the top folder."""
_OTHER_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_CONFIG")


class GitSetting(NamedTuple):
    """A setting as git reads it, with the file that it is in."""

    file: str
    key: str
    value: str


Stamp = tuple[int, int, int, int] | None


def places_named_by_git(repositories: Mapping[str, str], inside: Iterable[Path] = ()) -> set[str]:
    """Paths that git runs or obeys in repositories because a configuration names them, there or not. `repositories` are
    git directories by their top folders. Programs in the folders `inside` are not used.
    """
    of_person = (*_with_included(_of_person(tuple(map(str, inside))), inside),)
    found: set[str] = set()
    for top, git_folder in repositories.items():
        common = os.path.join(git_folder, _first_line(f"{git_folder}/commondir") or ".")  # noqa: PTH118
        files = {f"{common}/config", f"{git_folder}/config", f"{git_folder}/config.worktree"}
        settings = [one for file in set(map(os.path.normpath, files)) for one in settings_in(file, inside)]
        for one in (*of_person, *_with_included(settings, inside)):
            found.update(_named(one, top, git_folder))
    return found


def settings_in(file: str, inside: Iterable[Path] = ()) -> tuple[GitSetting, ...]:
    """What git reads in a file, without what it includes; nothing where that can run nothing, or cannot be read."""
    stamp = _stamp(file)
    if stamp is None or not stamp[1]:
        return ()
    if (known := _known.get(file)) is not None and known[0] == stamp:
        return known[1]
    found: tuple[GitSetting, ...] = ()
    if stamp[1] > _MOST_READ or harmless(_content(file)) is None:
        found = _ask(ProgramWords().option("--file", file), inside)
    if len(_known) >= _MOST_KEPT:
        _known.clear()
    if _is_old(stamp):
        _known[file] = stamp, found
    return found


_known: dict[str, tuple[Stamp, tuple[GitSetting, ...]]] = {}
_person: list[tuple[object, tuple[GitSetting, ...]]] = []


def _of_person(inside: tuple[str, ...]) -> tuple[GitSetting, ...]:
    """What git reads whatever the repository: in the system's files, the user's and the environment."""
    home = os.environ.get("HOME") or "/"
    names = sorted(name for name in os.environ if name.startswith(("GIT_CONFIG", "XDG_CONFIG_HOME")))
    given = tuple((name, os.environ[name]) for name in names)
    above = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = {"/etc/gitconfig", f"{home}/.gitconfig", f"{above}/git/config", *(value for _, value in given)}
    if _person:
        files |= {one.file for one in _person[0][1]}
    stamps = {file: _stamp(file) for file in files}
    if _person and _person[0][0] == (home, given, inside, stamps):
        return _person[0][1]
    found = _ask(ProgramWords(), inside)
    stamps |= {one.file: _stamp(one.file) for one in found}
    _person[:] = [((home, given, inside, stamps), found)] if all(map(_is_old, stamps.values())) else []
    return found


def _ask(words: ProgramWords, inside: Iterable[object]) -> tuple[GitSetting, ...]:
    """Git's own reading. Where it cannot read a file, every command of it fails, and nothing of that is obeyed."""
    program = find_program("git", inside)  # pyright: ignore[reportArgumentType]
    if program is None:
        return ()
    environment = {name: value for name, value in os.environ.items() if name not in _OTHER_REPOSITORY}
    asking = ProgramWords("config", "--list", "--show-origin", "--null", "--no-includes")
    command: CommandLine = asking.add(words).line(program)
    try:
        done = subprocess.run(  # noqa: S603 - it starts nothing, and its only input is a file
            command,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    fields = done.stdout.decode(errors="surrogateescape").split("\0")
    found: list[GitSetting] = []
    for origin, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        found.append(GitSetting(origin.removeprefix("file:"), key, value))
    return tuple(found)


def _with_included(settings: Iterable[GitSetting], inside: Iterable[Path]) -> Iterator[GitSetting]:
    waiting, seen = list(settings), set[str]()
    while waiting:
        one = waiting.pop()
        yield one
        if _includes(one) and len(seen) < _MOST_FILES:
            file = _whole(one.value, os.path.dirname(one.file))  # noqa: PTH120 - text
            if file not in seen:
                seen.add(file)
                waiting += settings_in(file, inside)


def _includes(one: GitSetting) -> bool:
    return one.key == "include.path" or (one.key.startswith("includeif.") and one.key.endswith(".path"))


def _named(one: GitSetting, top: str, git_folder: str) -> Iterator[str]:
    """The places that a setting names, and the file that it is in: outside of a git directory it is one of them."""
    yield one.file
    if _includes(one):
        yield _whole(one.value, os.path.dirname(one.file))  # noqa: PTH120 - text
    elif one.key in _FOLDERS:
        for start in (top, git_folder):  # of the repository that is pushed to, hooks run in its git directory
            place = _whole(one.value, start)
            plain = os.path.normpath(place).rstrip("/")
            holds_all = any(f"{one}/".startswith(f"{plain}/") for one in (top, git_folder))
            yield from (f"{place}/{hook}" for hook in _HOOKS) if holds_all else (place,)
    elif one.key == "core.attributesfile":
        yield _whole(one.value, top)
    else:
        yield from (word for word in _programs(one.value, top) if not os.path.isdir(word))  # noqa: PTH112 - often


@lru_cache(maxsize=1024)
def _programs(value: str, top: str) -> tuple[str, ...]:
    """The files of a repository that a value names, if it is a command: a path, or a name that ends like a script's."""
    words = _words(_EXPANDED.sub(".", os.path.expandvars(value.removeprefix("!"))))
    named = [(at, part) for at, word in enumerate(words) for part in {word, word.rpartition("=")[2]}]
    return tuple(
        _whole(name, top)
        for at, name in named
        if ("/" in name and "://" not in name) or (at and "." in name.strip("."))  # the first is looked for on PATH
    )


def _words(text: str) -> list[str]:
    """The words of a command, and those of every command inside one of them, as in `f() { sh -c './x; ./y'; }; f`."""
    reader = shlex.shlex(text[:_LONGEST], posix=True, punctuation_chars="();<>|&`")
    reader.whitespace_split, reader.commenters = True, ""
    try:
        words = list(reader)
    except ValueError:
        return re.split(r"[\s();<>|&`'\"]+", text)
    return words if words == [text] else [*words, *(one for word in words for one in _words(word) if one != word)]


def _whole(value: str, start: str) -> str:
    path = os.path.expanduser(value.removeprefix(":(optional)"))  # noqa: PTH111 - text
    return os.path.join(start, path)  # noqa: PTH118 - with its `..`, which may lead elsewhere behind a link


def git_folder_of(top: str) -> str | None:
    """Where the repository of a folder is kept: its `.git`, or where a file of that name leads."""
    git = f"{top}/.git"
    if os.path.isdir(git):  # noqa: PTH112 - on every start
        return git
    line = _first_line(git)
    return _whole(line.removeprefix("gitdir:").strip(), top) if line.startswith("gitdir:") else None


@lru_cache(maxsize=1024)
def _links_in(folder: str, start: str, _as_at: Stamp) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where the links in a folder lead whose names start so, and the folders there."""
    with suppress(OSError), os.scandir(folder) as entries:
        named = [entry for entry in entries if entry.name.startswith(start) and entry.name != ".cache"]
        links = tuple(os.path.realpath(entry.path) for entry in named if entry.is_symlink())
        return links, tuple(entry.path for entry in named if entry.is_dir(follow_symlinks=False))
    return (), ()


def led_to_from_home(home: str | None = None) -> set[str]:
    """Where the links lead that a home has in place of settings, as where those are kept in a repository: in the home,
    in the folders of settings there (`~/.ssh/config`), and in those of `~/.config`.
    """
    home = home or os.path.realpath(os.environ.get("HOME") or "/")
    found: set[str] = set()
    waiting = [(home, ".", 1), (f"{home}/.config", "", 1)]
    while waiting:
        folder, start, deeper = waiting.pop()
        stamp = _stamp(folder, folder=True)
        links, folders = (_links_in if _is_old(stamp) else _links_in.__wrapped__)(folder, start, stamp)
        found.update(links)
        waiting += [(one, "", deeper - 1) for one in folders if deeper]
    return found


def _stamp(path: str, *, folder: bool = False) -> Stamp:
    """What changes with a file; None where there is none that could be read."""
    try:
        state = os.stat(path)  # noqa: PTH116 - on every start
    except (OSError, ValueError):
        return None
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(state.st_mode):
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _is_old(stamp: Stamp) -> bool:
    """Whether what changes from now on can be told by it."""
    return stamp is None or stamp[3] < time.time_ns() - _CLOCK_STEP


def _content(file: str) -> str:
    return start_of(file, _MOST_READ).decode(errors="surrogateescape")


def _first_line(file: str) -> str:
    return _content(file).partition("\n")[0].strip() if _stamp(file) is not None else ""
