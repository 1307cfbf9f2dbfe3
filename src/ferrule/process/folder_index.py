"""Knows what is in the folders of a tree without listing them all again.

A folder is listed again when its `ctime` has changed: a new name in it changes that, and no program can set it back. A
tree that is looked at again and again is watched: then the kernel names the folders in which names came or went, and a
look costs what has changed and not what is there. It tells before the call returns that changes a folder, so of
processes that are dead nothing is missed. Where it may not know of changes, or would know of too many, all is looked at
anew: file systems that others change too are not watched, and when anything is mounted, nothing that was known holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import struct
import sys
import termios
import threading
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_Found = TypeVar("_Found")

_MOST_FOLDERS, _MOST_REMEMBERED = 1_000_000, 32
_WATCHED_FROM = 3  # the look: one command needs two
_CLOCK_STEP = 20_000_000  # of the coarsest clock a file system uses, in nanoseconds
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_NAMES_CHANGE = 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x01000000  # moved, created, deleted; only folders
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_LITTLE = 4096  # bytes, some hundred changes
_NOT_TRIED, _CANNOT = -2, -1
# ext4, xfs, btrfs, tmpfs, f2fs, overlay, zfs, bcachefs: only this kernel changes them.
_LOCAL = frozenset({
    0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x794C7630, 0x2FC12FC1, 0xCA451A4E,
})  # fmt: skip


# Opens what lies below a folder by real names alone: a link on the way is an error, also one put there now.


def open_plain(folder: int, path: str, flags: int = _FOLDER) -> int:
    """Open `path` below the open `folder`, part by part; "" is the folder itself."""
    parts = path.split("/") if path else ["."]
    at = folder
    try:
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            below = os.open(part, (flags | os.O_NOFOLLOW | os.O_CLOEXEC) if last else _FOLDER, dir_fd=at)
            if at != folder:
                os.close(at)
            at = below
    except BaseException:
        if at != folder:
            os.close(at)
        raise
    return at


@contextlib.contextmanager
def opened(folder: int, path: str, flags: int = _FOLDER) -> Generator[int]:
    """The same, for the length of a block."""
    descriptor = open_plain(folder, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(slots=True, frozen=True)
class FolderListing:
    """What is in a folder, as long as its number and `ctime` are these."""

    number: int
    changed: int
    folders: dict[str, int]
    files: str
    """Separated by `/`, which no name has: there may be very many."""
    has_special: bool = False
    """Whether there is a pipe, a socket or a device among them."""

    @property
    def text(self) -> str:
        """All names, each with `/` behind it."""
        return "/".join((self.files, *self.folders, "")) if self.files else "/".join((*self.folders, ""))

    def names(self) -> dict[str, bool]:
        """Of each name whether it is a folder."""
        files = dict.fromkeys(self.files.split("/"), False) if self.files else {}
        return {**files, **dict.fromkeys(self.folders, True)}


@dataclass(slots=True)
class _Folder(Generic[_Found]):
    number: int
    changed: int
    below: dict[str, int]
    """The folders in it that matter, and their numbers in its listing."""
    found: _Found | None
    watch: int


@dataclass(slots=True, frozen=True)
class Tree(Generic[_Found]):
    """All that was found, by path below the root, where that is anything."""

    found: dict[str, _Found]
    folders: frozenset[str]
    closed: frozenset[str]
    """Folders that could not be looked into."""
    complete: bool
    """Whether every folder was looked at."""


class FolderIndex(Generic[_Found]):
    """The folders below one. What `read` finds must follow from a path and the names there, which are folders or not;
    it gives too which of the folders matter.
    """

    def __init__(self, listings: dict[str, FolderListing] | None = None) -> None:
        """Indexes of one tree share its `listings`: a tree that two sets of rules are about is listed once."""
        self.listings = {} if listings is None else listings
        self.stale: set[str] = set()
        """Folders of which the kernel told; for `_Watches`, under its lock."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._place: tuple[int, ...] = ()
        self._folders: dict[str, _Folder[_Found]] = {}
        self._found: dict[str, _Found] = {}
        self._unwatched: set[str] = set()
        self._closed: set[str] = set()
        self._tree: Tree[_Found] | None = None
        self._looks = 0

    def look(self, root: int, read: Callable[[str, FolderListing], tuple[list[str], _Found | None]]) -> Tree[_Found]:
        """What is below the open folder `root` now."""
        with self._lock:
            try:
                return self._look(root, read)
            except BaseException:
                self._forget("")  # what the kernel told was taken, and is known nowhere
                raise

    def _look(self, root: int, read: Callable[..., tuple[list[str], _Found | None]]) -> Tree[_Found]:
        stale, turn = _watches.take(self)
        state = os.fstat(root)
        place = (turn, state.st_dev, state.st_ino)
        if place != self._place or (self._tree is not None and not self._tree.complete):
            self._forget("")
            self._place = place
        self._looks += 1
        for path in stale & self._folders.keys():
            self._folders[path].changed = -1
        waiting = sorted((stale | self._unwatched | self._closed) if self._folders else {""}, reverse=True)
        while waiting and len(self._folders) < _MOST_FOLDERS:
            path = waiting.pop()
            parent, _, name = path.rpartition("/")
            known = self._folders.get(path)
            if path and (parent not in self._folders or name not in self._folders[parent].below):
                self._closed.discard(path)
                continue
            folder = self._visit(root, path, known, read)
            if folder is None:  # gone meanwhile, or a link now, or not ours to read
                if known is not None or path not in self._closed:
                    self._forget(path)
                    self._closed.add(path)
                continue
            self._closed.discard(path)
            (self._unwatched.discard if folder.watch >= 0 else self._unwatched.add)(path)
            if folder is known:
                continue
            self._tree = None
            if known is not None and known.watch != folder.watch:  # another folder is there now
                _watches.drop(known.watch, self, path)
            self._folders[path] = folder
            self._found.pop(path, None)
            if folder.found is not None:
                self._found[path] = folder.found
            start = f"{path}/" if path else ""
            for below, number in known.below.items() if known is not None else ():
                if folder.below.get(below) != number:
                    self._forget(start + below)
            waiting += [start + below for below in folder.below if start + below not in self._folders]
        if self._tree is None:
            self._tree = Tree(dict(self._found), frozenset(self._folders), frozenset(self._closed), not waiting)
        return self._tree

    def _visit(
        self, root: int, path: str, known: _Folder[_Found] | None, read: Callable[..., tuple[list[str], _Found | None]]
    ) -> _Folder[_Found] | None:
        may_watch = self._looks >= _WATCHED_FROM and not self._is_closed
        try:
            if known is not None and (known.watch == _CANNOT or (known.watch == _NOT_TRIED and not may_watch)):
                state = os.stat(path or ".", dir_fd=root, follow_symlinks=False)
                if (known.number, known.changed) == (state.st_ino, state.st_ctime_ns):
                    return known
            with opened(root, path) as folder:
                state = os.fstat(folder)
                watch = _NOT_TRIED
                if known is not None and known.number == state.st_ino and _watches.has(known.watch, self, path):
                    watch = known.watch
                elif may_watch:
                    watch = _watches.add(folder, state.st_dev, self, path)
                began = time.time_ns()
                state = os.fstat(folder)
                if known is not None and (known.number, known.changed) == (state.st_ino, state.st_ctime_ns):
                    known.watch = watch
                    return known
                listing = self.listings.get(path)
                if listing is None or (listing.number, listing.changed) != (state.st_ino, state.st_ctime_ns):
                    # What changes within one step of the clock cannot be told by it: such a folder is listed again.
                    changed = state.st_ctime_ns if state.st_ctime_ns < began - _CLOCK_STEP else -1
                    listing = self.listings[path] = _list(folder, state.st_ino, changed)
        except OSError:
            return None
        below, found = read(path, listing)
        return _Folder(state.st_ino, listing.changed, {name: listing.folders[name] for name in below}, found, watch)

    def _forget(self, path: str) -> None:
        """A folder and all below it."""
        self._tree = None
        waiting = [path]
        while waiting:
            path = waiting.pop()
            self._closed.discard(path)
            self._unwatched.discard(path)
            self._found.pop(path, None)
            self.listings.pop(path, None)
            if (folder := self._folders.pop(path, None)) is not None:
                _watches.drop(folder.watch, self, path)
                waiting += [f"{path}/{name}" if path else name for name in folder.below]

    def close(self) -> None:
        """Watch nothing any more, from now on."""
        with self._lock:
            self._is_closed = True
            self._forget("")


