"""Looks at the guarded places before and after a command, and takes back what the command did to them.

What exists is mounted read-only where the sandbox can mount. What does not exist yet, or lies in a folder that the
command moved, can only be looked at afterwards. A fresh repository as `git init` or `git clone` makes it may stay:
its configuration and hooks run nothing.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferrule.core.access import OF_GIT, SETTINGS, settings_among
from ferrule.process.sandbox.git_config import harmless
from ferrule.process.sandbox.plain_path import opened, read_plain
from ferrule.process.sandbox.quarantine import Quarantine
from ferrule.process.sandbox.sandbox import Denial

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from ferrule.process.sandbox.guarded import Found, GuardedTree, Mark


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
