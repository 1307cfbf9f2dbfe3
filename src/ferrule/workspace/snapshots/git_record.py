"""What the history keeps of changes in git directories: what was deleted, and what an undo has to say stays."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ferrule.core.guarded_names import CONFIGS
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import glued
from ferrule.workspace.git import Tracked, UnreadableIndex, parse_index
from ferrule.workspace.git_changes import remains
from ferrule.workspace.git_folders import has_object, packed_objects
from ferrule.workspace.git_state import GitState, state_files, state_of, tells_state
from ferrule.workspace.snapshots.changes import Change, Group, Node, Operation, Side, State
from ferrule.workspace.snapshots.content_store import ContentLost, NewContents, is_linked
from ferrule.workspace.snapshots.git_undo import LOOSE, inner_of, is_head
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ferrule.workspace.snapshots.content_store import ContentStore
    from ferrule.workspace.snapshots.file_states import FileStates
    from ferrule.workspace.snapshots.snapshot_store import SnapshotStore

_PASSING = lazy_pattern(
    r"(?:.*/)?(?:[^/]*\.lock|[A-Z_]+_HEAD|MERGE_(?:MSG|MODE|RR)|AUTO_MERGE|SQUASH_MSG|COMMIT_EDITMSG|BISECT_[A-Z_]+|gc\.(?:pid|log)"
    r"|shallow|rebase-(?:apply|merge)(?:/.*)?|sequencer(?:/.*)?|refs/(?:bisect|rewritten)(?:/.*)?|(?:logs/)?refs/worktree/.*"
    r"|objects/(?:[0-9a-f]{2}/tmp_.*|pack/(?:tmp_.*|\.tmp.*|multi-pack-index.*|.*\.bitmap)|info/(?:commit-graphs?(?:/.*)?|packs)))"
)
_MOST_IN_PACK = 200_000
_MOST_STAGED = 1_000


@dataclass(slots=True)
class KeptOfGit:
    """The rows that the history keeps of changes in git directories, and contents that are nowhere else."""

    rows: list[Change] = field(default_factory=list[Change])
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])


def kept_of_git(
    changes: Sequence[Change], content: Callable[[Change], bytes | None], index: Callable[[Change], Path]
) -> KeptOfGit:
    """What has to be kept so that what was deleted can be put back, and so that an undo can say what stays.

    The changes are made already. `content` gives what a file held before; `index` where the list of a pack can be read
    that was deleted.
    """
    kept = KeptOfGit()
    for repository in dict.fromkeys(one.repository for one in changes):
        assert repository is not None  # noqa: S101 - as above
        own = [one for one in changes if one.repository == repository]
        _Keeper(str(repository), own, content, index, kept).keep()
    return kept


class _Keeper:
    """Goes through what changed in one git directory."""

    def __init__(
        self,
        git: str,
        changes: Sequence[Change],
        content: Callable[[Change], bytes | None],
        index: Callable[[Change], Path],
        kept: KeptOfGit,
    ) -> None:
        self._git, self._content, self._index, self._kept = git, content, index, kept
        self._by_inner = {inner_of(one): one for one in changes}
        files = state_files(git)
        self._now = state_of(files)
        for inner, one in self._by_inner.items():
            if tells_state(inner):
                files.pop(inner, None)
                if one.before is not None and (one.before.node is Node.FILE or not inner.startswith("refs/")):
                    files[inner] = (content(one) or b"") if one.before.node is Node.FILE else b""
        self._before = state_of(files)
        heads = (inner for inner, one in self._by_inner.items() if one.after is None and is_head(inner))
        self._deleted = [inner.removesuffix("HEAD") for inner in heads]
        """Git directories in it that were deleted whole."""
        self._in_packs: set[bytes] | None = None

    def keep(self) -> None:
        for inner, one in self._by_inner.items():
            if one.after is None and not self._is_needless(inner, one):
                self._kept.rows.append(replace(one, covered=one.covered or is_linked(one.before)))
        packed = self._by_inner.get("packed-refs")
        if packed is not None and packed.after is not None:
            gone = self._before.refs.keys() - self._now.refs.keys() - self._by_inner.keys()
            for name in sorted(gone):
                if name.startswith("refs/") and not is_passing(name):
                    # It was in there: it is put back as a file of its own.
                    self._add(Operation.DELETE, name, f"{self._before.refs[name]}\n".encode(), 0o644)
        index = self._by_inner.get("index")
        staged = self._staged(index) if index is not None and index.after is not None else {}
        if self._before != self._now or staged:
            state = {
                "before": self._before.part(self._now).as_data(),
                "after": self._now.part(self._before).as_data(),
                "staged": staged,
            }
            self._add(Operation.CHANGE, "", json.dumps(state, sort_keys=True).encode())

    def _add(self, operation: Operation, inner: str, data: bytes, mode: int | None = None) -> None:
        """Keep a content for a path of the git directory, whether that was ever there in this form or not."""
        name, git = digest(data), Path(self._git)
        self._kept.contents[name] = data
        state = State(name, mode)
        self._kept.rows.append(Change(0, git / inner, operation, None, state, None, 0, covered=True, repository=git))

    def _is_needless(self, inner: str, change: Change) -> bool:
        """Whether nothing is lost with it, or git has it in another form."""
        if any(inner.startswith(unit) for unit in self._deleted):
            return inner.endswith(".lock")
        if change.of_folders or is_passing(inner):
            return inner not in ("refs", "objects")  # without these git sees no repository
        if inner.startswith("refs/"):
            return inner in self._now.refs  # packed by now
        if loose := LOOSE.fullmatch(inner):
            unit = inner[: loose.start(1)].removesuffix("/").removesuffix("objects")
            return has_object(f"{self._git}/{unit}".rstrip("/"), bytes.fromhex(loose[1] + loose[2]))
        return re.search(r"objects/pack/pack-[0-9a-f]+\.\w+$", inner) is not None and self._is_repacked(inner)

    def _is_repacked(self, inner: str) -> bool:
        """Whether all objects of a pack that was deleted are in others."""
        listed = self._by_inner.get(f"{inner.rpartition('.')[0]}.idx")
        if listed is None or listed.after is not None:
            return False
        names = packed_objects(str(self._index(listed)), _MOST_IN_PACK)
        if names is None:
            return False
        if self._in_packs is None:
            self._in_packs = set()
            folder = f"{self._git}/{inner.rpartition('/')[0]}"
            with suppress(OSError):
                for name in os.listdir(folder):  # noqa: PTH208
                    if name.endswith(".idx"):
                        self._in_packs |= packed_objects(f"{folder}/{name}", 2 * _MOST_IN_PACK) or set()
        return names <= self._in_packs

    def _staged(self, index: Change) -> dict[str, str]:
        """What was staged, by name; git may only have looked at its files again."""
        try:
            old = parse_index(self._content(index) or b"").entries if index.before is not None else {}
        except UnreadableIndex:
            return {}
        new = _staged_now(self._git)
        changed = {name: one for name, one in new.items() if old.get(name) != one}
        return {os.fsdecode(name): str(changed[name]) for name in sorted(changed)[:_MOST_STAGED]}


class HeldOfGit:
    """What is held of git directories while a layer is applied: the rows of all that is deleted, until it is done and
    `settle` knows what of that is lost.
    """

    def __init__(
        self, changes: Sequence[Change], opened: Callable[[Change], BinaryIO], files: FileStates, store: SnapshotStore
    ) -> None:
        self._changes, self._files, self._store = changes, files, store
        self._old: dict[Path, bytes] = {}
        self._needed: set[str] = set()
        self.contents = NewContents()
        self.deleted: list[Change] = []
        new = {one.repository for one in changes if inner_of(one) == "HEAD" and one.before is None}
        self.created = [one for one in changes if one.repository in new and one.after is not None]
        """What makes a new git directory: it is one with its `HEAD`, which comes last, and until then of no use."""
        # By these, what a kill leaves beside them is found.
        settings = [one for one in changes if one.path.name in CONFIGS and one.operation is Operation.CHANGE]
        self.created += [replace(one, operation=Operation.CREATE, before=None) for one in settings]
        for one in changes:
            if one.before is None or one.before.node is not Node.FILE:
                self.deleted += [one] if one.after is None else []
            elif not (one.after is None and is_linked(one.before) and self._link(one)):
                with opened(one) as file:
                    data = file.read(store.caps.file + 1)
                self._old[one.path] = data
                if one.after is None:
                    name = digest(data)
                    self._needed.add(name)
                    covered = self._store.keep(name, data, self._needed, self.contents, durable=True)
                    self.deleted.append(replace(one, before=replace(one.before, digest=name), covered=covered))

    def _link(self, change: Change) -> bool:
        assert change.before is not None  # noqa: S101 - it was there
        with self._files.nodes.above(change.path) as (above, name):
            linked = self._store.contents.link(change.before.content, name, above)
        if linked:
            self.contents[change.before.content] = 0
            self.deleted.append(replace(change, covered=True))
        return linked

    def is_as_before(self, change: Change) -> bool:
        """Whether what a change begins with is still there."""
        if change.after is None and is_linked(change.before):
            return os.path.lexists(change.path)
        return not change.covered or self._files.is_at(change, Side.BEFORE)

    def settle(self, group: Group) -> Group:
        """All is made: keep of git directories only what is lost, and what stays."""
        made = [*self.deleted, *(one for one in self._changes if one.after is not None)]
        kept = kept_of_git(
            made,
            lambda one: self._old.get(one.path),
            lambda one: self._store.contents.path(one.before.content) if one.before else Path(os.devnull),
        )
        for name, data in kept.contents.items():
            self._needed.add(name)
            self._store.keep(name, data, self._needed, self.contents, durable=False)
        self._store.replace_git(group, kept.rows, self.contents)
        return self._store.journal.group(group.number)


def is_passing(inner: str) -> bool:
    """Whether git removes it when an operation is over, or makes it again when needed: missing, it loses nothing."""
    return _PASSING.fullmatch(inner) is not None


def _staged_now(git: str) -> dict[bytes, tuple[Tracked, ...]]:
    """The entries of an index; none where it cannot be read."""
    try:
        return parse_index(Path(git, "index").read_bytes()).entries
    except (UnreadableIndex, OSError):
        return {}


# Saying what stays


def uncovered_in_git(group: Group, shown: Callable[[Path], str]) -> list[str]:
    """What a group deleted in git directories and an undo cannot put back, a line for each of them."""
    lost = Counter(one.repository for one in group.git if one.operation is Operation.DELETE and not one.covered)
    return [
        f"Undo cannot put back {count:,} deleted {'file' if count == 1 else 'files'} of `{shown(git)}`: too large"
        for git, count in lost.items()
        if git is not None
    ]


def stays_in_git(groups: Sequence[Group], contents: ContentStore, shown: Callable[[Path], str]) -> list[str]:
    """What groups that were undone, the newest first, changed in git directories and is still so, a line each."""
    before: dict[Path, GitState] = {}
    after: dict[Path, GitState] = {}
    staged: dict[Path, dict[str, str]] = {}
    for one in (row for group in groups for row in group.git if row.operation is Operation.CHANGE):
        git, state = one.repository, one.before
        assert git is not None and state is not None  # noqa: PT018, S101 - as for all of these
        try:
            kept = json.loads(contents.get(state.content))
        except ContentLost:
            continue
        older, newer = GitState.of_data(kept["before"]), before.get(git)
        before[git] = replace(older, refs={**newer.refs, **older.refs}) if newer is not None else older
        left, last = GitState.of_data(kept["after"]), after.get(git)
        after[git] = replace(last, refs={**left.refs, **last.refs}) if last is not None else left
        staged[git] = {**kept["staged"], **staged.get(git, {})}
    lines: list[str] = []
    for git, state in before.items():
        now = _staged_now(str(git)) if staged[git] else {}
        still = [name for name, one in staged[git].items() if str(now.get(os.fsencode(name))) == one]
        said = remains(git, state, after[git], shown=shown(git), staged=still)
        lines += said if len(before) == 1 else [glued(f"{shown(git)}: ", line) for line in said]
    return lines