def _list(folder: int, number: int, changed: int) -> FolderListing:
    folders: dict[str, int] = {}
    has_special = False
    with os.scandir(folder) as listed:
        entries = list(listed)
    files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    for entry in entries if len(files) < len(entries) else ():
        if entry.is_dir(follow_symlinks=False):
            folders[entry.name] = entry.inode()
        elif not entry.is_file(follow_symlinks=False):
            files.append(entry.name)
            has_special = has_special or not entry.is_symlink()
    return FolderListing(number, changed, folders, "/".join(files), has_special)


class _Watches:
    """What the process has the kernel watch, in one queue for all trees. It starts over when something was lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = 0
        self._queue = self._mounts = -1
        self._start()

    def _start(self) -> None:
        for descriptor in (self._queue, self._mounts):
            if descriptor >= 0:
                os.close(descriptor)
        self._turn += 1
        self._queue = self._mounts = -1
        self._users: dict[int, set[tuple[FolderIndex[Any], str]]] = {}
        self._tells: dict[int, bool] = {}

    def take(self, index: FolderIndex[Any]) -> tuple[set[str], int]:
        """The folders of a tree in which names came or went since it was last asked, and in which turn that is: what
        was known in another does not hold.
        """
        with self._lock:
            if self._queue >= 0 and not self._hear():
                self._start()
            stale, index.stale = index.stale, set()
            return stale, self._turn

    def _hear(self) -> bool:
        if self._changed_mounts.poll(0):
            return False
        while True:
            try:
                data = os.read(self._queue, 1 << 16)
            except BlockingIOError:
                return True
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                if mask & _OVERFLOW:
                    return False
                users = self._users.pop(watch, ()) if mask & _IGNORED else self._users.get(watch, ())
                for user, path in users:
                    user.stale.add(path)

    def is_quiet(self) -> bool:
        """Whether few of the kernel's events are waiting to be read."""
        waiting = array("i", (0,))
        with self._lock:
            if self._queue >= 0:
                fcntl.ioctl(self._queue, termios.FIONREAD, waiting)
        return waiting[0] < _LITTLE

    def has(self, watch: int, index: FolderIndex[Any], path: str) -> bool:
        """Whether it is still in force."""
        return (index, path) in self._users.get(watch, ())

    def add(self, folder: int, device: int, index: FolderIndex[Any], path: str) -> int:
        """Watch an open folder for a tree, where that can be."""
        with self._lock:
            if self._queue < 0 and not self._open():
                return _CANNOT
            if device not in self._tells:
                self._tells[device] = _kind(folder) in _LOCAL
            if not self._tells[device] or len(self._users) >= self._most:
                return _CANNOT
            watch = _libc.inotify_add_watch(self._queue, b"/proc/self/fd/%d" % folder, _NAMES_CHANGE)
            if watch < 0:
                return _CANNOT
            self._users.setdefault(watch, set()).add((index, path))
            return watch

    def drop(self, watch: int, index: FolderIndex[Any], path: str) -> None:
        """It is not needed for this any more."""
        with self._lock:
            users = self._users.get(watch, set())
            users.discard((index, path))
            if watch >= 0 and not users and self._users.pop(watch, None) is not None:
                _libc.inotify_rm_watch(self._queue, watch)

    def _open(self) -> bool:
        if sys.platform != "linux":
            return False
        try:
            limit = int(Path("/proc/sys/fs/inotify/max_user_watches").read_bytes())
            self._most = limit // 4  # the user's editors need some
            self._mounts = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return False
        self._changed_mounts = select.poll()
        self._changed_mounts.register(self._mounts, select.POLLPRI)
        self._queue = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        return self._queue >= 0

    def leave(self) -> None:
        """In a fork: the queue is the parent's, and a lock may be held that is never released."""
        global _remembered_lock
        self._lock, _remembered_lock = threading.Lock(), threading.Lock()
        self._start()
        _remembered.clear()


