"""Says what a layer would change, as a person is asked about it: a line for each path, and a diff of bounded length."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ferrule.core.effects import Effects, FileEffect
from ferrule.workspace.ignore_files import IgnoredPaths, is_made_again
from ferrule.workspace.layers.reading import opened_after, opened_before, pieces
from ferrule.workspace.names import one_line
from ferrule.workspace.snapshots.changes import Node
from ferrule.workspace.texts.diff import FileDiff, diff_file
from ferrule.workspace.texts.text import decode
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ferrule.core.effects import Action, Barrier, NodeKind
    from ferrule.workspace.layers.reading import LayerChange
    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.tree_store import Seen

_MOST_DIFF = 50_000
_LARGEST_TEXT, _MOST_COMPARED = 1_000_000, 16_000_000
_MOST_HASHED = 256_000_000
_UNUSUAL = 0o7111
"""Permission bits that are worth a word in a new file: somebody may run it, or it runs as somebody else."""
_NODES: dict[Node, NodeKind] = {Node.FILE: "file", Node.LINK: "link", Node.FOLDER: "folder"}


@dataclass(slots=True, frozen=True)
class _Told:
    """One change, for the list and for the diff. `diff` is None where there is one that is not shown."""

    effect: FileEffect
    diff: str | None = ""


def effects_of(
    paths: Paths, changes: Sequence[LayerChange], barriers: tuple[Barrier, ...] = (), *, most_diff: int = _MOST_DIFF
) -> Effects:
    """What the changes of a layer are, in words and as a diff of at most `most_diff` characters.

    The content of what rules keep back is never in it.
    """
    told = _Teller(paths, changes).tell()
    diff: list[str] = []
    left_out = 0
    room = most_diff
    for one in told:
        if one.diff is None or len(one.diff) > room:
            left_out += 1
        elif one.diff:
            diff.append(one.diff)
            room -= len(one.diff)
    return Effects(tuple(one.effect for one in told), "".join(diff), left_out, barriers)


class _Teller:
    def __init__(self, paths: Paths, changes: Sequence[LayerChange]) -> None:
        self._paths, self._changes = paths, changes
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
            if _comes_or_goes(change) and change.path in filled:
                continue
            if (target := targets.get(change.path)) is not None:
                # Whoever judges the paths must see this one too, though nothing is lost with it.
                told.append(_Told(self._effect(change, "delete", f"renamed to {target}")))
            elif (source := renamed.get(change.path)) is not None:
                told.append(self._rename(change, source))
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
            ):
                made.setdefault((one.after.size, one.after.mode), []).append(one)
        found: list[tuple[LayerChange, LayerChange]] = []
        taken: set[Path] = set()
        known: dict[Path, str] = {}
        for one in self._changes:
            if one.after is not None or one.before is None or not _is_file(one.before) or not one.before.size:
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

    def _rename(self, change: LayerChange, source: LayerChange) -> _Told:
        old = self._shown(source)
        effect = replace(self._effect(change, "rename"), detail=f"from {old}")
        return _Told(effect, f"rename from {old}\nrename to {effect.shown}\n")

    def _one(self, change: LayerChange) -> _Told:
        before, after = change.before, change.after
        if change.special:
            return _Told(self._effect(change, _action(change), f"{change.special}: cannot be kept"))
        if change.mode_alone and before is not None and after is not None:
            modes = f"{before.mode:04o} -> {after.mode:04o}"
            effect = self._effect(change, "mode", modes)
            return _Told(effect, f"{effect.shown}\nold mode {before.mode:o}\nnew mode {after.mode:o}\n")
        recoverable = before is None or before.node is Node.FOLDER or self._is_held(change, before)
        effect = replace(self._effect(change, _action(change), _detail(change)), recoverable=recoverable)
        if change.of_folders:
            return _Told(effect)
        if change.path in self._held_back:
            return _Told(_with_detail(effect, "its content is not shown"))
        return self._compared(change, effect)

    def _compared(self, change: LayerChange, effect: FileEffect) -> _Told:
        sizes = [one.size for one in (change.before, change.after) if one is not None and _is_file(one)]
        if max(sizes, default=0) > _LARGEST_TEXT or not self._may_compare(sum(sizes)):
            return _Told(_with_detail(effect, _sizes(change)), None)
        try:
            old, new = _content(change, change.before, opened_before), _content(change, change.after, opened_after)
        except OSError:
            return _Told(_with_detail(effect, _sizes(change)), None)
        before, after = (decode(data) if data is not None else None for data in (old, new))
        if (old is not None and before is None) or (new is not None and after is None):
            return _Told(_with_detail(effect, f"binary, {_sizes(change)}"))
        if old is None and new is None:
            return _Told(effect)
        diff = diff_file(before, after, effect.shown) if old != new else FileDiff()
        return _Told(replace(effect, added=diff.added, removed=diff.removed), diff.text)

    def _effect(self, change: LayerChange, action: Action, detail: str = "") -> FileEffect:
        there = change.after or change.before
        node = "special" if change.special else _NODES[there.node] if there is not None else "file"
        return FileEffect(action, str(change.path), self._shown(change), node, detail)

    def _shown(self, change: LayerChange) -> str:
        return one_line(os.fsencode(self._paths.show(change.path)).decode(errors="replace"))

    def _may_compare(self, size: int) -> bool:
        """Whether there is still room for looking at so many bytes."""
        self._compare -= size
        return self._compare >= 0

    def _is_held(self, change: LayerChange, before: Seen) -> bool:
        """Whether git has what the workspace has there now."""
        if is_made_again(change.inner):
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


def _comes_or_goes(change: LayerChange) -> bool:
    return change.of_folders and (change.before is None or change.after is None)


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
        parts.append(f"-> {one_line(os.fsencode(after.target).decode(errors='replace'))}")
    elif after is not None and before is None and _is_file(after) and after.mode & _UNUSUAL:
        parts.append(f"{after.mode:04o}")
    elif after is not None and before is not None and before.node is after.node and before.mode != after.mode:
        parts.append(f"{before.mode:04o} -> {after.mode:04o}")
    if change.twin:
        parts.append(f"a copy of {one_line(change.twin)}, not a hard link")
    return ", ".join(parts)


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
