"""What a layer would change: said to the person who is asked about it, and made real once that is allowed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

from ferrule.core.call import Effects, FileEffect
from ferrule.core.errors import ErrorKind
from ferrule.core.guarded_names import CONFIGS
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import shown_row
from ferrule.process.sandbox.git_config import runs_nothing_new
from ferrule.workspace.atomic import has_other_names
from ferrule.workspace.confined import LeadsOut
from ferrule.workspace.git_folders import GitFolders
from ferrule.workspace.ignore_files import IgnoredPaths, is_guarded, is_made_again
from ferrule.workspace.layers.git_files import git_effects
from ferrule.workspace.layers.reading import look_again, opened_after, opened_before, pieces, set_time
from ferrule.workspace.names import one_line
from ferrule.workspace.problems import PathError, failed, only_read
from ferrule.workspace.snapshots.changes import UNKNOWN, Node, Side
from ferrule.workspace.snapshots.content_store import linked_name
from ferrule.workspace.snapshots.git_undo import is_object
from ferrule.workspace.snapshots.history import NotAsBeforeError
from ferrule.workspace.snapshots.tree_store import Known, difference, is_left_out, marked_folders
from ferrule.workspace.texts.diff import FileDiff, diff_file
from ferrule.workspace.texts.text import decode
from ferrule.workspace.tracker import digest, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ferrule.core.call import Action, Barrier, NodeKind
    from ferrule.workspace.files import Files
    from ferrule.workspace.layers.reading import LayerChange
    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.changes import Change, Group, Origin
    from ferrule.workspace.snapshots.tree_store import Seen


_MOST_DIFF = 50_000
_LARGEST_TEXT, _MOST_COMPARED = 1_000_000, 16_000_000
_OF_OPENING = 4_000
_MOST_HASHED = 256_000_000
_UNUSUAL = 0o7111
"""Permission bits of a new file that are worth mentioning: it can be run, or runs as another user."""
_NODES: dict[Node, NodeKind] = {Node.FILE: "file", Node.LINK: "link", Node.FOLDER: "folder"}


@dataclass(slots=True, frozen=True)
class _Told:
    """One change, for the list and for the diff. `diff` is None where there is one that is not shown."""

    effect: FileEffect
    diff: str | None = ""


def ignored_effects(paths: Paths, changes: Sequence[LayerChange]) -> Effects:
    """What became of files that git ignores, by their names alone: there may be very many."""
    teller = _Teller(paths, ())
    return Effects(tuple(teller.effect(change, _action(change)) for change in changes), ignored=True)


def effects_of(
    paths: Paths, changes: Sequence[LayerChange], barriers: tuple[Barrier, ...] = (), *, most_diff: int = _MOST_DIFF
) -> Effects:
    """What the changes of a layer are, in words and as a diff of at most `most_diff` characters.

    The content of what rules keep back is never in it.
    """
    git, internal, over = git_effects(changes)
    diffs = {id(one.effect): one for one in _Teller(paths, changes, internal, over).tell()}
    effects = Effects(tuple(one.effect for one in diffs.values()), barriers=barriers, git=tuple(git))
    diff: list[str] = []
    left_out = 0
    room = most_diff
    for one in effects.files:
        text = diffs[id(one)].diff
        if text is None or len(text) > room:
            left_out += 1
        elif text:
            diff.append(text)
            room -= len(text)
    return replace(effects, diff="".join(diff), left_out=left_out)


class _Teller:
    def __init__(
        self, paths: Paths, changes: Sequence[LayerChange], internal: Collection[Path] = (), over: Collection[Path] = ()
    ) -> None:
        self._paths, self._changes, self._internal, self._over = paths, changes, internal, over
        self._git: dict[Path, IgnoredPaths] = {}
        self._compare, self._hash = _MOST_COMPARED, _MOST_HASHED
        self._held_back: set[Path] = set()
        for root in {one.layer.root for one in changes}:
            inside = [one.path for one in changes if one.layer.root == root]
            held = paths.kept.all_held_back([str(path) for path in inside], root)
            self._held_back.update(path for path, secret in zip(inside, held, strict=True) if secret)

    def tell(self) -> list[_Told]:
        """All changes but for the folders that others of them imply, in the order of paths."""
        filled = {one.path.parent for one in self._changes}
        sources = self._renames()
        targets = {source.path: self._shown(change) for change, source in sources}
        renamed = {change.path: source for change, source in sources}
        told: list[_Told] = []
        for change in self._changes:
            if change.of_folders and (change.before is None or change.after is None) and change.path in filled:
                continue
            if (target := targets.get(change.path)) is not None:
                # Whoever judges the paths must see this one too, though nothing is lost with it.
                told.append(_Told(replace(self.effect(change, "delete", f"renamed to {target}"), moved=True)))
            elif (source := renamed.get(change.path)) is not None:
                old = self._shown(source)
                effect = replace(self.effect(change, "rename", f"from {old}"), source=str(source.path))
                told.append(_Told(effect, f"rename from {old}\nrename to {effect.shown}\n"))
            else:
                told.append(self._one(change))
        return told

    def _renames(self) -> list[tuple[LayerChange, LayerChange]]:
        """Files that were made with the content and mode of one that was removed, and that one."""
        made: dict[tuple[int, int], list[LayerChange]] = {}
        for one in self._changes:
            if (
                one.before is None
                and one.after is not None
                and _is_file(one.after)
                and not one.special
                and not one.twin
                and one.path not in self._internal
            ):
                made.setdefault((one.after.size, one.after.mode), []).append(one)
        found: list[tuple[LayerChange, LayerChange]] = []
        taken: set[Path] = set()
        known: dict[Path, str] = {}
        for one in self._changes:
            if one.after is not None or one.before is None or not _is_file(one.before) or not one.before.size:
                continue
            if one.path in self._internal:
                continue
            near = sorted(
                (other for other in made.get((one.before.size, one.before.mode), ()) if other.path not in taken),
                key=lambda other: other.path.name != one.path.name,
            )
            if not near or one.special or not self._may_compare(one.before.size * (1 + len(near))):
                continue
            name = _named(opened_before, one)
            for other in near:
                if other.path not in known:
                    known[other.path] = _named(opened_after, other) or f"{other.path}"
                if name and known[other.path] == name:
                    found.append((other, one))
                    taken.add(other.path)
                    break
        return found

    def _one(self, change: LayerChange) -> _Told:
        before, after = change.before, change.after
        if change.special:
            return _Told(self.effect(change, _action(change), f"{change.special}: cannot be kept"))
        if change.mode_alone and before is not None and after is not None:
            modes = f"{before.mode:04o} -> {after.mode:04o}"
            effect = self.effect(change, "mode", modes)
            return _Told(effect, f"{effect.shown}\nold mode {before.mode:o}\nnew mode {after.mode:o}\n")
        recoverable = before is None or before.node is Node.FOLDER or self._is_held(change, before)
        effect = replace(self.effect(change, _action(change), _detail(change)), recoverable=recoverable)
        if change.path in self._internal:
            return _Told(replace(effect, internal=True))
        if change.of_folders:
            return _Told(effect)
        if change.path in self._held_back:
            return _Told(_with_detail(effect, "its content is not shown"))
        sizes = [one.size for one in (change.before, change.after) if one is not None and _is_file(one)]
        if max(sizes, default=0) > _LARGEST_TEXT or not self._may_compare(sum(sizes)):
            return _Told(_with_detail(effect, _sizes(change)), None)
        try:
            old, new = _content(change, change.before, opened_before), _content(change, change.after, opened_after)
        except OSError:
            return _Told(_with_detail(effect, _sizes(change)), None)
        was, now = (decode(data) if data is not None else None for data in (old, new))
        if (old is not None and was is None) or (new is not None and now is None):
            return _Told(_with_detail(effect, f"binary, {_sizes(change)}"))
        if old is None and new is None:
            return _Told(effect)
        diff = diff_file(was, now, effect.shown) if old != new else FileDiff()
        return _Told(replace(effect, added=diff.added, removed=diff.removed), diff.text)

    def effect(self, change: LayerChange, action: Action, detail: str = "") -> FileEffect:
        there = change.after or change.before
        node = "special" if change.special else _NODES[there.node] if there is not None else "file"
        return FileEffect(
            action, str(change.path), self._shown(change), node, detail, opens=_opens(change),
            harmless=action == "change" and runs_nothing_new_by(change),
            target=change.after.target if change.after is not None and change.after.node is Node.LINK else "",
            guarded=is_guarded(change.inner),
        )  # fmt: skip

    def _shown(self, change: LayerChange) -> str:
        return _visible(self._paths.show(change.path))

    def _may_compare(self, size: int) -> bool:
        """Whether so many more bytes may be compared; the lines of thousands of files are not worth it."""
        self._compare -= size + _OF_OPENING
        return self._compare >= 0

    def _is_held(self, change: LayerChange, before: Seen) -> bool:
        """Whether git has what the workspace has there now."""
        if is_made_again(change.inner) or change.path in self._over:
            return True
        self._hash -= before.size
        if self._hash < 0:
            return False
        root = change.layer.root
        git = self._git.setdefault(root, IgnoredPaths(root))
        try:
            if before.node is Node.LINK:
                target = os.fsencode(before.target)
                return git.holds(change.inner, iter([target]), len(target), link=True)
            with opened_before(change) as opened:
                return git.holds(change.inner, pieces(opened), before.size, link=False)
        except OSError:
            return False


def _opens(change: LayerChange) -> bool:
    """Whether its permission bits let others do what they could not: write it, or use its owner's rights."""
    before, after = change.before, change.after
    if after is None or after.node is Node.LINK:
        return False
    set_id = 0 if after.node is Node.FOLDER else stat.S_ISUID | stat.S_ISGID
    if before is None:  # what a loose umask gives to every new file is the user's own choice
        return bool(after.mode & set_id) or (after.node is Node.FILE and after.mode & 0o003 == 0o003)
    return bool(after.mode & ~before.mode & (set_id | stat.S_IWOTH))


