"""The workspace as it was last seen, with the contents of its files: what a command took away is found in here.

It is a copy that can be made again from the workspace at any time, so a broken one is thrown away.
"""

from __future__ import annotations

import errno
import sqlite3
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ferrule.workspace.snapshots.changes import Node
from ferrule.workspace.snapshots.content_store import pack, unpack
from ferrule.workspace.snapshots.tree_scan import Seen
from ferrule.workspace.tracker import digest as digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from pathlib import Path

_Result = TypeVar("_Result")
_VERSION = 2
_SCHEMA = """
CREATE TABLE entries (
    path BLOB PRIMARY KEY, node TEXT NOT NULL, mode INTEGER NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    changed INTEGER NOT NULL, inode INTEGER NOT NULL, target BLOB NOT NULL, digest TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE left_out (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE contents (digest TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX contents_by_size ON contents (size);
CREATE INDEX entries_by_digest ON entries (digest);
CREATE TABLE looked (position INTEGER NOT NULL);
"""
# What says nothing about the file itself: that the disk is full, or may not be written, or that someone else is at it.
_NO_DAMAGE = frozenset({
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
})  # fmt: skip


class Known(NamedTuple):
    """What was seen at a path, and the digest of a file's content; empty where that was not read."""

    seen: Seen
    digest: str


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
            for path, node, mode, size, modified, changed, inode, target, digest in database.execute(
                "SELECT * FROM entries"
            ):
                seen = Seen(Node(node), mode, size, modified, changed, inode, _text(target))
                entries[_text(path)] = Known(seen, digest)
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
        rows = [(_bytes(path), *seen[:6], _bytes(seen.target), digest) for path, (seen, digest) in entries.items()]
        query = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._use(lambda database: database.executemany(query, rows))

    def drop(self, paths: Iterable[str]) -> None:
        rows = [(_bytes(path),) for path in paths]
        self._use(lambda database: database.executemany("DELETE FROM entries WHERE path = ?", rows))

    def set_left_out(self, paths: Iterable[str]) -> None:
        rows = [(_bytes(path),) for path in paths]
        self._run("DELETE FROM left_out")
        self._use(lambda database: database.executemany("INSERT INTO left_out VALUES (?)", rows))

    def set_position(self, position: int) -> None:
        """The entries are as of this position in the journal."""
        self._run("DELETE FROM looked")
        self._run("INSERT INTO looked VALUES (?)", position)

    def position(self) -> int | None:
        """Where the journal was at the last look; None where there was none."""
        rows = self._run("SELECT position FROM looked")
        return rows[0][0] if rows else None

    def put(self, digest: str, data: bytes) -> int:
        """Keep a content; gives the bytes it takes more than before."""
        packed = pack(data)
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
        self._run(f"DELETE FROM contents WHERE {unneeded}")  # noqa: S608 - a fixed text
        with suppress(OSError):  # somebody reads; the room is given back another time
            # As a script: `execute` would free one page.
            self._use(lambda database: database.executescript("PRAGMA incremental_vacuum"))

    def _run(self, query: str, *values: object) -> list[Any]:
        return self._use(lambda database: database.execute(query, values).fetchall())

    def _use(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        try:
            return work(self._current())
        except (ValueError, TypeError) as error:  # an entry that says nothing
            raise TreeDamaged(str(error)) from error
        except sqlite3.DatabaseError as error:
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _NO_DAMAGE:
                raise OSError(errno.EIO, str(error)) from error
            raise TreeDamaged(str(error)) from error

    def _current(self) -> sqlite3.Connection:
        """The file that is there now: another process may have thrown away the one that was opened."""
        database = self._database
        if database is not None and not database.in_transaction and self._number() != self._inode:
            self.close()
            database = None
        if database is None:
            database = self._database = _open(self._file)
            self._inode = self._number()
            self._opened += 1
        return database

    def _number(self) -> int:
        try:
            return self._file.stat().st_ino
        except OSError:
            return 0


def _open(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)
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
