"""Looks at the guarded places before and after a command, and takes back what the command did to them.

What exists is mounted read-only where the sandbox can mount. What does not exist yet, or lies in a folder that the
command moved, can only be looked at afterwards. A fresh repository as `git init` or `git clone` makes it may stay:
its configuration and hooks run nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.access import OF_GIT, SETTINGS, settings_among
from ferrule.process.sandbox.places import harmless
from ferrule.process.sandbox.sandbox import Denial

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from ferrule.process.sandbox.guarded import Found, GuardedTree, Mark


# Opens what lies below a folder by real names alone: a link on the way is an error, also one put there now.


_MOST_READ = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_plain(folder: int, path: str, flags: int = _FOLDER) -> int:
    """Open `path` below the open `folder`, part by part; "" is the folder itself."""
    parts = path.split("/") if path else ["."]
    at = folder
    try:
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            below = os.open(part, (flags | os.O_NOFOLLOW | os.O_CLOEXEC) if last else _FOLDER, dir_fd=at)
            if at != folder:
                os.close(at)
            at = below
    except BaseException:
        if at != folder:
            os.close(at)
        raise
    return at


@contextlib.contextmanager
def opened(folder: int, path: str, flags: int = _FOLDER) -> Generator[int]:
    """The same, for the length of a block."""
    descriptor = open_plain(folder, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_plain(root: int, path: str) -> tuple[bytes, int] | None:
    """The content and mode of a plain file of moderate size; None for anything else."""
    try:
        with opened(root, path, os.O_RDONLY | os.O_NONBLOCK) as file:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_READ:
                return None
            return os.read(file, _MOST_READ), stat.S_IMODE(state.st_mode)
    except OSError:
        return None


# Moves what must not stay where it is to a private folder outside the workspace, and follows no link on the way.


_PIECE, _MOST = 1 << 20, 64 << 20


class Quarantine:
    """The folder, made when it is first needed. It is left in place: a person may want what is in it."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def take(self, root: int, path: str) -> Path:
        """Move `path` below the open `root` out of it; raises OSError where that cannot be."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ferrule-quarantine-"))
        to = self._folder / f"{len(os.listdir(self._folder))}-{path.replace('/', '_')}"[:200]  # noqa: PTH208
        parent, _, name = path.rpartition("/")
        with opened(root, parent) as folder:
            try:
                os.rename(name, to, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy(folder, name, to)
                remove(folder, name)
        with contextlib.suppress(OSError):
            if stat.S_ISREG(to.lstat().st_mode):
                to.chmod(0o600)  # whatever it was, it is not to be run
        return to


def remove(folder: int, name: str) -> None:
    """Remove an entry of an open folder, with all that is below it."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _copy(folder: int, name: str, to: Path) -> None:
    """Files, folders and links; what is neither (a pipe, a socket) leaves nothing behind."""
    state = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(state.st_mode):
        to.symlink_to(os.readlink(name, dir_fd=folder))
    elif stat.S_ISDIR(state.st_mode):
        to.mkdir(mode=0o700)
        with opened(folder, name) as below, os.scandir(below) as entries:
            for entry in entries:
                _copy(below, entry.name, to / entry.name)
    elif stat.S_ISREG(state.st_mode):
        with opened(folder, name, os.O_RDONLY | os.O_NONBLOCK) as source, to.open("wb") as target:
            left = _MOST
            while left > 0 and (piece := os.read(source, min(_PIECE, left))):
                target.write(piece)
                left -= len(piece)


@dataclass(slots=True)
class Watched:
    """One writable folder, and what of it the sandbox has mounted read-only."""

    tree: GuardedTree
    mounted: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """By path: the numbers of the folders above it, as they were then."""
    hidden: frozenset[str] = frozenset()
    found: Found | None = None
    kept: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])
    """The contents and modes of guarded files, where they cannot be mounted and so must be put back."""

    def keep(self) -> None:
        """Keep the contents of guarded files that are not mounted, and of those in guarded folders."""
        for path, mark in (self.found.marks if self.found else {}).items():
            for inside, *_ in mark.changes if path not in self.mounted else ():
                whole = f"{path}/{inside}" if inside else path
                if (read := read_plain(self.tree.descriptor, whole)) is not None:
                    self.kept[whole] = read

    def put_back(self) -> Iterator[Denial]:
        """Give what was changed or removed its old content, and tell of what cannot be."""
        for path, (content, mode) in self.kept.items():
            now = read_plain(self.tree.descriptor, path)
            if now is not None and now[0] == content:
                continue
            try:
                parent, _, name = path.rpartition("/")
                with _made(self.tree.descriptor, parent) as folder:
                    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
                    with os.fdopen(file, "wb") as target:
                        target.write(content)
            except OSError as error:
                yield Denial(
                    "guarded",
                    path,
                    f"The command removed or changed `{path}`, which is guarded, and it could not be put back "
                    f"({error.strerror}).",
                    "Tell the person, who should look at it before using the folder.",
                )


