"""The workspace as it was last seen, with the contents of its files: what a command took away is found in here.

It is a copy that can be made again from the workspace at any time, so a broken one is thrown away without a word.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from ferrule.workspace.snapshots.changes import Node, Origin
from ferrule.workspace.snapshots.content_store import pack, unpack
from ferrule.workspace.snapshots.tree_scan import Seen

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from pathlib import Path

_VERSION = 1
_SCHEMA = """
CREATE TABLE entries (
    path BLOB PRIMARY KEY, node TEXT NOT NULL, mode INTEGER NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    changed INTEGER NOT NULL, inode INTEGER NOT NULL, target BLOB NOT NULL, digest TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE left_out (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE contents (digest TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX contents_by_size ON contents (size);
CREATE INDEX entries_by_digest ON entries (digest);
CREATE TABLE running (process TEXT NOT NULL, session TEXT, turn TEXT, call TEXT, tool TEXT, since INTEGER NOT NULL);
"""


class Known(NamedTuple):
    """What was seen at a path, and the digest of a file's content; empty where that was not read."""

    seen: Seen
    digest: str


class Running(NamedTuple):
    """A command that had begun: in which process, for whom, and after which group of changes."""

    process: str
    origin: Origin
    since: int


class TreeStore:
    """One file in the folder of a history. Used by one thread at a time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._database = _open(file)
        except sqlite3.DatabaseError:
            for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
                file.with_name(name).unlink(missing_ok=True)
            self._database = _open(file)

    def close(self) -> None:
        self._database.close()

    def load(self) -> tuple[dict[str, Known], set[str]]:
        """All entries by path, and the folders that were not looked into."""
        entries: dict[str, Known] = {}
        for path, node, mode, size, modified, changed, inode, target, digest in self._database.execute(
            "SELECT * FROM entries"
        ):
            seen = Seen(Node(node), mode, size, modified, changed, inode, _text(target))
            entries[_text(path)] = Known(seen, digest)
        return entries, {_text(path) for (path,) in self._database.execute("SELECT path FROM left_out")}

    @contextmanager
    def changing(self) -> Generator[None]:
        """Take over a new look, all of it or nothing."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def set(self, entries: Mapping[str, Known]) -> None:
        rows = [(_bytes(path), *seen[:6], _bytes(seen.target), digest) for path, (seen, digest) in entries.items()]
        self._database.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def drop(self, paths: Iterable[str]) -> None:
        self._database.executemany("DELETE FROM entries WHERE path = ?", [(_bytes(path),) for path in paths])

    def set_left_out(self, paths: Iterable[str]) -> None:
        self._database.execute("DELETE FROM left_out")
        self._database.executemany("INSERT INTO left_out VALUES (?)", [(_bytes(path),) for path in paths])

    def set_running(self, running: Running | None) -> None:
        self._database.execute("DELETE FROM running")
        if running is not None:
            origin = running.origin
            who = (running.process, origin.session, origin.turn, origin.call, origin.tool, running.since)
            self._database.execute("INSERT INTO running VALUES (?, ?, ?, ?, ?, ?)", who)

    def put(self, digest: str, data: bytes) -> int:
        """Keep a content; gives the bytes it takes more than before."""
        packed = pack(data)
        done = self._database.execute("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", (digest, len(packed), packed))
        return len(packed) if done.rowcount else 0

    def version(self) -> int:
        """A number that changes when another process has changed the file."""
        return self._database.execute("PRAGMA data_version").fetchone()[0]

    def running(self) -> Running | None:
        """The command that had begun when this was saved, and has not been seen to end."""
        row = self._database.execute("SELECT * FROM running").fetchone()
        return Running(row[0], Origin(*row[1:5]), row[5]) if row else None

    def content(self, digest: str) -> bytes | None:
        row = self._database.execute("SELECT data FROM contents WHERE digest = ?", (digest,)).fetchone()
        return unpack(row[0]) if row else None

    def room(self) -> int:
        """The bytes that the contents take."""
        return self._database.execute("SELECT coalesce(sum(size), 0) FROM contents").fetchone()[0]

    def forget_unneeded(self) -> None:
        """Drop contents of files that are no longer there or hold something else."""
        unneeded = "digest NOT IN (SELECT digest FROM entries)"
        self._database.execute(f"DELETE FROM contents WHERE {unneeded}")  # noqa: S608 - a fixed text
        with suppress(sqlite3.OperationalError):  # somebody reads; the room is given back another time
            self._database.executescript("PRAGMA incremental_vacuum")  # as a script: `execute` would free one page


def _open(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)
    try:
        run = database.execute
        run("PRAGMA auto_vacuum = INCREMENTAL")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA journal_size_limit = 1048576")
        run("PRAGMA synchronous = OFF")  # lost with the power, made again from the workspace
        version = run("PRAGMA user_version").fetchone()[0]
        if version == 0:
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
        elif version != _VERSION:
            raise sqlite3.DatabaseError("another version")
        run("SELECT count(*) FROM running").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
