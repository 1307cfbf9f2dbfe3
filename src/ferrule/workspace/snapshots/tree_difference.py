"""From two looks at a workspace to the changes between them, in an order in which they can be undone and redone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.workspace.snapshots.changes import Change, Node, Operation, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ferrule.workspace.snapshots.tree_store import Known

_OPEN = 0o700
"""What a folder needs so that its owner can change what is in it."""


def difference(
    before: Mapping[str, Known | None],
    after: Mapping[str, Known | None],
    appeared: Collection[str] = (),
    vanished: Collection[str] = (),
) -> list[Change]:
    """What happened between two looks at the same paths. `appeared` and `vanished` are folders that were not looked
    into: they are named, and not covered.

    Forward: folders are opened up first, then what is gone goes (the deepest first), then the rest comes (the
    shallowest first), and folders get their modes last. Backward the same holds, because it is the mirror image.
    """
    opening: list[Change] = []
    gone: list[Change] = []
    here: list[Change] = []
    closing: list[Change] = []
    for path in before:
        old, new = state_of(before[path]), state_of(after[path])
        if _unkept_has_changed(before[path], after[path]):
            here.append(Change(0, Path(path), Operation.CHANGE, None, old, new, 0, covered=False))
            continue
        if old == new:
            continue
        if old is not None and old.node is Node.FOLDER and old.mode is not None and old.mode & _OPEN != _OPEN:
            opening.append(_change(path, old, _opened(old)))
        if new is not None and new.node is Node.FOLDER and new != _opened(old if _is_folder(old) else new):
            closing.append(_change(path, _opened(old if _is_folder(old) else new), new))
        old, new = _opened(old), _opened(new)
        if old is not None and (new is None or _is_folder(old) != _is_folder(new)):
            gone.append(_change(path, old, None))  # first, so that something else can take its place in one step
            old = None
        if new is not None and not (_is_folder(old) and _is_folder(new)):
            here.append(_change(path, old, new))
    gone.sort(key=_depth, reverse=True)
    here.sort(key=_depth)
    left_out = [*_left_out(vanished, Operation.DELETE), *_left_out(appeared, Operation.CREATE)]
    return [*sorted(opening, key=_depth), *gone, *here, *sorted(closing, key=_depth, reverse=True), *left_out]


def in_order(changes: Sequence[Change]) -> list[Change]:
    """The same with what is not covered last, since it cannot be rolled back. Folders that go or are closed when it is
    done wait for it, and are not covered then either.
    """
    waits = {folder for one in changes if not one.covered for folder in one.path.parents}
    settled = [
        replace(one, covered=False) if one.of_folders and one.before is not None and one.path in waits else one
        for one in changes
    ]
    return sorted(settled, key=lambda one: not one.covered) if waits else settled


def state_of(known: Known | None) -> State | None:
    """What stands at a path, as the history notes it."""
    if known is None:
        return None
    match known.seen.node:
        case Node.FOLDER:
            return State.folder(known.seen.mode)
        case Node.LINK:
            return State.link(known.seen.target)
        case Node.FILE:
            return State(known.digest, known.seen.mode)


def _unkept_has_changed(old: Known | None, new: Known | None) -> bool:
    """Whether a file whose content is not kept holds something else, as far as its size and time tell."""
    if old is None or new is None or old.digest or new.digest or old.seen.node is not Node.FILE:
        return False
    return new.seen.node is Node.FILE and (old.seen.size, old.seen.modified) != (new.seen.size, new.seen.modified)


def _change(path: str, old: State | None, new: State | None) -> Change:
    if old is None:
        operation = Operation.CREATE
    elif new is None:
        operation = Operation.DELETE
    elif old.digest == new.digest:
        operation = Operation.MODE
    else:
        operation = Operation.CHANGE
    # A mode can be set back whatever the file holds.
    covered = operation is Operation.MODE or all(state is None or bool(state.digest) for state in (old, new))
    if operation is Operation.MODE and old is not None and new is not None and old.node is Node.FILE:
        old, new = State("", old.mode), State("", new.mode)
    return Change(0, Path(path), operation, None, old, new, 0, covered)


def _left_out(paths: Iterable[str], operation: Operation) -> list[Change]:
    folder = State.folder(0o755)
    before, after = (folder, None) if operation is Operation.DELETE else (None, folder)
    return [Change(0, Path(path), operation, None, before, after, 0, covered=False) for path in sorted(paths)]


def _is_folder(state: State | None) -> bool:
    return state is not None and state.node is Node.FOLDER


def _opened(state: State | None) -> State | None:
    """The same; a folder with its owner's full rights."""
    if state is None or state.node is not Node.FOLDER or state.mode is None:
        return state
    return State.folder(state.mode | _OPEN)


def _depth(change: Change) -> int:
    return len(change.path.parts)
