"""What git knows of a repository that may be malicious: nothing that its settings name is ever run.

A repository's own settings can name programs for git to start: monitors, hooks, filters, diff and text converters,
pagers, helpers, transports. Three walls keep them from running. The settings that `status` would obey are overridden,
filter drivers by name. No transport is allowed. And on Linux the kernel lets git start no other program at all.

Before and after each shell command git itself is not asked: what it tracks is read from its index file.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.files import start_of, without_waiting
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import advice, phrase
from ferrule.workspace.git_folders import SHA1, SHA256, SUMS, first_line, git_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ferrule.workspace.paths import Paths

SECONDS = 15.0
_MOST_OUTPUT = 8 << 20
_OVERRIDES = {
    **dict.fromkeys(
        ("core.fsmonitor", "core.sshCommand", "core.quotePath", "gpg.program", "log.showSignature",
         "status.submoduleSummary", "submodule.recurse"), "false",
    ),
    **dict.fromkeys(("core.hooksPath", "core.attributesFile", "core.excludesFile"), os.devnull),
    **dict.fromkeys(
        ("core.gitProxy", "core.askPass", "core.alternateRefsCommand", "credential.helper", "diff.external",
         "uploadpack.packObjectsHook"), "",
    ),
    **dict.fromkeys(("protocol.allow", "protocol.ext.allow"), "never"),
    "core.pager": "cat",
}  # fmt: skip
_ENVIRONMENT = {
    **dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "HOME"), os.devnull),
    **dict.fromkeys(("GIT_ATTR_NOSYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_NO_LAZY_FETCH"), "1"),
    **dict.fromkeys(("GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT"), "0"),
    **dict.fromkeys(("GIT_ASKPASS", "GIT_SSH_COMMAND"), "false"),
    "GIT_ALLOW_PROTOCOL": "none", "GIT_PAGER": "cat", "LC_ALL": "C", "PATH": os.defpath,
}  # fmt: skip
_STATUS = (
    "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames",
)  # fmt: skip
_WORKTREE = lazy_pattern(r"^\s*worktree\s*=\s*(\S.*?)\s*$", re.MULTILINE)
_LOGIN = lazy_pattern(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/@]*@")


@dataclass(slots=True)
class Repository:
    """What git says of a repository. Names are from the folder of the repository on."""

    branch: str | None = None
    commit: str | None = None
    remote: str | None = None
    modified: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])
    deleted: list[str] = field(default_factory=list[str])


async def look_at_repository(paths: Paths) -> Repository | None:
    """The repository that the working directory lies in, as far as it lies in the workspace; None without one."""
    from ferrule.process.sandbox.places import find_program  # most runs of Ferrule start no program

    top = _top(paths)
    if top is None:
        return None
    program = find_program("git", (root.path for root in paths.roots))
    if program is None:
        raise ToolError(
            phrase("git is not installed."), kind=ErrorKind.NOT_FOUND, suggestion=phrase("Go on without it.")
        )
    git = ConfinedGit(program, top, {"GIT_DIR": str(top / ".git"), "GIT_WORK_TREE": str(top)})
    _check_outside(paths, top)
    listed = await git("config", "--null", "--name-only", "--get-regexp", r"^(filter|diff)\..*\.", may_fail=True)
    git.silence(listed.split("\0"))
    repository = _read_status(await git(*_STATUS))
    url = await git("config", "--null", "--get", "remote.origin.url", may_fail=True)
    if not url:
        others = await git("config", "--null", "--get-regexp", r"^remote\..*\.url$", may_fail=True)
        url = others.partition("\0")[0].partition("\n")[2]
    remote = url.rstrip("\0")
    repository.remote = without_login(remote) if remote else None
    return repository


def _top(paths: Paths) -> Path | None:
    """The nearest folder with a `.git`, from the working directory up to the top of the workspace."""
    directory = paths.directory
    roots = [root.path for root in paths.roots if root.path == directory or root.path in directory.parents]
    if not roots:
        return None
    highest = min(roots, key=lambda root: len(root.parts))
    for folder in (directory, *directory.parents):
        git = folder / ".git"
        if os.path.isfile(git) or os.path.exists(git / "HEAD"):  # noqa: PTH110, PTH113 - no error where it is closed
            # Git would wait for the other end of a pipe that stands where one of its files should.
            for name in ("HEAD", "config", "index", "packed-refs"):
                file = git / name
                if os.path.exists(file) and not os.path.isfile(file):  # noqa: PTH110, PTH113
                    raise ToolError(
                        phrase("`.git/{name}` is not a regular file, so git cannot read this repository.", name=name),
                        suggestion=advice("Go on without git, or ask the user to look at `.git`.", "Look at `.git`."),
                    )
            return folder
        if folder == highest:
            return None
    return None


def _check_outside(paths: Paths, top: Path) -> None:
    """A `.git` that leads elsewhere is used only if what it leads to says that it belongs here."""
    git = top / ".git"
    real = Path(os.path.realpath(git))
    if real.is_file():
        said = first_line(str(real)).removeprefix("gitdir:").strip()
        real = Path(os.path.realpath(top / said))
    if any(root.path == real or root.path in real.parents for root in paths.roots):
        return
    back = first_line(f"{real}/gitdir")  # a worktree knows where its `.git` is
    if back and os.path.realpath(real / back) == os.path.realpath(git):
        return
    config = start_of(str(real / "config"), 1 << 16).decode(errors="replace")
    worktree = re.search(r"^\s*worktree\s*=\s*(.+?)\s*$", config, re.MULTILINE)
    if worktree and os.path.realpath(real / worktree[1].strip('"')) == str(top):  # a submodule's
        return
    raise ToolError(
        phrase("`.git` leads to a repository outside the workspace that does not belong to it."),
        kind=ErrorKind.PERMISSION,
        suggestion=advice("Go on without git, or ask the user to look at `.git`.", "Look at `.git`."),
    )


class ConfinedGit:
    """git for one repository, with everything of it switched off that could start a program.

    `place` says where the repository is, as variables of git's environment. Naming both folders skips the search for a
    repository, the question of who owns it, and `core.worktree`.
    """

    def __init__(
        self, program: str, top: Path, place: Mapping[str, str], settings: Mapping[str, str] | None = None
    ) -> None:
        self._program = os.path.realpath(program)
        self._top, self._place = top, place
        self._settings: dict[str, str] = {**_OVERRIDES, **(settings or {})}

    def silence(self, names: list[str]) -> None:
        """Empty every driver that the repository defines, by the names of its settings."""
        for name in names:
            driver, _, _ = name.rpartition(".")
            if driver.startswith("filter."):
                self._settings |= {f"{driver}.{one}": "" for one in ("clean", "smudge", "process")}
                self._settings[f"{driver}.required"] = "false"
            elif driver.startswith("diff."):
                self._settings |= {f"{driver}.command": "", f"{driver}.textconv": ""}

    async def __call__(self, *arguments: str, may_fail: bool = False, place: Mapping[str, str] | None = None) -> str:
        import asyncio

        from ferrule.process.arguments import CommandLine
        from ferrule.process.landlock import Confinement, needed_by
        from ferrule.workspace.child import Child

        command = CommandLine((self._program, "--no-pager", "--no-optional-locks", "--literal-pathspecs", *arguments))
        # Settings as git takes them from its environment, where a name may hold anything.
        given = {"GIT_CONFIG_COUNT": str(len(self._settings))}
        for number, (key, value) in enumerate(self._settings.items()):
            given |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        child = Child(
            command,
            folder=self._top,
            environment={**_ENVIRONMENT, **self._place, **(place or {}), **given},
            confinement=Confinement(needed_by(self._program)),
        )
        try:
            async with asyncio.timeout(SECONDS), child:
                output = bytearray()
                async for piece in child.output():
                    output += piece
                    if len(output) > _MOST_OUTPUT:
                        raise ToolError(phrase("git gave more output than can be read."))
                code = await child.ended()
        except TimeoutError:
            raise ToolError(
                phrase("git did not answer within {seconds} s.", seconds=f"{SECONDS:g}"),
                kind=ErrorKind.TIMEOUT,
                suggestion=phrase("Go on without it."),
            ) from None
        if code != 0 and not may_fail:
            lines = [line for line in child.complaints.splitlines() if line.startswith(("fatal:", "error:"))]
            why = lines[-1].partition(": ")[2].rstrip(".") if lines else phrase("it gave no reason")
            raise ToolError(phrase("git could not read the repository: {why}.", why=why))
        return output.decode(errors="replace") if code == 0 else ""


def _read_status(text: str) -> Repository:
    repository = Repository()
    for record in text.split("\0"):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            key, _, value = rest.partition(" ")
            if key == "branch.oid" and value != "(initial)":
                repository.commit = value
            elif key == "branch.head" and value != "(detached)":
                repository.branch = value
        elif kind == "?":
            repository.added.append(rest)
        elif kind in ("1", "u"):
            fields = rest.split(" ", 7 if kind == "1" else 9)
            state = fields[0] if kind == "1" else "MM"
            name = fields[-1]
            if "D" in state:
                repository.deleted.append(name)
            elif state[0] == "A" or state[1] == "A":
                repository.added.append(name)
            else:
                repository.modified.append(name)
    return repository


def without_login(url: str) -> str:
    """The address without the name and password that may stand in it."""
    return _LOGIN.sub(lambda found: found["scheme"], url)


# Its index, read without git


_LARGEST = 256 << 20
_STAT = 40  # bytes of an entry that say what the file looked like
_EXTENDED, _NAME = 0x4000, 0x0FFF
_WHOLE = frozenset({b"link", b"sdir"})
"""Extensions without which an index says nothing: a shared part elsewhere, folders in place of files."""
_KNOWN = 2
_parsed: dict[str, tuple[tuple[int, ...], GitIndex]] = {}


class UnreadableIndex(Exception):  # noqa: N818 - reads as what it says
    """An index in a form that is not understood, or a damaged one."""


class Tracked(NamedTuple):
    """A version of a file that git has. `flags` are its stage, and whether git should overlook changes of it."""

    mode: int
    digest: bytes
    flags: int


@dataclass(slots=True, frozen=True)
class GitIndex:
    """The names that git tracks, from the top of its repository on, each with its mode and the digests of its content.

    `whole` is False of an index that could not be read: then everything may be tracked.
    """

    entries: dict[bytes, tuple[Tracked, ...]] = field(default_factory=dict[bytes, "tuple[Tracked, ...]"])
    names: tuple[bytes, ...] = ()
    whole: bool = True

    def tracks(self, name: bytes) -> bool:
        return not self.whole or name in self.entries

    def tracks_below(self, folder: bytes) -> bool:
        """Whether anything in a folder is tracked."""
        start = folder + b"/"
        at = bisect_left(self.names, start)
        return not self.whole or (at < len(self.names) and self.names[at].startswith(start))

    def names_content(self, name: bytes, content: Iterator[bytes], size: int, *, link: bool) -> bytes:
        """The digest under which git tracks just this content of a file, or target of a link; empty where it does not.
        That says nothing yet of whether git has it.
        """
        kept = self.entries.get(name) if self.whole else None
        if not kept:
            return b""
        wanted = {one.digest for one in kept if stat.S_ISLNK(one.mode) == link}
        sum_of = hashlib.new(SUMS[len(kept[0].digest)], usedforsecurity=False)
        sum_of.update(b"blob %d\0" % size)
        for piece in content:
            sum_of.update(piece)
        return sum_of.digest() if sum_of.digest() in wanted else b""


def index_of(repository: str) -> GitIndex:
    """The index of the repository at a folder; parsed once for as long as the file stays the same."""
    file = f"{git_folder(repository)}/index"
    try:
        stream = open(file, "rb", opener=without_waiting)  # noqa: SIM115 - before every look box
    except FileNotFoundError:
        return GitIndex()
    except OSError:
        return GitIndex(whole=False)
    with stream:
        found = os.fstat(stream.fileno())
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = _parsed.get(file)
        if known is not None and known[0] == stamp:
            return known[1]
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            return GitIndex(whole=False)
        data = stream.read(_LARGEST)
    try:
        index = parse_index(data)
    except UnreadableIndex:
        index = GitIndex(whole=False)
    while len(_parsed) >= _KNOWN:
        _parsed.pop(next(iter(_parsed)))
    _parsed[file] = (stamp, index)
    return index


def needed_outside(root: Path) -> list[str]:
    """What lies outside a folder and git needs in it: the git directory of the repository that the folder is a part of,
    or that it is a worktree or submodule of. Not that of a home that is a repository itself.
    """
    top = enclosing_repository(root)
    if top is not None:
        homes = (Path(os.path.realpath(Path.home())), Path(os.path.realpath(tempfile.gettempdir())))
        return [] if any(home.is_relative_to(top) for home in homes) else [str(top / ".git"), *_common_folder(top)]
    return _common_folder(root)


def _common_folder(repository: Path) -> list[str]:
    """Where a worktree or submodule has its repository. That one must know it too: else any file that is called `.git`
    could have any folder shown.
    """
    git = os.path.realpath(git_folder(str(repository)))
    if git == str(repository / ".git"):
        return []
    common = os.path.realpath(os.path.join(git, first_line(f"{git}/commondir") or "."))  # noqa: PTH118
    if common == git:
        named = _WORKTREE.search(os.fsdecode(start_of(f"{git}/config", 4096)))
        is_its_own = named is not None and os.path.realpath(os.path.join(git, named[1])) == str(repository)  # noqa: PTH118
    else:
        is_its_own = os.path.realpath(first_line(f"{git}/gitdir") or "-") == str(repository / ".git")
        is_its_own = is_its_own and git.startswith(f"{common}/worktrees/")
    has_all = all(os.path.exists(f"{common}/{name}") for name in ("HEAD", "objects", "refs"))  # noqa: PTH110
    return [common] if is_its_own and has_all else []


def parse_index(data: bytes) -> GitIndex:
    """What an index file of version 2, 3 or 4 says."""
    for digest in (SHA1, SHA256):  # which one, only the repository's settings say; the wrong one never comes out even
        try:
            return _parse(data, digest)
        except (UnreadableIndex, IndexError):
            continue
    raise UnreadableIndex


def _parse(data: bytes, digest: int) -> GitIndex:
    version = int.from_bytes(data[4:8])
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise UnreadableIndex
    entries: dict[bytes, tuple[Tracked, ...]] = {}
    at, name, end = 12, b"", len(data) - digest
    for _ in range(int.from_bytes(data[8:12])):
        start = at
        at += _STAT
        mode, content = int.from_bytes(data[start + 24 : start + 28]), data[at : at + digest]
        flags = int.from_bytes(data[at + digest : at + digest + 2])
        more = int.from_bytes(data[at + digest + 2 : at + digest + 4]) if flags & _EXTENDED else 0
        at += digest + (4 if flags & _EXTENDED else 2)
        if version == 4:
            value = data[at] & 0x7F
            while data[at] & 0x80:
                at += 1
                value = ((value + 1) << 7) | (data[at] & 0x7F)
            cut, at = value, at + 1
            stop = data.find(b"\0", at, end)
            name = name[: len(name) - cut] + data[at:stop]
            at = stop + 1
        else:
            stop = data.find(b"\0", at, end)
            name = data[at:stop]
            at = start + ((stop - start) // 8 + 1) * 8
        if stop < 0 or not name or (flags & _NAME) != min(len(name), _NAME):
            raise UnreadableIndex
        entries[name] = (
            *entries.get(name, ()),
            Tracked(mode, content, flags & ~_NAME | more << 16),
        )  # an unmerged file has several
    while at + 8 <= end:
        if data[at : at + 4] in _WHOLE or not re.fullmatch(rb"[A-Za-z]{4}", data[at : at + 4]):
            raise UnreadableIndex
        at += 8 + int.from_bytes(data[at + 4 : at + 8])
    if at != end:
        raise UnreadableIndex
    return GitIndex(entries, tuple(sorted(entries)))


def enclosing_repository(root: Path) -> Path | None:
    """The top of the larger repository that a workspace is a part of."""
    if _has_git(root):
        return None
    return next((folder for folder in root.parents if _has_git(folder)), None)


def _has_git(folder: Path) -> bool:
    return os.path.exists(folder / ".git")  # noqa: PTH110 - False, not an error, where the folder may not be searched