def runs_nothing_new_by(change: LayerChange) -> bool:
    """Whether it is a file of git's settings, and was changed only where that makes git run nothing new."""
    before, after = change.before, change.after
    if change.path.name not in CONFIGS or change.special or change.twin:
        return False
    if before is None or after is None or before.mode != after.mode:
        return False
    if {before.node, after.node} != {Node.FILE} or max(before.size, after.size) > _LARGEST_TEXT:
        return False
    try:
        with opened_before(change) as old, opened_after(change) as new:
            texts = [b"".join(pieces(one)).decode(errors="surrogateescape") for one in (old, new)]
    except OSError:
        return False
    return runs_nothing_new(*texts)


def _is_file(seen: Seen) -> bool:
    return seen.node is Node.FILE


def _action(change: LayerChange) -> Action:
    if change.before is None:
        return "create"
    return "delete" if change.after is None else "change"


def _detail(change: LayerChange) -> str:
    """What the path does not say of what will stand there."""
    before, after = change.before, change.after
    parts: list[str] = []
    if before is not None and after is not None and before.node is not after.node:
        words = {Node.FILE: "was a file", Node.LINK: "was a link", Node.FOLDER: "was a folder"}
        parts.append(words[before.node])
    if after is not None and after.node is Node.LINK:
        parts.append(f"-> {_visible(after.target)}")
    elif after is not None and before is None and _is_file(after) and after.mode & _UNUSUAL:
        parts.append(f"{after.mode:04o}")
    elif after is not None and before is not None and before.node is after.node and before.mode != after.mode:
        parts.append(f"{before.mode:04o} -> {after.mode:04o}")
    if change.twin:
        parts.append(f"a copy of {_visible(change.twin)}, not a hard link")
    return ", ".join(parts)


