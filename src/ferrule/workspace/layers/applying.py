"""Makes what a layer holds real: each file in one step, all of it or nothing, and in the history so that it is undone.

It is refused where the workspace is not as it was when the command began: nobody can say then what it would have done.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import phrase
from ferrule.workspace.atomic import has_other_names
from ferrule.workspace.layers.reading import look_again, opened_after, opened_before
from ferrule.workspace.names import one_line
from ferrule.workspace.problems import PathProblem, failed, only_read
from ferrule.workspace.snapshots.changes import Node, Side
from ferrule.workspace.snapshots.planning import NotAsBefore
from ferrule.workspace.snapshots.tree_store import Known, difference
from ferrule.workspace.tracker import digest_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ferrule.workspace.files import Files
    from ferrule.workspace.layers.reading import LayerChange
    from ferrule.workspace.snapshots.changes import Change, Group, Origin
    from ferrule.workspace.snapshots.tree_store import Seen


def apply_layer(files: Files, changes: Sequence[LayerChange], origin: Origin | None = None) -> Group | None:
    """Make the changes of a layer in the workspace, as one that undo takes back; None when there are none.

    Raises `PathProblem`, with nothing changed, where they cannot be made or the workspace has changed meanwhile.
    """
    if not changes:
        return None
    applied = _Application(files, changes)
    applied.check()
    return applied.make(origin)


class _Application:
    def __init__(self, files: Files, changes: Sequence[LayerChange]) -> None:
        self._files, self._changes = files, changes
        self._by_path: dict[Path, LayerChange] = {one.path: one for one in changes}

    def check(self) -> None:
        """Refuse what can never be made, whatever the workspace holds."""
        roots = {root.path: root for root in self._files.paths.roots}
        for one in self._changes:
            shown = self._shown(one)
            root = roots.get(one.layer.root)
            if root is None:
                raise self._files.paths.outside(shown)
            if root.read_only:
                raise only_read(shown)
            self._files.paths.kept.require_write(one.path, shown)
            if one.special:
                raise _is_special(shown, one.special)
            writes = one.before is not None and one.after is not None and one.after.node is Node.FILE
            if writes and one.hard_links > 1 and not self._files.hard_links and not one.mode_alone:
                raise has_other_names(shown, one.hard_links)

    def make(self, origin: Origin | None) -> Group | None:
        self._require_unchanged()
        before: dict[str, Known | None] = {}
        after: dict[str, Known | None] = {}
        for one in self._changes:
            before[str(one.path)] = self._known(one, one.before, Side.BEFORE)
            after[str(one.path)] = self._known(one, one.after, Side.AFTER)
        steps = difference(before, after)
        return self._files.history.make(steps, self._open, origin, check=self._require_unchanged)

    def _require_unchanged(self) -> None:
        """Refuse where the workspace is not as it was when the command began: `stale` tells of the time until the
        layer was read, and what stands there now of the time since.
        """
        stale = [one for one in self._changes if one.stale or not _is_same(one, look_again(one))]
        if stale:
            raise NotAsBefore(*map(self._shown, stale))

    def _known(self, change: LayerChange, seen: Seen | None, side: Side) -> Known | None:
        """What stands at one side, with its digest; without one where only the mode changes, or it cannot be read."""
        if seen is None:
            return None
        if seen.node is not Node.FILE:
            return Known(seen, "")
        if change.mode_alone:
            return Known(seen._replace(modified=0), "")
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
        return one_line(os.fsencode(self._files.paths.show(change.path)).decode(errors="replace"))


def _is_same(change: LayerChange, now: Seen | None) -> bool:
    """Whether the workspace still has what it had when the layer was read."""
    before = change.before
    if before is None or now is None:
        return before is now
    if before.node is Node.FOLDER and change.after is not None and change.after.node is Node.FOLDER:
        return now.node is Node.FOLDER and now.mode == before.mode  # others may work in a folder that stays
    return now == before


def _is_special(shown: str, what: str) -> PathProblem:
    return PathProblem(
        "special",
        phrase("`{place}` is {what}, which cannot be kept, so nothing was changed.", place=shown, what=what),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Remove it at the end of the command, or make it outside the workspace."),
    )
