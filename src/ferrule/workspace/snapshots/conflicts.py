"""What stands in the way of an undo or a redo: files that someone else has changed since."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import Change, Group, Node, Operation, Side, State
from ferrule.workspace.snapshots.content_store import ContentLost
from ferrule.workspace.snapshots.history_diff import unified
from ferrule.workspace.snapshots.undo_report import Conflict, Why

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.file_states import FileStates
    from ferrule.workspace.snapshots.snapshot_store import SnapshotStore

_MOST_SHOWN = 5
_FOLDER_WORDS = {Operation.CREATE: "made", Operation.DELETE: "removed", Operation.MODE: "given another mode"}


class Conflicts:
    """Looks and compares; changes nothing."""

    def __init__(self, store: SnapshotStore, files: FileStates, paths: Paths) -> None:
        self._store, self._files, self._paths = store, files, paths

    def of(self, group: Group, side: Side, after: Sequence[Group] = ()) -> list[Conflict]:
        """Why a group cannot be brought to one end, once the groups of `after` are; empty when it can."""
        if in_the_way := self._store.journal.in_the_way(group, side, after):
            return self._out_of_order(group, side, in_the_way)
        found: list[Conflict | None] = []
        met = {path for one in after for path in one.paths}
        changes = [change for change in group.changes if change.covered]
        for change in changes if side is Side.AFTER else reversed(changes):
            paths = change.at(side).keys()
            found.append(self._conflict(change, side, first=met.isdisjoint(paths)))
            met.update(paths)
        return [one for one in (found if side is Side.AFTER else reversed(found)) if one is not None]

    def _out_of_order(self, group: Group, side: Side, in_the_way: Mapping[Path, Group]) -> list[Conflict]:
        """Somebody has changed the same files: which, and what both did to the first of them."""
        found: list[Conflict] = []
        for path, other in in_the_way.items():
            name = self._name(path)
            given = {"name": name, "number": other.number, "who": _who(other)}
            text = (
                phrase("`{name}` was changed later by change {number}{who}; undo that first.", **given)
                if side is Side.BEFORE
                else phrase("`{name}` was changed before by change {number}{who}; redo that first.", **given)
            )
            first, last = sorted((group, other), key=lambda one: one.number)
            both = [self._diff_at(path, one) for one in (first, last)] if len(found) < _MOST_SHOWN else []
            found.append(Conflict(Why.ORDER, name, text, "".join(both)))
        return found

    def _diff_at(self, path: Path, group: Group) -> str:
        """What a group did to one path."""
        changes = [one for one in group.changes if path in one.paths]
        return f"Change {group.number}{_who(group)}:\n{''.join(self.diffs(changes))}"

    def _conflict(self, change: Change, side: Side, *, first: bool) -> Conflict | None:
        """Only the first step at a path meets what stands there now; the next one meets what the first has made."""
        if first and not self._files.is_at(change, side.opposite):
            return self._difference(change, side)
        wanted = change.at(side)[change.path]
        if wanted is not None and wanted.content and self._content(wanted) is None:
            name = self._name(change.path)
            return Conflict(Why.LOST, name, phrase("The content of `{name}` is no longer in the history.", name=name))
        return None

    def _difference(self, change: Change, side: Side) -> Conflict:
        """Which path is not as the change left it, and how."""
        for path, expected in change.at(side.opposite).items():
            name = self._name(path)
            if not change.of_files:
                return Conflict(
                    Why.CHANGED,
                    name,
                    phrase("`{name}` is {what} now.", name=name, what=self._files.nodes.describe(path)),
                )
            try:
                now, data = self._files.read(self._files.place(path))
            except PathProblem as problem:
                return Conflict(Why.FAILED, name, problem.message)
            if expected is None and now is not None:
                lost = unified(name, self._content(change.at(side)[path]), data)
                return Conflict(Why.EXISTS, name, phrase("There is a file at `{name}` again.", name=name), lost)
            if expected is not None and now is None:
                return Conflict(Why.DELETED, name, phrase("`{name}` was deleted or moved since.", name=name))
            if expected is not None and now is not None and change.operation is not Operation.MOVE:
                if change.operation is not Operation.MODE and now.digest != expected.digest:
                    diff = unified(name, self._content(expected), data)
                    return Conflict(Why.CHANGED, name, phrase("`{name}` was changed since.", name=name), diff)
                if now.mode != expected.mode:
                    text = phrase(
                        "The mode of `{name}` was changed since: {before} became {after}.",
                        name=name,
                        before=_octal(expected),
                        after=_octal(now),
                    )
                    return Conflict(Why.MODE, name, text)
        name = self._name(change.path)
        return Conflict(Why.FAILED, name, phrase("`{name}` cannot be reached.", name=name))

    def diffs(self, changes: list[Change]) -> list[str]:
        """What changes did together, a text for each file in the order of its first change."""
        spans: dict[Path, tuple[Change, Change]] = {}
        parts: list[str] = []
        for change in changes:
            if not change.covered:
                parts.append(f"{self._name(change.path)}: {change.operation}, too large to be kept.\n")
            elif change.other is not None:
                parts.append(f"rename from {self._name(change.path)}\nrename to {self._name(change.other)}\n")
            elif change.of_folders:
                parts.append(f"{self._name(change.path)}: folder {_FOLDER_WORDS[change.operation]}.\n")
            elif change.operation is Operation.MODE:
                modes = f"old mode {_octal(change.before)}\nnew mode {_octal(change.after)}\n"
                parts.append(f"{self._name(change.path)}\n{modes}")
            else:
                first, _ = spans.get(change.path, (change, change))
                spans[change.path] = (first, change)
        for path, (first, last) in spans.items():
            before, after = self._content(first.before), self._content(last.after)
            if _lost(first.before, before) or _lost(last.after, after):
                parts.append(f"{self._name(path)}: its content is no longer in the history.\n")
                continue
            parts.append(unified(self._name(path), before, after, most=2000) or f"{self._name(path)}: as it was.\n")
        return parts

    def _content(self, state: State | None) -> bytes | None:
        """The bytes of a file; of a link, where it leads, as git shows it."""
        if state is not None and state.node is Node.LINK:
            return os.fsencode(state.target)
        try:
            return self._store.contents.get(state.content) if state and state.content else None
        except ContentLost:
            return None

    def _name(self, path: Path) -> str:
        return self._paths.show(path)


def _who(group: Group) -> str:
    return f" ({group.origin.tool})" if group.origin.tool else ""


def _lost(state: State | None, content: bytes | None) -> bool:
    return state is not None and state.node is not Node.FOLDER and content is None


def _octal(state: State | None) -> str:
    return f"{state.mode:o}" if state and state.mode is not None else "-"