def _visible(name: str) -> str:
    return shown_row(one_line(os.fsencode(name).decode(errors="replace")))


def _with_detail(effect: FileEffect, detail: str) -> FileEffect:
    return replace(effect, detail=f"{effect.detail}, {detail}" if effect.detail else detail)


def _sizes(change: LayerChange) -> str:
    sizes = [f"{one.size:,}" for one in (change.before, change.after) if one is not None and _is_file(one)]
    return f"{' -> '.join(sizes)} bytes"


def _content(
    change: LayerChange, seen: Seen | None, opened: Callable[[LayerChange], AbstractContextManager[int]]
) -> bytes | None:
    """The bytes of a file, and of a link where it leads, as git shows it; None where there is neither."""
    if seen is None or seen.node is Node.FOLDER:
        return None
    if seen.node is Node.LINK:
        return os.fsencode(seen.target)
    with opened(change) as file:
        return b"".join(pieces(file))


def _named(opened: Callable[[LayerChange], AbstractContextManager[int]], change: LayerChange) -> str:
    """The digest of a file; empty where it cannot be read."""
    try:
        with opened(change) as file:
            return digest(b"".join(pieces(file)))
    except OSError:
        return ""


# Makes what a layer holds real: each file in one step, all of it or nothing, and in the history so that it is undone.


