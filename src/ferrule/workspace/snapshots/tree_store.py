"""The workspace as it was last seen, with the contents of its files: what a command took away is found in here.

It is a copy that can be made again from the workspace at any time, so a broken one is thrown away.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ferrule.core.files import UNFINISHED
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.records.reserve import is_full
from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.git_folders import GitFolders, is_git_folder
from ferrule.workspace.snapshots.changes import Change, Node, Operation, State
from ferrule.workspace.snapshots.content_store import pack, unpack
from ferrule.workspace.snapshots.journal import HistoryDatabase
from ferrule.workspace.tracker import digest as digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence

    from ferrule.workspace.paths import Root


# A quick look at everything in a workspace: what stands at each path, without reading a single file.


# What is in these can be made again, or belongs to a program with an undo of its own; it is large and changes a lot.
_LEFT_OUT = frozenset({".hg", ".svn", ".jj", "node_modules", "__pycache__"})
_MARKS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


_FAN_OUT = lazy_pattern(r"/objects/[0-9a-f]{2}$")
_MOST_REMEMBERED = 4096
SAME_TICK = 20_000_000
"""Nanoseconds: what changed so lately may change again and look the same."""
_known_objects: dict[str, tuple[tuple[int, int], dict[str, Seen]]] = {}


class Seen(NamedTuple):
    """What stands at a path and when it last changed. Two that are equal hold the same bytes."""

    node: Node
    mode: int
    size: int
    modified: int
    changed: int
    inode: int
    target: str = ""


@dataclass(slots=True)
class Scan:
    """`seen` by absolute path; `left_out` are folders that are not looked into; `unreadable` those that cannot be."""

    seen: dict[str, Seen] = field(default_factory=dict[str, Seen])
    left_out: set[str] = field(default_factory=set[str])
    unreadable: set[str] = field(default_factory=set[str])
    git: GitFolders = field(default_factory=lambda: GitFolders(lambda _: False))
    """The git directories among them, which are looked into as well."""
    pipes: bool = False
    """Whether there is a pipe, a socket or a device, none of which is seen."""
    whole: bool = True
    """Whether everything was looked at, and it did not stop at the limit."""


def scan(roots: Iterable[Root], most: int, without: Collection[str] = ()) -> Scan:
    """Look at everything below the roots, up to `most` entries. Links are never followed, nor other disks entered.

    `without` are real paths of folders to leave out.
    """
    found = Scan()
    for root in roots:
        _scan(found, root, most, without)
    return found


def _scan(found: Scan, root: Root, most: int, without: Collection[str]) -> None:
    top = str(root.path)
    if top in found.seen:
        return  # a root inside another
    pending = [top]
    of_git: list[str] = []  # after all else: where there are too many files, these are left out first
    while pending or of_git:
        folder = (pending or of_git).pop()
        if folder in without:
            found.left_out.add(folder)
            continue
        try:
            opened = open_beneath(root.descriptor, folder[len(top) + 1 :], _OPEN)
        except FileNotFoundError:
            continue  # removed while we looked
        except LeadsOut:
            found.left_out.add(folder)  # another disk, or a link by now
            continue
        except OSError:
            found.unreadable.add(folder)
            continue
        try:
            if _FAN_OUT.search(folder) and found.git.of(folder) is not None:
                found.seen |= _objects_in(folder, opened, of_git)
                continue
            entries = list(os.scandir(opened))
            if folder != top and any(entry.name in _MARKS for entry in entries):
                found.left_out.add(folder)
                continue
            git = found.git.of(folder)
            if git is None and is_git_folder(folder, {f"{folder}/{entry.name}" for entry in entries}.__contains__):
                found.git.add(git := folder)
            if len(found.seen) + len(entries) > most:
                if git is None:
                    found.whole = False
                    return
                found.left_out.add(git)
                for path in (*below(list(found.seen), [git]), git):
                    found.seen.pop(path, None)
                of_git = [one for one in of_git if found.git.of(one) != git]
                continue
            for entry in entries:
                waiting = of_git if git is not None or entry.name == ".git" else pending
                _see(found, f"{folder}/{entry.name}", entry, opened, waiting)
        finally:
            os.close(opened)


def _objects_in(folder: str, opened: int, pending: list[str]) -> dict[str, Seen]:
    """The objects in one of the 256 folders that git spreads them over. They never change, so as long as the folder has
    not changed they are as they were at the last look.
    """
    state = os.fstat(opened)
    stamp = (state.st_ino, state.st_mtime_ns)
    known = _known_objects.get(folder)
    if known is not None and known[0] == stamp:
        return known[1]
    found, inside = Scan(), list[str]()
    for entry in os.scandir(opened):
        _see(found, f"{folder}/{entry.name}", entry, opened, inside)
    pending += inside  # large files have folders of their own in there
    # Without the time of a second name that is given to them.
    seen = {path: one._replace(changed=0) for path, one in found.seen.items()}
    if not inside and state.st_mtime_ns < time.time_ns() - SAME_TICK:
        if len(_known_objects) > _MOST_REMEMBERED:
            _known_objects.clear()
        _known_objects[folder] = stamp, seen
    return seen


def _see(found: Scan, path: str, entry: os.DirEntry[str], opened: int, pending: list[str]) -> None:
    try:
        state = entry.stat(follow_symlinks=False)
        mode = state.st_mode
        if stat.S_ISREG(mode):  # nearly all are, and there are many
            if not UNFINISHED.fullmatch(entry.name):  # a file tool of another program writes it just now
                found.seen[path] = _file(state)
            return
        if stat.S_ISDIR(mode) and entry.name in _LEFT_OUT:
            found.left_out.add(path)
            return
        seen = _no_file(state, entry.name, opened)
    except FileNotFoundError:
        return  # removed while we looked
    if seen is None:
        found.pipes = True
        return
    found.seen[path] = seen
    if seen.node is Node.FOLDER:
        pending.append(path)


def _file(state: os.stat_result) -> Seen:
    mode = stat.S_IMODE(state.st_mode)
    return Seen(Node.FILE, mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


def _no_file(state: os.stat_result, name: str, folder: int) -> Seen | None:
    """A link or a folder that is called so in an open folder; None for a pipe, a socket or a device."""
    if stat.S_ISLNK(state.st_mode):
        target = os.readlink(name, dir_fd=folder)
        return Seen(Node.LINK, 0, 0, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, target)
    if stat.S_ISDIR(state.st_mode):
        return Seen(Node.FOLDER, stat.S_IMODE(state.st_mode), 0, 0, 0, state.st_ino)
    return None


def see(root: Root, path: str) -> Seen | None:
    """What stands at one path below a root; None where a scan would find nothing either.

    Raises `OSError` where a folder on the way cannot be looked into.
    """
    inner, _, name = path[len(str(root.path)) + 1 :].rpartition("/")
    try:
        opened = open_beneath(root.descriptor, inner, _OPEN)
    except (FileNotFoundError, NotADirectoryError, LeadsOut):
        return None
    try:
        # A folder on the way may be a link by now, and what is behind it is not at this path.
        parts = inner.split("/")
        tops = ("/".join(parts[:end]) for end in range(1, len(parts) + 1)) if inner else ()
        if any(stat.S_ISLNK(os.stat(top, dir_fd=root.descriptor, follow_symlinks=False).st_mode) for top in tops):
            return None
        state = os.stat(name, dir_fd=opened, follow_symlinks=False)
        return _file(state) if stat.S_ISREG(state.st_mode) else _no_file(state, name, opened)
    except FileNotFoundError:
        return None
    finally:
        os.close(opened)


def is_left_out(path: str, left_out: Collection[str]) -> bool:
    """Whether a path is a folder that is not looked into, or lies in one."""
    folder = path
    while folder:
        if folder in left_out:
            return True
        folder, _, name = folder.rpartition("/")
        if name in _LEFT_OUT and len(folder) + 1 + len(name) < len(path):
            return True
    return False


def marked_folders(folders: Iterable[str], exists: Callable[[str], bool]) -> set[str]:
    """Of some folders below a root those that something in them marks as not to be looked into."""
    return {folder for folder in folders if any(exists(f"{folder}/{mark}") for mark in _MARKS)}


def below(paths: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    """Those paths that lie in one of the folders."""
    tops = tuple(f"{folder}/" for folder in folders)
    return (path for path in paths if path.startswith(tops)) if tops else iter(())


_Result = TypeVar("_Result")
_VERSION = 3
_SCHEMA = """
CREATE TABLE entries (
    path BLOB PRIMARY KEY, node TEXT NOT NULL, mode INTEGER NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    changed INTEGER NOT NULL, inode INTEGER NOT NULL, target BLOB NOT NULL, digest TEXT NOT NULL,
    attributes TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE left_out (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE contents (digest TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX contents_by_size ON contents (size);
CREATE INDEX entries_by_digest ON entries (digest);
CREATE TABLE looked (position INTEGER NOT NULL);
"""
# What says nothing about the file itself: that it may not be written, or that someone else is at it.
_NO_DAMAGE = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
})  # fmt: skip
# Nor that something could not be written, as where the disk is full for a moment and others give room up just then.
_NOT_WRITTEN = frozenset({
    sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP,
})  # fmt: skip


class Known(NamedTuple):
    """What was seen at a path, and the digest of a file's content; empty where that was not read."""

    seen: Seen
    digest: str
    attributes: str = ""


class TreeDamaged(Exception):  # noqa: N818 - reads as what it says
    """The file cannot be read. `rebuild` makes an empty one."""


class TreeStore:
    """One file in the folder of a history. Used by one thread at a time.

    Raises `TreeDamaged` at any use of a broken file, and `OSError` where it cannot be used for another reason.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._database: sqlite3.Connection | None = None
        self._inode = self._opened = 0

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def rebuild(self) -> None:
        """Throw a broken file away."""
        self.close()
        for name in (self._file.name, f"{self._file.name}-wal", f"{self._file.name}-shm"):
            self._file.with_name(name).unlink(missing_ok=True)

    def load(self) -> tuple[dict[str, Known], set[str]]:
        """All entries by path, and the folders that were not looked into."""

        def read(database: sqlite3.Connection) -> tuple[dict[str, Known], set[str]]:
            entries: dict[str, Known] = {}
            for path, node, mode, size, modified, changed, inode, target, digest, attributes in database.execute(
                "SELECT * FROM entries"
            ):
                seen = Seen(Node(node), mode, size, modified, changed, inode, _text(target))
                entries[_text(path)] = Known(seen, digest, attributes)
            return entries, {_text(path) for (path,) in database.execute("SELECT path FROM left_out")}

        return self._use(read)

    @contextmanager
    def changing(self) -> Generator[None]:
        """Take over a new look, all of it or nothing."""
        self._run("BEGIN IMMEDIATE")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            with suppress(TreeDamaged, OSError):
                self._run("ROLLBACK")
            raise

    def set(self, entries: Mapping[str, Known]) -> None:
        rows = [
            (_bytes(path), *one.seen[:6], _bytes(one.seen.target), one.digest, one.attributes)
            for path, one in entries.items()
        ]
        query = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._use(lambda database: database.executemany(query, rows))

    def drop(self, paths: Iterable[str]) -> None:
        rows = [(_bytes(path),) for path in paths]
        self._use(lambda database: database.executemany("DELETE FROM entries WHERE path = ?", rows))

    def set_looked(self, left_out: Iterable[str], position: int) -> None:
        """The entries are as of this position in the journal, and these folders were not looked into."""
        rows = [(_bytes(path),) for path in left_out]
        self._run("DELETE FROM left_out")
        self._use(lambda database: database.executemany("INSERT INTO left_out VALUES (?)", rows))
        self._run("DELETE FROM looked")
        self._run("INSERT INTO looked VALUES (?)", position)

    def position(self) -> int | None:
        """Where the journal was at the last look; None where there was none."""
        rows = self._run("SELECT position FROM looked")
        return rows[0][0] if rows else None

    def put(self, digest: str, data: bytes) -> int:
        """Keep a content; gives the bytes it takes more than before."""
        packed = b"".join(pack(data))
        query = "INSERT OR IGNORE INTO contents VALUES (?, ?, ?)"
        done = self._use(lambda database: database.execute(query, (digest, len(packed), packed)).rowcount)
        return len(packed) if done else 0

    def version(self) -> tuple[int, int]:
        """What changes when another process has changed the file, or put a new one in its place."""
        version = self._run("PRAGMA data_version")[0][0]
        return version, self._opened

    def content(self, digest: str) -> bytes | None:
        """A content, proven to be it; None where it is not kept, or is not what it was."""
        rows = self._run("SELECT data FROM contents WHERE digest = ?", digest)
        try:
            data = unpack(rows[0][0]) if rows else None
        except zlib.error:
            return None
        return data if data is not None and digest_of(data) == digest else None

    def has(self, digest: str) -> bool:
        return bool(self._run("SELECT 1 FROM contents WHERE digest = ?", digest))

    def room(self) -> int:
        """The bytes that the contents take."""
        return self._run("SELECT coalesce(sum(size), 0) FROM contents")[0][0]

    def forget_unneeded(self) -> None:
        """Drop contents of files that are no longer there or hold something else."""
        unneeded = "digest NOT IN (SELECT digest FROM entries)"
        with suppress(OSError):  # another connection reads, or the disk is full: the space is freed later
            self._run(f"DELETE FROM contents WHERE {unneeded}")  # noqa: S608 - a fixed text
            # As a script: `execute` would free one page.
            self._use(lambda database: database.executescript("PRAGMA incremental_vacuum"))

    def _run(self, query: str, *values: object) -> list[Any]:
        return self._use(lambda database: database.execute(query, values).fetchall())

    def _use(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        try:
            # Another process may have replaced the file that was opened.
            database = self._database
            if database is not None and not database.in_transaction and self._number() != self._inode:
                self.close()
                database = None
            if database is None:
                database = self._database = _open(self._file)
                self._inode = self._number()
                self._opened += 1
            return work(database)
        except (ValueError, TypeError) as error:  # an entry that says nothing
            raise TreeDamaged(str(error)) from error
        except sqlite3.DatabaseError as error:
            if is_full(error, self._file.parent):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF in _NO_DAMAGE or code in _NOT_WRITTEN:
                raise OSError(errno.EIO, str(error)) from error
            raise TreeDamaged(str(error)) from error

    def _number(self) -> int:
        try:
            return self._file.stat().st_ino
        except OSError:
            return 0


def _open(file: Path) -> sqlite3.Connection:
    database = HistoryDatabase(file)
    try:
        run = database.execute
        run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA journal_size_limit = 1048576")
        run("PRAGMA synchronous = OFF")  # lost with the power, made again from the workspace
        if run("PRAGMA user_version").fetchone()[0] == 0:
            run("BEGIN IMMEDIATE")  # several may find it empty, and one of them fills it
            if run("PRAGMA user_version").fetchone()[0] == 0:
                for statement in _SCHEMA.split(";"):
                    run(statement)
                run(f"PRAGMA user_version = {_VERSION}")
            run("COMMIT")
        if run("PRAGMA user_version").fetchone()[0] != _VERSION:
            raise sqlite3.DatabaseError("another version")
        run("SELECT count(*) FROM looked").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


# From two looks at a workspace to the changes between them, in an order in which they can be undone and redone.


_OWNERS_RIGHTS = 0o700
"""What a folder needs so that its owner can change what is in it."""


def difference(
    before: Mapping[str, Known | None],
    after: Mapping[str, Known | None],
    appeared: Collection[str] = (),
    vanished: Collection[str] = (),
    git: GitFolders | None = None,
) -> list[Change]:
    """What happened between two looks at the same paths. `appeared` and `vanished` are folders that were not looked
    into: they are named, and not covered. With `git`, changes in git directories say so.

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
        if (
            old is not None
            and old.node is Node.FOLDER
            and old.mode is not None
            and old.mode & _OWNERS_RIGHTS != _OWNERS_RIGHTS
        ):
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
    changes = [*sorted(opening, key=_depth), *gone, *here, *sorted(closing, key=_depth, reverse=True)]
    if git is not None:
        changes = [
            one if (folder := git.of(str(one.path))) is None else replace(one, repository=Path(folder))
            for one in changes
        ]
    return [*changes, *left_out]


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
            return State(known.digest, known.seen.mode, known.attributes)


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
        old, new = replace(old, digest=""), replace(new, digest="")
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
    return State.folder(state.mode | _OWNERS_RIGHTS)


def _depth(change: Change) -> int:
    return len(change.path.parts)
