"""What shell commands do to the files of a workspace, so that each can be undone, whoever else works there.

A command that changes the workspace directly is known in the journal from its begin to its end. What it changed is the
difference between two looks, less what the history itself did meanwhile. Before the history changes a path, what such a
command has done there is taken up first: so every change has its owner, and the list is in the order of events.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.names import one_line
from ferrule.workspace.snapshots.changes import UNKNOWN, Change, Group, Node, Origin, Running, State, Watch
from ferrule.workspace.snapshots.content_store import ContentLost
from ferrule.workspace.snapshots.snapshot_store import again_if_broken
from ferrule.workspace.snapshots.tree_store import (
    Known,
    Scan,
    Seen,
    TreeDamaged,
    TreeStore,
    below,
    difference,
    is_left_out,
    scan,
    see,
)
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferrule.workspace.paths import Paths, Root
    from ferrule.workspace.snapshots.changes import Caps, Transition
    from ferrule.workspace.snapshots.journal import Journal
    from ferrule.workspace.snapshots.snapshot_store import Recovery, SnapshotStore


# The workspace as the history accounts for it: as it was at the last look, with what was journalled since.


_FILE = "tree.db"
_SAME_TICK = 20_000_000  # nanoseconds: a file that changed so lately may change again and look the same
_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_ANY_MODE = -1


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


class KnownTree:
    """Kept in the folder of a history. Safe in any thread. All but `look` works inside the lock of the history, where
    the journal stands still: first `catch_up` with it, then `compare`, then `accept`.
    """

    def __init__(self, folder: Path, paths: Paths, caps: Caps) -> None:
        self._paths, self._caps = paths, caps
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
        self.room = 0
        """Bytes that the contents in the copy take."""

    def close(self) -> None:
        with self._lock:
            self._store.close()

    def rebuild(self) -> None:
        """Begin anew, with nothing known."""
        with self._lock:
            self._store.rebuild()
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

    def look(self) -> Look | None:
        """Look at everything, with the contents of what is new kept; None when that is too much."""
        found = scan(self._paths.roots, self._caps.entries, self._own)
        if not found.whole:
            return None
        with self._lock:
            self._load()
            changed = self._not_known(found)
            fresh: dict[str, Known] = {}
            if changed:
                with self._store.changing():
                    fresh = self._kept(changed)
            return self._looked(found, fresh)

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
            return difference(before, after, appeared, vanished)

    def accept(self, look: Look, position: int) -> None:
        """From here on the workspace is known as it was at this look, when the journal was at this position."""
        with self._lock:
            dropped = [*look.gone, *look.hidden]
            changed = bool(dropped or look.fresh)
            self._at_hand.clear()
            if not changed and self._position == position and self._left_out == look.found.left_out:
                return
            with self._store.changing():
                self._store.set(look.fresh)
                self._store.drop(dropped)
                self._store.set_left_out(look.found.left_out)
                self._store.set_position(position)
            self._generation += 1
            self._known.update(look.fresh)
            for path in dropped:
                self._known.pop(path, None)
            self._left_out, self._position = look.found.left_out, position
            if changed:
                self._store.forget_unneeded()
                self.room = self._store.room()

    def catch_up(self, look: Look, transitions: Sequence[Transition]) -> None:
        """Look once more where the journal has something newer than the look, and at what others have accepted."""
        with self._lock:
            self._load()
            again = [path for path in {str(one.path) for one in transitions} if self._look_again(look.found, path)]
            if again or look.generation != self._generation:
                self._compare_again(look)

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

    def _compare_again(self, look: Look) -> None:
        staged = {path: one for path, one in look.fresh.items() if not one.digest or self._store.has(one.digest)}
        changed = self._not_known(look.found)
        reused = {path: staged[path] for path, seen in changed if path in staged and _is_same(staged[path].seen, seen)}
        with self._store.changing():
            read = self._kept([(path, seen) for path, seen in changed if path not in reused])
        new = self._looked(look.found, reused | read)
        look.fresh, look.gone, look.hidden, look.generation = new.fresh, new.gone, new.hidden, new.generation

    def _looked(self, found: Scan, fresh: dict[str, Known]) -> Look:
        hidden = set(below(self._known, found.unreadable | found.left_out))
        gone = [path for path in self._known if path not in found.seen and path not in hidden]
        return Look(found, fresh, self._generation, gone, hidden)

    def _kept(self, changed: list[tuple[str, Seen]]) -> dict[str, Known]:
        """Entries with the contents of files in the store; small ones first, while there is room."""
        changed.sort(key=lambda one: one[1].size)
        recent = time.time_ns() - _SAME_TICK
        fresh: dict[str, Known] = {}
        for path, seen in changed:
            name = ""
            if seen.node is Node.FILE and seen.size <= min(self._caps.file, self._caps.tree - self.room):
                data = self._read(path, seen.size)
                name = digest(data) if data is not None else self._unread(path, seen)
                self.room += self._store.put(name, data) if data is not None else 0
            kept = seen._replace(changed=-1) if seen.changed > recent else seen
            fresh[path] = Known(kept, name)
        return fresh

    # Some paths

    def compare_at(self, paths: Iterable[Path], transitions: Sequence[Transition]) -> list[Change]:
        """What is not as accounted for at these paths, on the way to them, and in folders that were there."""
        with self._lock:
            self._load()
            self._at_hand.clear()
            chains = _chains(transitions)
            waiting = {str(one) for path in paths for one in (path, *path.parents) if self._root(str(one)) is not None}
            before: dict[str, Known | None] = {}
            after: dict[str, Known | None] = {}
            for path in sorted(waiting):
                self._compare_one(path, chains, before, after)
            for folder in [path for path in before if _is_folder(before[path]) and not _is_folder(after[path])]:
                for path in below({*self._known, *chains}, [folder]):
                    if path not in before:
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
            return  # nobody can look there now; the next look at everything takes it as it is then
        known = self._known.get(path)
        if seen is not None and path not in chains and known is not None and known.seen == seen:
            return
        accounted = self._accounted(path, chains)
        name = ""
        if seen is not None and seen.node is Node.FILE and (accounted is None or accounted.digest):
            data = self._read(path, seen.size)
            if data is not None:
                name = digest(data)
                self._at_hand[name] = data
            else:
                name = self._unread(path, seen)
        now = Known(seen, name) if seen is not None else None
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

    def _not_known(self, found: Scan) -> list[tuple[str, Seen]]:
        """What is not as it was at the last look."""
        known = self._known.get
        return [(path, seen) for path, seen in found.seen.items() if (one := known(path)) is None or one.seen != seen]

    def _unread(self, path: str, seen: Seen) -> str:
        """A file that may not be read holds what it held, as far as its size and time tell."""
        known = self._known.get(path)
        same = known is not None and known.seen[2:4] == seen[2:4] and known.seen.inode == seen.inode
        return known.digest if known is not None and same else ""

    def _root(self, path: str) -> Root | None:
        return next((one for one in self._paths.roots if path.startswith(f"{one.path}/")), None)

    def _read(self, path: str, size: int) -> bytes | None:
        root = self._root(path)
        if root is None:
            return None
        try:
            opened = open_beneath(root.descriptor, path[len(str(root.path)) + 1 :], _READ)
        except (OSError, LeadsOut):
            return None
        try:
            data = os.read(opened, size + 1)  # nearly always all of it, and one byte to see whether it has grown
            while len(data) <= self._caps.file and (more := os.read(opened, _CHUNK)):
                data += more
        except OSError:
            return None
        finally:
            os.close(opened)
        return data if len(data) <= self._caps.file else None


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
            return Known(Seen(Node.FILE, mode, 0, 0, 0, 0), state.digest)


def _with_mode(known: Known | None, mode: int | None) -> Known:
    if known is None:
        return _known_of(State(UNKNOWN, mode))
    return known._replace(seen=known.seen._replace(mode=known.seen.mode if mode is None else mode))


def _fitted(before: Known | None, now: Known | None) -> Known | None:
    """What was there before, with what nobody knows of it taken as it is now."""
    if before is None:
        return None
    journalled = before.seen.inode == 0
    unread = now is not None and now.seen.node is Node.FILE and not now.digest
    if before.digest == UNKNOWN or (journalled and unread and before.seen.node is Node.FILE):
        return now
    if before.seen.mode != _ANY_MODE:
        return before
    usual = 0o755 if before.seen.node is Node.FOLDER else 0o644
    mode = now.seen.mode if now is not None and now.seen.node is before.seen.node else usual
    return before._replace(seen=before.seen._replace(mode=mode))


def _is_same(staged: Seen, seen: Seen) -> bool:
    return staged == seen or staged == seen._replace(changed=-1)


def _is_folder(known: Known | None) -> bool:
    return known is not None and known.seen.node is Node.FOLDER


# Commands


_Result = TypeVar("_Result")
_UNSEEN = "The workspace was not looked at before it ran; what it changed cannot be undone."
_LOST = (
    "The copy of the workspace that undo works from could not be read while it ran, and was "
    "rebuilt; what it changed until then cannot be undone."
)
_REBUILT = "The copy of the workspace that undo works from could not be read, and was rebuilt."
_UNDER_WAY: dict[tuple[str, int], Origin] = {}
"""The commands of this process, by the folder of their history and their number in it."""


@dataclass(slots=True, frozen=True)
class RecordedChanges:
    """What a command changed. `group` is None when that is nothing, or nothing that could be seen."""

    group: Group | None = None
    note: str = ""
    """Why some or all of it cannot be undone, or may not be its own; empty when all is well."""


class ShellChanges:
    """Looks at the workspace before a command that may write and after it. Safe in any thread and process.

    What others change while no command is under way is taken as it is and belongs to none.
    """

    def __init__(self, folder: Path, store: SnapshotStore, recovery: Recovery, paths: Paths) -> None:
        self._folder, self._store, self._recovery, self._paths = str(folder), store, recovery, paths
        self._tree = KnownTree(folder, paths, store.caps)
        self._untold = ""
        """What the result of the next command that ends has to say."""

    def close(self) -> None:
        self._tree.close()

    def begin(self, origin: Origin, *, alone: bool = False) -> bool:
        """Know the workspace as it is now; call it before a command that may write.

        With `alone` it does nothing but give False where another command is under way already. Where there are pipes
        or sockets it gives True all the same: they are how one command talks to another, and only directly.
        """
        number = again_if_broken(lambda: self._add(origin, alone=alone))
        if number is None and self._tree.has_pipes():
            number = again_if_broken(lambda: self._add(origin, alone=False))
        if number is None:
            return False
        try:
            self._look(begun=number)
        except BaseException:
            self._drop(number)
            raise
        return True

    def end(self, origin: Origin) -> RecordedChanges:
        """See what has changed since `begin`, and put it in the history as one group."""
        return self._record(origin, over=True)

    def so_far(self, origin: Origin) -> RecordedChanges:
        """The same for a command that goes on."""
        return self._record(origin, over=False)

    def withdraw(self, origin: Origin) -> None:
        """The command was never run: what has changed since `begin` is not its own, nor what changes from now on."""
        if (number := self._number_of(origin)) is not None:
            self._drop(number)

    def settle(self) -> None:
        """Take up what a command changed whose program was killed before it could look again."""
        if any(not self._is_under_way(one) for one in again_if_broken(self._all)):
            self._look()

    def take_up(self, journal: Journal, paths: Iterable[Path]) -> None:
        """Before the history changes these paths: what a command under way has done there is put in the list first.

        Inside the lock of the store.
        """

        def work() -> None:
            owners = self._owners(journal)
            if owners and (position := self._known_since(journal)) is not None:
                changes = self._tree.compare_at(paths, journal.transitions(position))
                self._note(changes, owners)

        if journal.commands():
            self._mended(journal, work)

    # Commands under way

    def _add(self, origin: Origin, *, alone: bool) -> int | None:
        with self._recovery.settled() as journal:
            if alone and any(self._is_under_way(one) for one in journal.commands()):
                return None
            number = journal.add_command(_this_process(), origin)
            _UNDER_WAY[self._folder, number] = origin
            return number

    def _drop(self, number: int) -> None:
        _UNDER_WAY.pop((self._folder, number), None)

        def work() -> None:
            with self._recovery.settled() as journal:
                journal.set_commands(over=[number])

        again_if_broken(work)

    def _all(self) -> list[Running]:
        with self._recovery.settled() as journal:
            return journal.commands()

    def _number_of(self, origin: Origin) -> int | None:
        own = list(_UNDER_WAY.items())
        return next((number for (folder, number), one in own if folder == self._folder and one == origin), None)

    def _is_under_way(self, command: Running) -> bool:
        if command.process == _this_process():
            return (self._folder, command.number) in _UNDER_WAY
        return _is_alive(command.process)

    def _owners(self, journal: Journal, ended: int = 0) -> list[Running]:
        """Whose doing a change is that nobody accounts for: that of the first; that of the others too, perhaps."""
        watched = [one for one in journal.commands() if one.watch is Watch.WATCHED]
        return sorted(watched, key=lambda one: (one.number != ended, self._is_under_way(one), one.number))

    # Looking

    def _record(self, origin: Origin, *, over: bool) -> RecordedChanges:
        number = self._number_of(origin)
        if number is None:
            return RecordedChanges(note=_UNSEEN)
        if over:
            del _UNDER_WAY[self._folder, number]  # should the look fail, the next one takes it up
        recorded = self._look(ended=number)
        untold, self._untold = self._untold, ""
        return recorded if recorded.note == _LOST else replace(recorded, note=f"{recorded.note} {untold}".strip())

    def _look(self, *, begun: int = 0, ended: int = 0) -> RecordedChanges:
        """Take the workspace as it is now; what differs is what the commands under way did, if there are any."""
        look = self._whole()
        return again_if_broken(lambda: self._take(look, begun, ended))

    def _whole(self) -> Look | None:
        try:
            return self._tree.look()
        except TreeDamaged:
            pass

        def work() -> None:
            with self._recovery.settled() as journal:
                self._rebuild(journal)

        again_if_broken(work)
        return self._tree.look()

    def _take(self, look: Look | None, begun: int, ended: int) -> RecordedChanges:
        with self._recovery.settled() as journal:
            group = self._mended(journal, lambda: self._compare(journal, look, ended)) if look is not None else None
            commands = {one.number: one for one in journal.commands()}
            over = [number for number, one in commands.items() if not self._is_under_way(one)]
            journal.set_commands(over=over, watched=begun if look is not None else 0)
            return RecordedChanges(group, self._note_on(commands.get(ended), look, group) if ended else "")

    def _compare(self, journal: Journal, look: Look, ended: int) -> Group | None:
        """Put in the list what nobody accounts for, and go on from this look."""
        owners = self._owners(journal, ended)
        position = self._known_since(journal) if owners else self._tree.position()
        transitions = journal.transitions(position or 0)
        self._tree.catch_up(look, transitions)
        group = None
        if owners and position is not None:
            group = self._note(self._tree.compare(look, transitions), owners)
        self._tree.accept(look, journal.position())
        return group if owners and owners[0].number == ended else None

    def _known_since(self, journal: Journal) -> int | None:
        """Where the journal was at the last look. Another process may have had to throw that look away."""
        position = self._tree.position()
        if position is None or position > journal.position():  # the journal may have been restored from a copy
            journal.lose_commands()
            return None
        return position

    def _mended(self, journal: Journal, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except TreeDamaged:
            self._rebuild(journal)
            return work()

    def _rebuild(self, journal: Journal) -> None:
        """Throw the broken copy away. What the commands under way have changed until now cannot be told any more."""
        self._tree.rebuild()
        journal.lose_commands()
        self._untold = _REBUILT
        self._store.note(_REBUILT)

    # Noting

    def _note(self, changes: Sequence[Change], owners: Sequence[Running]) -> Group | None:
        """Take up changes that commands have made already, so that they can be undone like our own."""
        if not changes:
            return None
        others = list(dict.fromkeys(one.origin for one in owners[1:] if one.origin != owners[0].origin))
        return self._store.record(changes, self._content, owners[0].origin, others)

    def _content(self, name: str) -> bytes | None:
        data = self._tree.content(name)
        if data is None:
            with suppress(ContentLost):
                data = self._store.contents.get(name)
        return data

    def _note_on(self, ended: Running | None, look: Look | None, group: Group | None) -> str:
        if look is None:
            return f"There are more than {self._store.caps.entries:,} files here; what it changed cannot be undone."
        if ended is None or ended.watch is Watch.STARTING:
            return _UNSEEN
        if ended.watch is Watch.LOST:
            return _LOST
        return " ".join(filter(None, (_uncovered(group, self._paths), _shared(group))))


def _uncovered(group: Group | None, paths: Paths) -> str:
    if group is None or not group.uncovered:
        return ""
    names = [f"`{paths.show(one.path)}`" for one in group.uncovered]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    return f"Undo does not cover {shown}: too large to keep, or in a folder the history leaves out."


def _shared(group: Group | None) -> str:
    if group is None or not group.others:
        return ""
    calls = ", ".join(f"`{one_line(one.call)}`" for one in group.others)
    return (
        f"Another command ran at the same time ({calls}) and may have made some of its changes; "
        "undo reverts all of them."
    )


def _this_process() -> str:
    return _process(os.getpid())


@lru_cache(maxsize=1)
def _process(number: int) -> str:
    return f"{number}:{_started(number)}"


def _is_alive(process: str) -> bool:
    number, _, started = process.partition(":")
    return bool(started) and _started(int(number)) == started


def _started(number: int) -> str:
    """When a process began, so that another with the same number is not taken for it; empty when there is none, or it
    is dead and only waits for its parent to see that.
    """
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if stat[0] in "ZX" else stat[19]
    except FileNotFoundError:
        pass
    except ProcessLookupError:
        return ""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "?"
    return "?"
