"""What a shell command did to the files of a workspace, found by looking before and after, so that it can be undone."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.snapshots.changes import Caps, Group, Node, Origin
from ferrule.workspace.snapshots.tree_difference import difference
from ferrule.workspace.snapshots.tree_scan import Scan, Seen, below, scan
from ferrule.workspace.snapshots.tree_store import Known, Running, TreeStore
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.changes import Change
    from ferrule.workspace.snapshots.history import History

_FILE = "tree.db"
_SAME_TICK = 20_000_000  # nanoseconds: a file that changed so lately may change again and look the same
_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(slots=True, frozen=True)
class Recorded:
    """What a command changed. `group` is None when that is nothing, or nothing that could be seen."""

    group: Group | None = None
    note: str = ""
    """Why some or all of it cannot be undone; empty when everything can."""


class ShellChanges:
    """Looks at the workspace before a command that may write and after it. Safe in any thread.

    What others change between two commands is taken as it is and belongs to no command. Where a command runs in the
    background, what changes until it ends is its own, but for what the file tools did themselves.
    """

    def __init__(self, history: History, folder: Path, paths: Paths, caps: Caps | None = None) -> None:
        self._history, self._paths, self._folder, self._caps = history, paths, folder, caps or Caps()
        # Ferrule's own folder may lie in the workspace, as in a home; what it writes there no command did.
        self._own = frozenset(os.path.realpath(one) for one in (folder, data_folder()))
        self._lock = threading.RLock()
        self._store: TreeStore | None = None
        self._version = -1
        self._known: dict[str, Known] = {}
        self._left_out: set[str] = set()
        self._room = 0
        self._running: list[Running] = []

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def begin(self, origin: Origin) -> None:
        """Know the workspace as it is now; call it before a command that may write."""
        with self._lock:
            store = self._load()
            left = store.running()
            if self._running:
                self._look(self._running[0])  # a command in the background may have changed something meanwhile
            elif left is not None and not _is_alive(left.process):
                self._look(left)  # the program was killed while its command ran
            else:
                self._look(None)
            self._running.append(Running(_this_process(), origin, self._history.newest()))
            with store.changing():
                store.set_running(self._running[0])

    def settle(self) -> Recorded:
        """Take up what a command changed whose program was killed before it could look again."""
        with self._lock:
            if self._running or not (self._folder / _FILE).exists():
                return Recorded()
            store = self._load()
            left = store.running()
            if left is None or _is_alive(left.process):
                return Recorded()
            recorded = self._look(left)
            with store.changing():
                store.set_running(None)
            return recorded

    def end(self, origin: Origin) -> Recorded:
        """See what has changed since `begin`, and put it in the history as one group."""
        with self._lock:
            running = next((one for one in self._running if one.origin == origin), None)
            if running is None:
                return Recorded(note="The workspace was not looked at before it ran; what it changed cannot be undone.")
            recorded = self._look(running)
            self._running.remove(running)
            store = self._load()
            with store.changing():
                store.set_running(self._running[0] if self._running else None)
            return recorded

    def withdraw(self, origin: Origin) -> None:
        """The command was never run: what has changed since `begin` is not its own, nor what changes from now on."""
        with self._lock:
            left = [one for one in self._running if one.origin != origin]
            if len(left) < len(self._running):
                self._running = left
                store = self._load()
                with store.changing():
                    store.set_running(left[0] if left else None)

    # Looking

    def _load(self) -> TreeStore:
        if self._store is not None and not (self._folder / _FILE).exists():  # removed under a running session
            self.close()
            self._version = -1
        if self._store is None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._store = TreeStore(self._folder / _FILE)
        version = self._store.version()
        if version != self._version:
            self._known, self._left_out = self._store.load()
            self._room = self._store.room()
            self._version = version
        return self._store

    def _look(self, running: Running | None) -> Recorded:
        """Take the workspace as it is now; what differs is what `running` did, if there is one."""
        store = self._load()
        found = scan(self._paths.roots, self._caps.entries, self._own)
        if not found.whole:
            return Recorded(
                note=f"There are more than {self._caps.entries:,} files here; what it changed cannot be undone."
            )
        hidden = set(below(self._known, found.unreadable | found.left_out))
        gone = [path for path in self._known if path not in found.seen and path not in hidden]
        with store.changing():
            fresh = self._fresh(store, found)
            changes = self._changes(fresh, gone, found) if running is not None else []
            changes = self._not_known(changes, running) if running is not None else []
            group = self._history.note(changes, store.content, running.origin) if running and changes else None
            store.set(fresh)
            store.drop([*gone, *hidden])
            store.set_left_out(found.left_out)
        self._known.update(fresh)
        for path in [*gone, *hidden]:
            del self._known[path]
        self._left_out = found.left_out
        if gone or fresh:
            store.forget_unneeded()
            self._room = store.room()
        return Recorded(group, _note(group, self._paths))

    def _fresh(self, store: TreeStore, found: Scan) -> dict[str, Known]:
        """Entries that are not as they were, contents of files in the store; small ones first, while there is room."""
        changed = [(path, seen) for path, seen in found.seen.items() if not self._is_known(path, seen)]
        changed.sort(key=lambda one: one[1].size)
        recent = time.time_ns() - _SAME_TICK
        fresh: dict[str, Known] = {}
        for path, seen in changed:
            name = ""
            if seen.node is Node.FILE and seen.size <= min(self._caps.file, self._caps.tree - self._room):
                data = self._read(path, seen.size)
                name = digest(data) if data is not None else self._unread(path, seen)
                self._room += store.put(name, data) if data is not None else 0
            kept = seen._replace(changed=-1) if seen.changed > recent else seen
            fresh[path] = Known(kept, name)
        return fresh

    def _is_known(self, path: str, seen: Seen) -> bool:
        known = self._known.get(path)
        return known is not None and known.seen == seen

    def _unread(self, path: str, seen: Seen) -> str:
        """A file that may not be read holds what it held, as far as its size and time tell."""
        known = self._known.get(path)
        same = known is not None and known.seen[2:4] == seen[2:4] and known.seen.inode == seen.inode
        return known.digest if known is not None and same else ""

    def _read(self, path: str, size: int) -> bytes | None:
        root = next(one for one in self._paths.roots if path.startswith(f"{one.path}/"))
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

    def _changes(self, fresh: Mapping[str, Known], gone: list[str], found: Scan) -> list[Change]:
        before = {path: self._known.get(path) for path in [*fresh, *gone]}
        appeared, vanished = found.left_out - self._left_out, self._left_out - found.left_out
        return difference(before, {path: fresh.get(path) for path in before}, appeared, vanished)

    def _not_known(self, changes: list[Change], running: Running) -> list[Change]:
        """Without what the history has already: the file tools may have worked while a command ran."""
        states = self._history.last_states([one.path for one in changes], running.since)
        return [one for one in changes if one.path not in states or states[one.path] != one.after]


def _note(group: Group | None, paths: Paths) -> str:
    if group is None or not group.uncovered:
        return ""
    names = [f"`{paths.show(one.path)}`" for one in group.uncovered]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    return f"Undo does not cover {shown}: too large to keep, or in a folder the history leaves out."


def _this_process() -> str:
    return f"{os.getpid()}:{_started(os.getpid())}"


def _is_alive(process: str) -> bool:
    number, _, started = process.partition(":")
    return bool(started) and _started(int(number)) == started


def _started(number: int) -> str:
    """When a process began, so that another with the same number is not taken for it; empty when there is none."""
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except FileNotFoundError:
        pass
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "?"
    return "?"