def _kind(folder: int) -> int:
    """Of its file system, as the kernel names them."""
    state = ctypes.create_string_buffer(256)
    return struct.unpack_from("l", state)[0] & 0xFFFFFFFF if _libc.fstatfs(folder, state) == 0 else 0


_libc = ctypes.CDLL(None, use_errno=True)
_watches = _Watches()
is_quiet = _watches.is_quiet
_remembered: list[tuple[str, object, FolderIndex[Any]]] = []
_remembered_lock = threading.Lock()


def index_of(root: str, rules: object) -> FolderIndex[Any]:
    """What is known of a folder by the same rules. Those that were asked for last are remembered."""
    with _remembered_lock:
        found = next((one for one in _remembered if one[0] == root and one[1] == rules), None)
        if found is not None:
            _remembered.remove(found)
        listings = next((index.listings for known, _, index in _remembered if known == root), None)
        _remembered.append(found or (root, rules, FolderIndex(listings)))
        dropped = [_remembered.pop(0)[2] for _ in range(len(_remembered) - _MOST_REMEMBERED)]
        index = _remembered[-1][2]
    for one in dropped:
        one.close()
    return index


def listed_below(root: str) -> tuple[int, bool] | None:
    """How many names were below a folder when it was last looked at, and whether pipes, sockets or devices were among
    them; None where it never was.
    """
    with _remembered_lock:
        listings = next((index.listings for known, _, index in _remembered if known == root), None)
    if not listings:
        return None
    known = list(listings.values())
    return sum(one.files.count("/") + len(one.folders) + 1 for one in known), any(one.has_special for one in known)


os.register_at_fork(after_in_child=_watches.leave)
