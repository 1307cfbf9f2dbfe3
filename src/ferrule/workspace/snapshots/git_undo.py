"""Puts back what a command deleted in a git directory. Undo and redo never remove or rewrite anything there: what git
would have kept stays, whatever else happened meanwhile.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferrule.core.files import unfinished_name, write_new
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import shown_row
from ferrule.workspace.git_folders import has_object, loose_kind
from ferrule.workspace.git_state import OBJECT_ID, read_git_state, ref_value
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Node, Operation
from ferrule.workspace.snapshots.content_store import ContentLost, is_linked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from ferrule.workspace.snapshots.content_store import ContentStore
    from ferrule.workspace.snapshots.file_states import FileStates

_OBJECTS = lazy_pattern(
    r"(?:.*/)?(?:objects/[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})|objects/pack/pack-[0-9a-f]+\.(?:pack|idx|rev)"
    r"|(?:lfs|annex)/objects/.+)"
)
LOOSE = lazy_pattern(r"(?:.*/)?objects/([0-9a-f]{2})/([0-9a-f]{38}|[0-9a-f]{62})")
_LOG = lazy_pattern(r"(?:.*/)?logs/.+")
_IDS = lazy_pattern(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ")
_MOST_REFS = 5


def is_object(inner: str) -> bool:
    """Whether a file of a git directory never changes once it is there, so that a second name for it keeps it."""
    return _OBJECTS.fullmatch(inner) is not None


def by_safety(changes: Sequence[Change]) -> list[Change]:
    """Changes of git directories in an order in which a stop at any moment leaves what git would leave: objects come
    before what names them, and go after it. What takes the place of a folder comes last.
    """
    gone = [one for one in changes if one.after is None]
    folders = {one.path for one in gone if one.of_folders}
    replacing = [one for one in changes if one.after is not None and one.path in folders]
    made = [one for one in changes if one.after is not None and one.path not in folders]
    needed = {path for one in made for path in (one.path, *one.path.parents)}
    in_the_way = [one for one in gone if one.path in needed]  # a ref where a folder of refs has to be, say
    rest = [one for one in gone if one.path not in needed]
    return [*in_the_way, *sorted(made, key=_rank), *sorted(rest, key=_rank_gone), *replacing]


def _rank_gone(change: Change) -> int:
    return 2 if change.of_folders else is_object(inner_of(change))


def _rank(change: Change) -> tuple[int, int]:
    inner, depth = inner_of(change), len(change.path.parts)
    if change.of_folders:
        return 0, depth
    if is_object(inner):
        return (2 if inner.endswith(".idx") else 1), depth
    if inner == "HEAD" or inner.endswith("/HEAD"):
        return 6, -depth
    return (5 if re.match(r"(?:.*/)?(?:refs/|packed-refs$)", inner) else 4), depth


def is_head(inner: str) -> bool:
    """Whether it is the `HEAD` of a git directory, or of one inside it."""
    return inner == "HEAD" or re.fullmatch(r"(?:.*/)?(?:worktrees/[^/]+|modules/.+)/HEAD", inner) is not None


def inner_of(change: Change) -> str:
    assert change.repository is not None  # noqa: S101 - only those are given to this module
    return str(change.path)[len(str(change.repository)) + 1 :]


@dataclass(slots=True)
class PutBack:
    """What became of what a command had deleted in git directories."""

    refs: list[str] = field(default_factory=list[str])
    files: Counter[Path] = field(default_factory=Counter["Path"])
    """How many others, by git directory."""
    failed: list[str] = field(default_factory=list[str])

    def lines(self, shown: Callable[[Path], str]) -> list[str]:
        """What was put back, a line each."""
        files = [
            phrase("{count} deleted files of `{folder}` put back", count=f"{count:,}", folder=shown(git))
            if count > 1
            else phrase("1 deleted file of `{folder}` put back", folder=shown(git))
            for git, count in self.files.items()
        ]
        refs = [phrase("{ref} put back", ref=one) for one in self.refs[:_MOST_REFS]]
        if more := len(self.refs) - len(refs):
            refs.append(phrase("{count} more branches and tags put back", count=f"{more:,}"))
        return [*files, *refs]


def put_back(rows: Iterable[Change], files: FileStates, contents: ContentStore) -> PutBack:
    """Put back what was deleted in git directories and is still missing."""
    done = PutBack()
    by_repository: dict[Path, list[Change]] = {}
    for one in rows:
        if one.operation is Operation.DELETE and one.repository is not None:
            by_repository.setdefault(one.repository, []).append(one)
    for git, deleted in by_repository.items():
        _Restorer(git, deleted, files, contents, done).restore()
    return done


class _Restorer:
    """Puts back what was deleted in one git directory."""

    def __init__(
        self, git: Path, deleted: Sequence[Change], files: FileStates, contents: ContentStore, done: PutBack
    ) -> None:
        self._git, self._deleted, self._files, self._contents, self._done = git, deleted, files, contents, done
        # Before anything is there again: a ref that was packed as well must not count as there for that.
        self._refs = set(read_git_state(git).refs)
        heads = {inner_of(one).removesuffix("HEAD") for one in deleted if is_head(inner_of(one))}
        self._whole = {unit for unit in heads if not os.path.lexists(git / unit / "HEAD")}
        """Git directories in it that are gone altogether: of these everything comes back."""
        self._closed = heads - self._whole
        """Those that were recreated since: nothing of the old ones belongs in them."""
        is_folder = any(map(inner_of, deleted))  # and not the file `.git` of a worktree
        if "" not in self._whole and is_folder and not os.path.lexists(git / "HEAD"):
            self._closed.add("")
        self._lost_objects = False

    def restore(self) -> None:
        for one in sorted(self._deleted, key=_rank):
            inner = inner_of(one)
            is_ref = inner.startswith("refs/") and not one.of_folders
            if is_ref:
                # Remove empty folders where a ref has to be, as git does.
                with suppress(OSError):
                    for name, _, _ in os.walk(one.path, topdown=False):
                        os.rmdir(name)  # noqa: PTH106
            if is_ref and inner in self._refs:
                continue
            if os.path.lexists(one.path) and not (is_ref and one.path.is_dir()):
                continue
            units = [unit for unit in (*self._closed, *self._whole) if inner.startswith(unit)]
            unit = max(units, key=len, default=None)
            if unit is not None and unit in self._closed:
                words = phrase(
                    "`{folder}` is not the repository it was; nothing was put back there.",
                    folder=self._files.show(self._git / unit),
                )
                self._done.failed += [words] if words not in self._done.failed else []
                continue
            try:
                names_objects = is_ref or _LOG.fullmatch(inner) is not None
                if not one.covered or (names_objects and self._lost_objects):
                    raise ContentLost(inner)
                # Its name may be taken by a folder of refs, or a ref have the name of its folder; packed ones too.
                others = self._refs if is_ref else ()
                taken = any(other.startswith(f"{inner}/") or inner.startswith(f"{other}/") for other in others)
                if is_ref and (taken or one.path.is_dir() or not _has_value(one, self._contents)):
                    raise ContentLost(inner)
                is_whole = any(inner.startswith(unit) for unit in self._whole)
                put = _put_log if _LOG.fullmatch(inner) and one.of_files and not is_whole else _put_one
                put(one, self._files, self._contents)
            except (OSError, PathError, ContentLost):
                self._lost_objects = self._lost_objects or is_object(inner)
                named = _ref_name(inner) if is_ref else f"`{shown_row(inner)}`"
                self._done.failed.append(phrase("{name} could not be put back.", name=named))
                continue
            if is_ref:
                self._done.refs.append(_ref_name(inner))
            elif not one.of_folders:
                self._done.files[self._git] += 1


def remove_unfinished(rows: Iterable[Change], files: FileStates) -> None:
    """Remove what there is of new git directories that were never finished: they have no `HEAD` yet."""
    made = [one for one in rows if one.operation is Operation.CREATE and one.repository is not None]
    for one in sorted(made, key=_rank, reverse=True):
        if not os.path.lexists(f"{one.repository}/HEAD"):
            with suppress(OSError, PathError), files.nodes.above(one.path) as (above, name):
                (os.rmdir if one.of_folders else os.unlink)(name, dir_fd=above)


def _ref_name(ref: str) -> str:
    name = shown_row(os.fsencode(ref).decode(errors="replace"))
    if name.startswith("refs/heads/"):
        return phrase("branch {name}", name=name.removeprefix("refs/heads/"))
    if name.startswith("refs/tags/"):
        return phrase("tag {name}", name=name.removeprefix("refs/tags/"))
    return name.removeprefix("refs/remotes/")


def _has_value(change: Change, contents: ContentStore) -> bool:
    """Whether what a ref leads to is there: else it would be a broken one."""
    state = change.before
    if state is None or state.node is not Node.FILE:
        return True
    value = ref_value(contents.get(state.content))
    if OBJECT_ID.fullmatch(value):
        return has_object(str(change.repository), bytes.fromhex(value))
    return value.removeprefix("ref: ") in read_git_state(str(change.repository)).refs


def _put_one(change: Change, files: FileStates, contents: ContentStore) -> None:
    state = change.before
    assert state is not None  # noqa: S101 - it was deleted
    loose = LOOSE.fullmatch(inner_of(change))
    kept = str(contents.path(state.content))
    if loose and is_linked(state) and not loose_kind(kept, bytes.fromhex(loose[1] + loose[2])):
        raise ContentLost(state.content)  # it was written to through its other name
    with files.nodes.above(change.path, make=True) as (above, name), suppress(FileExistsError):
        if state.node is Node.FOLDER:
            os.mkdir(name, state.mode or 0o777, dir_fd=above)
        elif state.node is Node.LINK:
            os.symlink(state.target, name, dir_fd=above)
        else:
            if is_linked(state):
                with suppress(OSError):  # another disk
                    os.link(contents.path(state.content), name, dst_dir_fd=above)
                    return
            with contents.open(state.content) as data:
                _put_data(name, above, state.mode, data)


def _put_log(change: Change, files: FileStates, contents: ContentStore) -> None:
    """Put back a reflog, without the lines about objects that git does not have any more."""
    git = str(change.repository)
    known: dict[bytes, bool] = {}

    def is_there(name: bytes) -> bool:
        if name not in known:
            known[name] = not name.strip(b"0") or has_object(git, bytes.fromhex(name.decode()))
        return known[name]

    state = change.before
    assert state is not None  # noqa: S101 - it was deleted
    lines = contents.get(state.content).splitlines(keepends=True)
    whole = [one for one in lines if (ids := _IDS.match(one)) is None or (is_there(ids[1]) and is_there(ids[2]))]
    if whole or not lines:
        with files.nodes.above(change.path, make=True) as (above, name), suppress(FileExistsError):
            _put_data(name, above, state.mode, b"".join(whole))


def _put_data(name: str, above: int, mode: int | None, data: bytes | BinaryIO) -> None:
    """Give a file its name in one step, and only where there is none: git may be at work."""
    temporary, wanted = unfinished_name(), mode if mode is not None else 0o644
    write_new(temporary, data, 0o600, folder=above, finish=lambda opened: os.fchmod(opened, wanted))
    try:
        os.link(temporary, name, src_dir_fd=above, dst_dir_fd=above)
    finally:
        os.unlink(temporary, dir_fd=above)