def apply_layer(
    files: Files,
    changes: Sequence[LayerChange],
    origin: Origin | None = None,
    *,
    touched: Sequence[LayerChange] = (),
    like_direct: bool = False,
) -> Group | None:
    """Make the changes of a layer in the workspace, as one group that can be undone; None when there are none.

    `touched` get the time of their last change alone, at the end. With `like_direct`, nothing is kept for undo in
    folders that the history leaves out, as after a command that wrote directly. Raises `PathError`, with nothing
    changed, where the changes cannot be made or the workspace has changed meanwhile.
    """
    group = None
    if changes:
        applied = _Application(files, changes)
        applied.check()
        group = applied.make(origin, like_direct=like_direct)
    for one in touched:
        with suppress(PermissionError, FileNotFoundError, NotADirectoryError, LeadsOut):  # another's, or gone meanwhile
            now, after = look_again(one), one.after
            if now is None or after is None or now.node is not after.node:
                continue
            if now.node is not Node.FILE or now == one.before:
                set_time(one)
    return group


def require_applicable(files: Files, changes: Sequence[LayerChange]) -> None:
    """Raise `PathError` for what no approval could put into the workspace; what rules say of it is not looked at."""
    _Application(files, changes).check(rules=False)


class _Application:
    def __init__(self, files: Files, changes: Sequence[LayerChange]) -> None:
        self._files, self._changes = files, changes
        self._by_path: dict[Path, LayerChange] = {one.path: one for one in changes}
        named = {str(one.path) for one in changes}
        self._git = GitFolders(lambda path: path in named or os.path.lexists(path))

    def check(self, *, rules: bool = True) -> None:
        """Refuse what can never be made, whatever the workspace holds."""
        roots = {root.path: root for root in self._files.paths.roots}
        for one in self._changes:
            shown = self._shown(one)
            root = roots.get(one.layer.root)
            if root is None:
                raise self._files.paths.outside(shown)
            if root.read_only:
                raise only_read(shown)
            if rules:
                self._files.paths.kept.require_write(one.path, shown)
            if one.special:
                raise PathError(
                    "special",
                    phrase(
                        "`{place}` is {what}, which cannot be kept, so nothing was changed.",
                        place=shown,
                        what=one.special,
                    ),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Remove it at the end of the command, or make it outside the workspace."),
                )
            writes = one.before is not None and one.after is not None and one.after.node is Node.FILE
            if writes and one.hard_links > 1 and not self._files.hard_links and not one.mode_alone:
                raise has_other_names(shown, one.hard_links)

    def make(self, origin: Origin | None, *, like_direct: bool = False) -> Group | None:
        self._require_unchanged()
        made = {str(one.path) for one in self._changes}
        folders = {
            str(folder) for one in self._changes for folder in one.path.parents if one.layer.root in folder.parents
        }
        marked = (
            marked_folders(folders, lambda path: path in made or os.path.lexists(path)) if like_direct else set[str]()
        )
        looked = self._changes if like_direct else ()
        left_out = {one.path for one in looked if is_left_out(f"{one.path}/.", marked) and one.of_folders}
        inside = {one.path for one in looked if is_left_out(f"{one.path.parent}/.", marked)}
        before: dict[str, Known | None] = {}
        after: dict[str, Known | None] = {}
        for one in self._changes:
            if one.path not in inside:
                before[str(one.path)] = self._known(one, one.before, Side.BEFORE)
                after[str(one.path)] = self._known(one, one.after, Side.AFTER)
        steps: list[Change] = []
        for step in difference(before, after, git=self._git):
            # A folder with a mark in it is known as one, and all that is in it is not.
            if step.path not in left_out or str(step.path) in marked:
                steps.append(step)
            if step.path in left_out:
                steps.append(replace(step, covered=False))
        unlisted = self._unlisted(left_out | inside)
        return self._files.history.make(steps, self._open, origin, check=self._require_unchanged, unlisted=unlisted)

    def _unlisted(self, paths: Collection[Path]) -> list[Change]:
        """The changes in folders that the history leaves out, as it does after commands that write directly."""
        chosen = [one for one in self._changes if one.path in paths]
        before = {str(one.path): Known(one.before, "") if one.before is not None else None for one in chosen}
        after = {str(one.path): Known(one.after, UNKNOWN) if one.after is not None else None for one in chosen}
        return [replace(one, covered=False) for one in difference(before, after)]

    def _require_unchanged(self) -> None:
        """Refuse where the workspace is not as it was when the command began: `stale` tells of the time until the
        layer was read, and what stands there now of the time since.
        """
        stale = [one for one in self._changes if one.stale or not _is_same(one, look_again(one))]
        if stale:
            raise NotAsBeforeError(*map(self._shown, stale))

    def _known(self, change: LayerChange, seen: Seen | None, side: Side) -> Known | None:
        """What stands at one side, with its digest; without one where only the mode changes, or it cannot be read."""
        if seen is None:
            return None
        if seen.node is not Node.FILE:
            return Known(seen, "")
        if change.mode_alone:
            return Known(seen._replace(modified=0), "")
        path = str(change.path)
        if (git := self._git.of(path)) is not None and is_object(path[len(git) + 1 :]):
            return Known(seen, linked_name(path, seen.inode, seen.size, seen.modified) if side is Side.BEFORE else "")
        try:
            with self._opened(change, side) as file:
                return Known(seen, digest_of(file))  # pyright: ignore[reportArgumentType]
        except PermissionError as error:
            if change.after is None:
                return Known(seen, "")
            raise failed(self._shown(change), error) from None

    def _open(self, step: Change, side: Side) -> BinaryIO:
        change = self._by_path[step.path]
        try:
            return self._opened(change, side)
        except OSError as error:
            raise failed(self._shown(change), error) from None

    def _opened(self, change: LayerChange, side: Side) -> BinaryIO:
        with (opened_before if side is Side.BEFORE else opened_after)(change) as opened:
            return os.fdopen(os.dup(opened), "rb")

    def _shown(self, change: LayerChange) -> str:
        return _visible(self._files.paths.show(change.path))


def _is_same(change: LayerChange, now: Seen | None) -> bool:
    """Whether the workspace still has what it had when the layer was read."""
    before = change.before
    if before is None or now is None:
        return before is now
    if before.node is Node.FOLDER and change.after is not None and change.after.node is Node.FOLDER:
        return now.node is Node.FOLDER and now.mode == before.mode  # others may work in a folder that stays
    return now == before
