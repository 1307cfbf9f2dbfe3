"""What came of an undo or a redo, in words."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.nearest import nearest
from ferrule.core.phrases import glued, joined, phrase
from ferrule.workspace.names import one_line
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Group, Node, Operation, Side, State
from ferrule.workspace.snapshots.content_store import ContentLost
from ferrule.workspace.texts.diff import diff_file
from ferrule.workspace.texts.text import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.file_states import FileStates
    from ferrule.workspace.snapshots.snapshot_store import SnapshotStore


# What changes did, as a unified diff that stays readable however much there is.


_MOST_BYTES = 2_000_000


def unified(name: str, before: bytes | None, after: bytes | None, *, most: int = 200) -> str:
    """The difference between two contents; None is no file. At most so many lines of it."""
    if before == after:
        return ""
    old, new = "/dev/null" if before is None else f"a/{name}", "/dev/null" if after is None else f"b/{name}"
    sizes = f"{_size(before)}, then {_size(after)}"
    if max(len(before or b""), len(after or b"")) > _MOST_BYTES:
        return f"--- {old}\n+++ {new}\nToo large to compare: {sizes}.\n"
    texts = [None if data is None else decode(data) for data in (before, after)]
    if any(text is None and data is not None for text, data in zip(texts, (before, after), strict=True)):
        return f"--- {old}\n+++ {new}\nBinary: {sizes}.\n"
    return diff_file(texts[0], texts[1], name, most_lines=most).text


def bounded(parts: Sequence[str], most: int) -> str:
    """Several diffs in one text of at most so many characters, and how many did not fit."""
    shown: list[str] = []
    room = most
    for part in parts:
        if len(part) > room:
            break
        shown.append(part)
        room -= len(part)
    rest = len(parts) - len(shown)
    if rest:
        shown.append(f"… {rest:,} more {'file' if rest == 1 else 'files'} that did not fit here.\n")
    return "".join(shown)


def _size(data: bytes | None) -> str:
    return "no file" if data is None else f"{len(data):,} bytes"


_MOST_FILES = 20
_MOST_DIFF = 20_000
_MOST_CALLS = 3


class Why(StrEnum):
    """Why a file was left alone."""

    CHANGED = "changed"
    DELETED = "deleted"
    EXISTS = "exists"
    MODE = "mode"
    ORDER = "order"
    LOST = "lost"
    FAILED = "failed"


@dataclass(slots=True, frozen=True)
class Conflict:
    """One file that stood in the way; `text` is a whole sentence, `diff` what would have been lost."""

    why: Why
    name: str
    text: str
    diff: str = ""


@dataclass(slots=True, frozen=True)
class Refusal:
    """A group that was left as it is, all of it."""

    group: Group
    conflicts: tuple[Conflict, ...]


@dataclass(slots=True, frozen=True)
class Report:
    """`groups` went through, in this order; `refused` stopped it; `uncovered` could not be taken along."""

    undo: bool
    groups: tuple[Group, ...] = ()
    refused: Refusal | None = None
    notes: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    """What was deleted in git directories and is there again, a line each."""
    incomplete: bool = False
    """Whether something that was deleted in a git directory could not be put back; `notes` say what."""
    stays: tuple[str, ...] = ()
    """What a command did in git directories and is still so, with the git command that drops it, a line each."""

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(change for group in self.groups for change in group.changes if change.covered)

    @property
    def uncovered(self) -> tuple[Change, ...]:
        return tuple(change for group in self.groups for change in group.uncovered)

    def __str__(self) -> str:
        return str(self.words)

    @property
    def words(self) -> str:
        return joined("\n", [self._result(), self.in_git, self.trouble])

    @property
    def in_git(self) -> str:
        """What was put back in git directories, and what stays there; empty without either."""
        lines = [glued("  ", one) for one in self.stays]
        return joined("\n", [*self.put_back, *([phrase("Git keeps what was done there:")] if lines else []), *lines])

    def _result(self) -> str:
        count = len(self.changes)
        if count == 1:
            return phrase("1 change undone.") if self.undo else phrase("1 change redone.")
        if count:
            many = f"{count:,}"
            return phrase("{n} changes undone.", n=many) if self.undo else phrase("{n} changes redone.", n=many)
        if self.put_back:
            return ""
        if self.refused or self.groups:
            return phrase("Nothing was undone.") if self.undo else phrase("Nothing was redone.")
        return phrase("Nothing to undo.") if self.undo else phrase("Nothing to redo.")

    @property
    def trouble(self) -> str:
        """What was left as it is, and why; empty where all went through."""
        lines: list[str] = [
            phrase(
                "`{name}` was left as it is. The history does not cover it: too large to keep, or in a folder it "
                "leaves out.",
                name=change.path.name,
            )
            for change in self.uncovered[:_MOST_FILES]
        ]
        if self.refused is not None:
            conflicts, number = self.refused.conflicts, self.refused.group.number
            lines.append(
                phrase("Change {number} could not be undone, and nothing of it was touched:", number=number)
                if self.undo
                else phrase("Change {number} could not be redone, and nothing of it was touched:", number=number)
            )
            lines += [glued("- ", one.text) for one in conflicts[:_MOST_FILES]]
            if len(conflicts) > _MOST_FILES:
                lines.append(phrase("- … and {count} more files.", count=f"{len(conflicts) - _MOST_FILES:,}"))
            diffs = bounded([one.diff for one in conflicts if one.diff], _MOST_DIFF)
            if diffs:
                lines.append("\n" + diffs.rstrip("\n"))
        return joined("\n", [*lines, *self.notes])


def no_such_call(call: str, calls: Sequence[str]) -> PathError:
    """An id that no change came from. `calls` are those that are kept, newest first."""
    close = nearest(call, calls, most=_MOST_CALLS)
    named = ", ".join(f"`{one_line(one)}`" for one in close or calls[:_MOST_CALLS])
    if close:
        hint = phrase("Did you mean {names}?", names=named)
    elif len(calls) == 1:
        hint = phrase("The only call that changed something is {names}.", names=named)
    else:
        hint = phrase("The latest calls that changed something are {names}.", names=named)
    return PathError(
        "missing",
        phrase("No call `{call}` is in the history: it changed nothing that is kept.", call=one_line(call)),
        kind=ErrorKind.NOT_FOUND,
        suggestion=joined(" ", [hint, phrase("`ferrule history --json` lists the calls.")]),
    )


# What stands in the way of an undo or a redo: files that someone else has changed since.


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
        found: list[Conflict] = []
        met = {path for one in after for path in one.paths}
        changes = [change for change in group.changes if change.covered]
        for change in changes if side is Side.AFTER else reversed(changes):
            states = change.at(side)
            wanted = states[change.path]
            # Only the first step at a path meets what is there now; the next one meets the outcome of the first.
            if met.isdisjoint(states) and not self._files.is_at(change, side.opposite):
                found.append(self._difference(change, side))
            elif wanted is not None and wanted.content and self._content(wanted) is None:
                name = self._name(change.path)
                words = phrase("The content of `{name}` is no longer in the history.", name=name)
                found.append(Conflict(Why.LOST, name, words))
            met.update(states)
        return found if side is Side.AFTER else found[::-1]

    def _out_of_order(self, group: Group, side: Side, in_the_way: Mapping[Path, Group]) -> list[Conflict]:
        """Another group changed the same files: which, and what both did to the first of them."""
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
            both = ""
            for one in (first, last) if len(found) < _MOST_SHOWN else ():
                diffs = self.diffs([change for change in one.changes if path in change.paths])
                both += f"Change {one.number}{_who(one)}:\n{''.join(diffs)}"
            found.append(Conflict(Why.ORDER, name, text, both))
        return found

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
            except PathError as problem:
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
