"""The workspace as the history accounts for it: as it was at the last look, with what was journalled since."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.workspace.atomic import attributes_of
from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.git_folders import GitFolders
from ferrule.workspace.snapshots.changes import UNKNOWN, Change, Node, Operation, State
from ferrule.workspace.snapshots.content_store import is_link, linked_name
from ferrule.workspace.snapshots.git_undo import is_object
from ferrule.workspace.snapshots.tree_store import (
    SAME_TICK,
    Known,
    Scan,
    Seen,
    TreeStore,
    below,
    difference,
    is_left_out,
    scan,
    see,
)
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from ferrule.workspace.paths import Paths, Root
    from ferrule.workspace.snapshots.changes import Caps, Transition
    from ferrule.workspace.snapshots.content_store import ContentStore

_FILE = "tree.db"
_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_ANY_MODE = -1
_SMALL = 64 * 1024
_COPIES = 3
"""How often a content is written until it is in the copy and in the history: SQLite writes it beside its file first."""


@dataclass(slots=True)
class Look:
    """The workspace at one moment, and what in it is not as it was at the last look: `fresh` and `gone`."""

    found: Scan
    fresh: dict[str, Known]
    generation: int
    """Of the copy that it was compared with."""
    gone: list[str]
    hidden: set[str]
    """What is known and cannot be seen now, because a folder on its way cannot be looked into."""
    no_room: set[str]
    """New files whose contents the disk had no room for."""


class KnownTree:
    """Kept in the folder of a history. Safe in any thread. All but `look` works inside the lock of the history, where
    the journal stands still: first `catch_up` with it, then `compare`, then `accept`, and `tidy` at the end.
    """

    def __init__(self, folder: Path, paths: Paths, caps: Caps, links: ContentStore) -> None:
        self._paths, self._caps, self._links = paths, caps, links
        # Ferrule's own folder may lie in the workspace, as in a home; what it writes there no command did.
        self._own = frozenset(os.path.realpath(one) for one in (folder, data_folder()))
        self._lock = threading.RLock()
        self._store = TreeStore(folder / _FILE)
        self._version = (-1, -1)
        self._generation = 0
        self._known: dict[str, Known] = {}
        self._left_out: set[str] = set()
        self._position: int | None = None
        self._at_hand: dict[str, bytes] = {}
        """Contents that `compare_at` has read, which are nowhere else yet."""
        self._untidy = False
        self.room = 0
        """Bytes that the contents in the copy take."""

    def close(self) -> None:
        with self._lock:
            self._store.close()

    def rebuild(self) -> None:
        """Start over, with nothing known."""
        with self._lock:
            self._store.rebuild()
            self._links.clear()
            self._version = (-1, -1)

    def position(self) -> int | None:
        """Where the journal was at the last look; None where there was none."""
        with self._lock:
            self._load()
            return self._position

    def content(self, name: str) -> bytes | None:
        """The content of a digest, where it is kept."""
        with self._lock:
            return self._at_hand[name] if name in self._at_hand else self._store.content(name)

    def has_pipes(self) -> bool:
        """Whether programs may be talking to each other through the workspace, or it is too large to tell."""
        found = scan(self._paths.roots, self._caps.entries, self._own)
        return found.pipes or not found.whole

    # All of it

    def look(self, *, within: int | None = None) -> Look | None:
        """Look at everything, with the contents of what is new kept; None when that is too much.

        With `within` they take no more of the disk than that. New files go without before anything else does: nothing
        that could be undone is lost with their contents.
        """
        found = scan(self._paths.roots, self._caps.entries, self._own)
        if not found.whole:
            return None
        with self._lock:
            self._load()
            changed = self._not_known(found)
            no_room = self._without_room(changed, within) if within is not None else set[str]()
            fresh: dict[str, Known] = {}
            if changed:
                with self._store.changing():
                    fresh = self._kept(changed, found.git, no_room)
            return self._looked(found, fresh, no_room)

    def changed_since(self) -> dict[str, Operation]:
        """What is not as it was at the last look, as far as can be told without writing anything."""
        found = scan(self._paths.roots, self._caps.entries, self._own)
        with self._lock:
            known = self._known
            changed = dict.fromkeys(self._looked(found, {}, set()).gone, Operation.DELETE)
            for path, seen in self._not_known(found):
                if path not in known or not _is_same(known[path].seen, seen):
                    changed[path] = Operation.CHANGE if path in known else Operation.CREATE
            git = self._git_folders(found)
            return {path: operation for path, operation in changed.items() if git.of(path) is None}

    def compare(self, look: Look, transitions: Sequence[Transition]) -> list[Change]:
        """What is not as accounted for."""
        with self._lock:
            chains = _chains(transitions)
            chained = [path for path in chains if not is_left_out(path, look.found.left_out)]
            seen = look.found.seen
            before: dict[str, Known | None] = {}
            after: dict[str, Known | None] = {}
            for path in (*look.fresh, *look.gone, *chained):
                now = look.fresh.get(path) or (self._known.get(path) if path in seen else None)
                if path not in look.hidden:
                    before[path], after[path] = _fitted(self._accounted(path, chains), now), now
            appeared = look.found.left_out - self._left_out - chains.keys()
            vanished = self._left_out - look.found.left_out - chains.keys()
            return difference(before, after, appeared, vanished, self._git_folders(look.found))

    def accept(self, look: Look, position: int) -> None:
        """From here on the workspace is known as it was at this look, when the journal was at this position."""
        with self._lock:
            dropped = [*look.gone, *look.hidden]
            changed = bool(dropped or look.fresh)
            self._at_hand.clear()
            if not changed and self._position == position and self._left_out == look.found.left_out:
                return
            known = self._known
            linked = {one.digest for one in look.fresh.values()}
            unlinked = {known[path].digest for path in (*dropped, *look.fresh) if path in known} - linked
            with self._store.changing():
                self._store.set(look.fresh)
                self._store.drop(dropped)
                self._store.set_looked(look.found.left_out, position)
            self._generation += 1
            self._known.update(look.fresh)
            for path in dropped:
                self._known.pop(path, None)
            self._left_out, self._position = look.found.left_out, position
            self._untidy = self._untidy or changed
            for name in filter(is_link, unlinked):
                self._links.remove(name)

    def tidy(self) -> None:
        """Drop contents that nothing in the copy has any more; that can wait where the disk is full."""
        with self._lock:
            if self._untidy:
                self._store.forget_unneeded()
                self.room = self._store.room()
                self._untidy = False

    def catch_up(self, look: Look, transitions: Sequence[Transition]) -> None:
        """Look once more where the journal has something newer than the look, and at what others have accepted."""
        with self._lock:
            self._load()
            again = [path for path in {str(one.path) for one in transitions} if self._look_again(look.found, path)]
            if again or look.generation != self._generation:
                staged = {
                    path: one
                    for path, one in look.fresh.items()
                    if not one.digest or is_link(one.digest) or self._store.has(one.digest)
                }
                changed = self._not_known(look.found)
                reused = {
                    path: staged[path] for path, seen in changed if path in staged and _is_same(staged[path].seen, seen)
                }
                with self._store.changing():
                    unread = [(path, seen) for path, seen in changed if path not in reused]
                    read = self._kept(unread, look.found.git, look.no_room)
                new = self._looked(look.found, reused | read, look.no_room)
                look.fresh, look.gone, look.hidden, look.generation = new.fresh, new.gone, new.hidden, new.generation

    def _look_again(self, found: Scan, path: str) -> bool:
        """Whether something else stands at a path by now."""
        root = self._root(path)
        if root is None or is_left_out(path, found.left_out):
            return False
        try:
            now = see(root, path)
        except OSError:
            return False
        if now == found.seen.get(path):
            return False
        if now is None:
            del found.seen[path]
        else:
            found.seen[path] = now
        return True

    def _looked(self, found: Scan, fresh: dict[str, Known], no_room: set[str]) -> Look:
        hidden = set(below(self._known, found.unreadable | found.left_out))
        gone = [path for path in self._known if path not in found.seen and path not in hidden]
        return Look(found, fresh, self._generation, gone, hidden, no_room)

    def _without_room(self, changed: list[tuple[str, Seen]], within: int) -> set[str]:
        """The largest of the new files, so that the contents of all others take no more than that of the disk. Small
        ones are never among them: where even those do not fit, all waits for room.
        """
        left = within - _COPIES * sum(seen.size for path, seen in changed if path in self._known)
        without: set[str] = set()
        for path, seen in sorted(changed, key=lambda one: one[1].size):
            if path not in self._known and seen.node is Node.FILE and seen.size <= self._caps.file:
                left -= _COPIES * seen.size
                if left < 0 and seen.size > _SMALL:
                    without.add(path)
        return without

    def _kept(
        self, changed: list[tuple[str, Seen]], git: GitFolders, without: Collection[str] = ()
    ) -> dict[str, Known]:
        """Entries with the contents of files in the store, but for those `without`; small ones first, while the caps
        leave room. Files of git directories come last, and git's objects take no room: they get a second name.
        """
        changed.sort(key=lambda one: (git.of(one[0]) is not None, one[1].size))
        recent = time.time_ns() - SAME_TICK
        fresh: dict[str, Known] = {}
        for path, seen in changed:
            name = attributes = ""
            repository = git.of(path)
            of_git = repository is not None and seen.node is Node.FILE and is_object(path[len(repository) + 1 :])
            if of_git and (linked := self._linked(path, seen)) is not None:
                fresh[path] = linked
                continue
            room = (self._caps.tree if repository is None else self._caps.tree // 2) - self.room
            fits = seen.size <= min(self._caps.file, room) and path not in without
            if seen.node is Node.FILE and fits:
                data, attributes = self._read(path, seen.size)
                name = digest(data) if data is not None else self._unread(path, seen)
                self.room += self._store.put(name, data) if data is not None else 0
            # What may look the same next time, or had no room, is read again then.
            kept = seen._replace(changed=-1) if seen.changed > recent or path in without else seen
            fresh[path] = Known(kept, name, attributes)
        return fresh

    def _linked(self, path: str, seen: Seen) -> Known | None:
        """An object of git under a second name, so that it outlasts its removal; None where that cannot be."""
        root = self._root(path)
        name = linked_name(path, seen.inode, seen.size, seen.modified)
        if root is None:
            return None
        above, _, own = path[len(str(root.path)) + 1 :].rpartition("/")
        try:
            folder = open_beneath(root.descriptor, above, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except (OSError, LeadsOut):
            return None
        try:
            if not self._links.link(name, own, folder):
                return None
            now = os.stat(own, dir_fd=folder, follow_symlinks=False)  # a second name is a change of the file
        except OSError:
            return None
        finally:
            os.close(folder)
        return Known(seen._replace(changed=now.st_ctime_ns) if seen.changed else seen, name)

    # Some paths

    def compare_at(self, paths: Iterable[Path], transitions: Sequence[Transition]) -> list[Change]:
        """What is not as accounted for at these paths, on the way to them, and in folders that were there."""
        with self._lock:
            self._load()
            self._at_hand.clear()
            chains = _chains(transitions)
            git = GitFolders(self._known.__contains__)
            named = {str(one) for path in paths for one in (path, *path.parents)}
            waiting = {one for one in named if self._root(one) is not None and git.of(one) is None}
            before: dict[str, Known | None] = {}
            after: dict[str, Known | None] = {}
            for path in sorted(waiting):
                self._compare_one(path, chains, before, after)
            for folder in [path for path in before if _is_folder(before[path]) and not _is_folder(after[path])]:
                for path in below({*self._known, *chains}, [folder]):
                    if path not in before and git.of(path) is None:
                        self._compare_one(path, chains, before, after)
            return difference(before, after)

    def _compare_one(
        self,
        path: str,
        chains: Mapping[str, list[Transition]],
        before: dict[str, Known | None],
        after: dict[str, Known | None],
    ) -> None:
        root = self._root(path)
        if root is None or is_left_out(path, self._left_out | self._own):
            return
        try:
            seen = see(root, path)
        except OSError:
            return  # it cannot be read now; the next full look takes it as it is then
        known = self._known.get(path)
        if seen is not None and path not in chains and known is not None and known.seen == seen:
            return
        accounted = self._accounted(path, chains)
        name = attributes = ""
        if seen is not None and seen.node is Node.FILE and (accounted is None or accounted.digest):
            data, attributes = self._read(path, seen.size)
            if data is not None:
                name = digest(data)
                self._at_hand[name] = data
            else:
                name = self._unread(path, seen)
        now = Known(seen, name, attributes) if seen is not None else None
        before[path], after[path] = _fitted(accounted, now), now

    # What is known

    def _load(self) -> None:
        version = self._store.version()
        if version != self._version:
            self._known, self._left_out = self._store.load()
            self._position = self._store.position()
            self.room = self._store.room()
            self._version = version
            self._generation += 1

    def _accounted(
        self, path: str, chains: Mapping[str, list[Transition]], until: float = float("inf")
    ) -> Known | None:
        """What stood at a path after the last look and all that was journalled since."""
        known = self._known.get(path)
        for one in chains.get(path, ()):
            if one.at >= until:
                break
            if one.digest is None:
                known = None
            elif one.source is not None:
                moved = self._accounted(str(one.source), chains, one.at)
                known = _with_mode(moved, one.mode)
            elif not one.digest:
                known = _with_mode(known, one.mode)
            else:
                known = _known_of(State(one.digest, one.mode))
        return known

    def _git_folders(self, found: Scan) -> GitFolders:
        """The git directories that are there, or were at the last look."""
        return GitFolders(lambda path: path in found.seen or path in self._known)

    def _not_known(self, found: Scan) -> list[tuple[str, Seen]]:
        """What is not as it was at the last look."""
        known = self._known.get
        return [(path, seen) for path, seen in found.seen.items() if (one := known(path)) is None or one.seen != seen]

    def _unread(self, path: str, seen: Seen) -> str:
        """A file that may not be read holds what it held, as far as its size and time tell."""
        known = self._known.get(path)
        return known.digest if known is not None and _holds_the_same(known.seen, seen) else ""

    def _root(self, path: str) -> Root | None:
        return next((one for one in self._paths.roots if path.startswith(f"{one.path}/")), None)

    def _read(self, path: str, size: int) -> tuple[bytes | None, str]:
        """What a file holds, and its attributes; None where it cannot be read, or is too large."""
        root = self._root(path)
        if root is None:
            return None, ""
        try:
            opened = open_beneath(root.descriptor, path[len(str(root.path)) + 1 :], _READ)
        except (OSError, LeadsOut):
            return None, ""
        try:
            data = os.read(opened, size + 1)  # nearly always all of it, and one byte to see whether it has grown
            while len(data) <= self._caps.file and (more := os.read(opened, _CHUNK)):
                data += more
            attributes = attributes_of(opened)
        except OSError:
            return None, ""
        finally:
            os.close(opened)
        return (data if len(data) <= self._caps.file else None), attributes


def _chains(transitions: Sequence[Transition]) -> dict[str, list[Transition]]:
    """What the journal has for each path, in order."""
    chains: dict[str, list[Transition]] = {}
    for one in transitions:
        chains.setdefault(str(one.path), []).append(one)
    return chains


def _known_of(state: State) -> Known:
    """What the history says stands at a path, as a look would see it."""
    mode = _ANY_MODE if state.mode is None else state.mode
    match state.node:
        case Node.FOLDER:
            return Known(Seen(Node.FOLDER, mode, 0, 0, 0, 0), "")
        case Node.LINK:
            return Known(Seen(Node.LINK, 0, 0, 0, 0, 0, state.target), "")
        case Node.FILE:
            return Known(Seen(Node.FILE, mode, 0, 0, 0, 0), state.digest, UNKNOWN)


def _with_mode(known: Known | None, mode: int | None) -> Known:
    if known is None:
        return _known_of(State(UNKNOWN, mode))
    return known._replace(seen=known.seen._replace(mode=known.seen.mode if mode is None else mode))


def _fitted(before: Known | None, now: Known | None) -> Known | None:
    """What was there before; what is unknown about it is taken from what is there now."""
    if before is None:
        return None
    if now is not None and not before.digest and _holds_the_same(before.seen, now.seen):
        before = before._replace(digest=now.digest)  # there was no room for its content then
    if before.attributes == UNKNOWN or (now is not None and not (before.attributes and now.attributes)):
        before = before._replace(attributes=now.attributes if now is not None else "")
    journalled = before.seen.inode == 0
    unread = now is not None and now.seen.node is Node.FILE and not now.digest
    if before.digest == UNKNOWN or (journalled and unread and before.seen.node is Node.FILE):
        return now
    if before.seen.mode != _ANY_MODE:
        return before
    usual = 0o755 if before.seen.node is Node.FOLDER else 0o644
    mode = now.seen.mode if now is not None and now.seen.node is before.seen.node else usual
    return before._replace(seen=before.seen._replace(mode=mode))


def _holds_the_same(before: Seen, now: Seen) -> bool:
    """Whether a file was not written to, judging by its size and time."""
    return before[2:4] == now[2:4] and before.inode == now.inode


def _is_same(staged: Seen, seen: Seen) -> bool:
    return staged == seen or staged == seen._replace(changed=-1)


def _is_folder(known: Known | None) -> bool:
    return known is not None and known.seen.node is Node.FOLDER
