"""The state of a repository: where HEAD is, what each ref is, and what is under way.

It is read from the files of a git directory, so that it can be read of one that exists only as a layer above another.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ferrule.core.files import without_waiting
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.workspace.git_folders import common_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MOST_REFS, _MOST_BYTES = 100_000, 64 << 20
OBJECT_ID = lazy_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
INVALID = "?"
"""What a ref is said to be whose file holds neither an object id nor the name of another ref."""
_MARKS = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}
_OF_STATE = lazy_pattern(
    rf"(?:worktrees/[^/]+/)?(?:HEAD|refs/.+|{'|'.join(map(re.escape, _MARKS))})|packed-refs|logs/refs/stash", re.DOTALL
)


@dataclass(slots=True, frozen=True)
class GitState:
    """Where HEAD is, what each ref is, and what is under way."""

    head: str = ""
    """`refs/heads/master`, or an object id where HEAD is detached; empty without a repository."""
    refs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Full name to object id; a symbolic ref as `ref: target`. In a part, "" says that there was none.

    A worktree's own are under the name git has for them: `worktrees/NAME/HEAD`.
    """
    operations: frozenset[str] = frozenset()
    """`merge`, `rebase`, `cherry-pick`, `revert`, `bisect`; of another worktree `worktrees/NAME/merge`."""
    stashes: tuple[str, ...] = ()
    """Newest first."""
    whole: bool = True
    """Whether refs that are not in it did not exist; else nothing is known of them."""

    @property
    def commit(self) -> str:
        """What is checked out; empty before the first commit."""
        return self.refs.get(self.head, "") if self.head.startswith("refs/") else self.head

    def part(self, after: GitState) -> GitState:
        """What differs from a later state, as a part that is small to keep; HEAD and the stashes are always in it."""
        names = [name for name in {*self.refs, *after.refs} if self.refs.get(name) != after.refs.get(name)]
        kept = {name: self.refs.get(name, "") for name in sorted({*names, self.head} - {""})}
        return replace(self, refs=kept, whole=False)

    def as_data(self) -> dict[str, Any]:
        return asdict(self) | {"operations": sorted(self.operations)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> GitState:
        return cls(
            data["head"], dict(data["refs"]), frozenset(data["operations"]), tuple(data["stashes"]), data["whole"]
        )


def read_git_state(folder: str | Path) -> GitState:
    """The state of a git directory, that of a worktree included; an empty one where there is none."""
    return state_of(state_files(folder))


def tells_state(inner: str) -> bool:
    """Whether a path below a git directory is one of those that its state is read from."""
    return _OF_STATE.fullmatch(inner) is not None and not inner.endswith(".lock")


def state_files(folder: str | Path) -> dict[str, bytes]:
    """The files of a git directory that make up its state, by their paths below it."""
    folder = str(folder)
    common = common_folder(folder)
    found: dict[str, bytes] = {}

    def take(name: str, path: str) -> None:
        if len(found) < _MOST_REFS and not name.endswith(".lock") and (content := content_of(path)) is not None:
            found[name] = content

    def take_all(place: str, prefix: str) -> None:
        for name in ("HEAD", *_MARKS):
            take(f"{prefix}{name}", f"{place}/{name}")
        for name in _below(f"{place}/refs"):
            take(f"{prefix}refs/{name}", f"{place}/refs/{name}")

    if common != folder:
        for name in _below(f"{common}/refs"):
            take(f"refs/{name}", f"{common}/refs/{name}")
    take_all(folder, "")
    for name in ("packed-refs", "logs/refs/stash"):
        take(name, f"{common}/{name}")
    for name in names_in(f"{common}/worktrees"):
        if f"{common}/worktrees/{name}" != os.path.realpath(folder):
            take_all(f"{common}/worktrees/{name}", f"worktrees/{name}/")
    return found


def state_of(files: Mapping[str, bytes]) -> GitState:
    """The state that files of a git directory tell."""
    refs: dict[str, str] = {}
    for line in os.fsdecode(files.get("packed-refs", b"")).split("\n"):
        value, _, name = line.partition(" ")
        if name and OBJECT_ID.fullmatch(value):
            refs[name] = value
    operations: set[str] = set()
    for name, content in files.items():
        where, _, last = name.rpartition("/")
        if last in _MARKS and (not where or re.fullmatch(r"worktrees/[^/]+", where)):
            operations.add(f"{where}/{_MARKS[last]}" if where else _MARKS[last])
        elif name not in ("HEAD", "packed-refs", "logs/refs/stash"):
            refs[name] = ref_value(content)
    head = ref_value(files.get("HEAD", b"")).removeprefix("ref: ")
    stashes = [line.split(" ", 2)[1:2] for line in os.fsdecode(files.get("logs/refs/stash", b"")).split("\n")]
    if "refs/stash" not in refs:
        stashes = []
    return GitState(
        "" if head in (INVALID, "refs/heads/.invalid") else head,  # that is how reftable storage says that it is used
        refs,
        frozenset(operations),
        tuple(one[0] for one in reversed(stashes) if one),
    )


def ref_value(content: bytes) -> str:
    """What a loose ref holds: an object id, or `ref: target`; `?` where it is neither."""
    text = os.fsdecode(content).rstrip("\n\r\t ")
    if OBJECT_ID.fullmatch(text):
        return text
    target = text.removeprefix("ref:").lstrip(" \t") if text.startswith("ref:") else ""
    return f"ref: {target}" if target.startswith("refs/") and "\n" not in target else INVALID


def content_of(path: str) -> bytes | None:
    """A file's bytes; nothing of a folder or link, and None where there is none of them."""
    try:
        if os.path.islink(path) or os.path.isdir(path):  # noqa: PTH112, PTH114 - thousands of refs
            return b""
        with open(path, "rb", opener=without_waiting) as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return None


def names_in(folder: str) -> list[str]:
    """The names in a folder, in order; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []


def _below(folder: str) -> Iterator[str]:
    """The files below a folder, by their paths from there."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        inner = place[len(folder) :].strip("/")
        yield from (f"{inner}/{name}" if inner else name for name in sorted(names))