class Sweep:
    """`begin` before a command, `end` after it."""

    def __init__(self, watched: list[Watched]) -> None:
        self._watched = watched
        self._quarantine = Quarantine()

    def begin(self) -> None:
        """Take everything as it is now for right."""
        for one in self._watched:
            one.found = one.tree.look()
            one.kept = {}
            one.keep()

    def end(self) -> tuple[Denial, ...]:
        """Take back what is new and not harmless; what is right now is known from here on."""
        denials: list[Denial] = []
        for one in self._watched:
            before = one.found or one.tree.look()
            after = one.tree.look()
            moved = {mark.number: mark for mark in before.marks.values()}
            for path in sorted(after.marks):
                mark = after.marks[path]
                if before.marks.get(path) == mark or _same(moved.get(mark.number), mark):
                    continue
                if self._is_mounted(one, path):
                    continue
                if not _may_stay(one, path, before):
                    denials.append(self._take(one, path))
            denials += one.put_back()
            one.found = one.tree.look() if denials else after
        return tuple(denials)

    def _is_mounted(self, one: Watched, path: str) -> bool:
        """Whether the sandbox could not have done it: the place is mounted read-only, and stands where it stood."""
        above = one.mounted.get(path)
        return above is not None and above == numbers_above(one.tree, path)

    def _take(self, one: Watched, path: str) -> Denial:
        why = _why(one, path)
        try:
            kept = self._quarantine.take(one.tree.descriptor, path)
        except OSError as error:
            said = f"The command made or changed `{path}`, {why}. It could not be taken away ({error.strerror})."
            return Denial("guarded", path, said, "Tell the person, who should look at it before using the folder.")
        was_there = any(place == path or place.startswith(f"{path}/") for place in one.kept)
        outcome = f"It was moved to `{kept}`{', and what was there before put back' if was_there else ''}."
        return Denial(
            "guarded",
            path,
            f"The command made or changed `{path}`, {why}. {outcome}",
            "Do without it, or ask the person to make this change.",
        )


def _why(one: Watched, path: str) -> str:
    parent, _, name = path.rpartition("/")
    if one.tree.forbids(parent, (name,)):
        return "which a rule says may not be written"
    return "which is guarded: it makes other programs run things"


@contextlib.contextmanager
def _made(root: int, path: str) -> Generator[int]:
    """A folder below the root, opened; what is missing on the way is made."""
    parts = path.split("/") if path else []
    for end in range(1, len(parts) + 1):
        above = "/".join(parts[: end - 1])
        with opened(root, above) as folder, contextlib.suppress(FileExistsError):
            os.mkdir(parts[end - 1], dir_fd=folder)
    with opened(root, path) as folder:
        yield folder


def numbers_above(tree: GuardedTree, path: str) -> tuple[int, ...]:
    """The inode numbers of the folders on the way to a path."""
    parts = path.split("/")[:-1]
    numbers: list[int] = []
    try:
        for end in range(1, len(parts) + 1):
            state = os.stat("/".join(parts[:end]), dir_fd=tree.descriptor, follow_symlinks=False)
            numbers.append(state.st_ino)
    except OSError:
        numbers.append(-1)
    return tuple(numbers)


def _same(known: Mark | None, mark: Mark) -> bool:
    """The very thing, moved with the folder it is in: nothing inside has changed."""
    return known is not None and known.kind == mark.kind and known.changes == mark.changes


def _may_stay(one: Watched, path: str, before: Found) -> bool:
    parent, _, name = path.rpartition("/")
    if path in one.hidden or one.tree.forbids(parent, (name,)):
        return False
    if path not in one.tree.named and settings_among(parent, (name,)):
        top = parent if name in SETTINGS else parent.rpartition("/")[0]  # of `.github/workflows` where `.github` lies
        return top not in before.folders  # what a fresh clone brings is for its reader to judge
    if name in OF_GIT or name == ".git":
        return _runs_nothing(one.tree, path, name)
    return False


def _runs_nothing(tree: GuardedTree, path: str, name: str) -> bool:
    if name == "hooks":
        return _only_samples(tree.descriptor, path)
    read = read_plain(tree.descriptor, path)
    if read is None:
        return False
    text = read[0].decode("utf-8", "replace")
    if name == "commondir":
        return text.strip() == "../.." and "/worktrees/" in f"/{path}"
    if name == ".git":
        target = _inside(tree, path.rpartition("/")[0], text.removeprefix("gitdir:").strip())
        return target is not None and ("/.git/worktrees/" in f"/{target}" or "/.git/modules/" in f"/{target}")
    settings = harmless(text)
    if settings is None:
        return False
    folder = path.rpartition("/")[0]
    return all(_inside(tree, folder, one.value) is not None for one in settings if one.name == "worktree")


def _inside(tree: GuardedTree, folder: str, target: str) -> str | None:
    """Where a path in a file of `folder` leads, below the root; None when it leads out."""
    whole = os.path.normpath(os.path.join(tree.root, folder, target))  # noqa: PTH118 - no links are to be followed
    return whole[len(tree.root) + 1 :] if whole.startswith(tree.root + "/") else None


def _only_samples(root: int, path: str) -> bool:
    try:
        with opened(root, path) as folder, os.scandir(folder) as entries:
            return all(entry.name.endswith(".sample") and entry.is_file(follow_symlinks=False) for entry in entries)
    except OSError:
        return False
