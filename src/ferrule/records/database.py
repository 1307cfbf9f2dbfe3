"""The audit database file: opening it, making it, and refusing what is not one."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase
from ferrule.records.reserve import is_full

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

APPLICATION_ID = 0x46455252  # "FERR": tells our file from another program's SQLite database
SCHEMA_VERSION = 4

_USAGE_SCHEMA = """
CREATE TABLE usage (
    block INTEGER NOT NULL, tool TEXT NOT NULL, tenant TEXT, first_time REAL NOT NULL, last_time REAL NOT NULL,
    count INTEGER NOT NULL, success INTEGER NOT NULL, denied INTEGER NOT NULL, durations BLOB NOT NULL,
    waits BLOB NOT NULL
);
CREATE INDEX usage_block ON usage (block)
"""
_FIRST_SCHEMA = """
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    session TEXT NOT NULL,
    call_id TEXT NOT NULL,
    parent TEXT,
    tool TEXT NOT NULL,
    version TEXT NOT NULL,
    kind TEXT NOT NULL,
    tenant TEXT,
    user TEXT,
    role TEXT,
    arguments TEXT NOT NULL,
    arguments_length INTEGER NOT NULL,
    arguments_sha256 TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    rule TEXT,
    answer TEXT,
    stage TEXT NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    duration REAL NOT NULL,
    result_length INTEGER NOT NULL,
    cached INTEGER NOT NULL,
    abandoned INTEGER NOT NULL,
    repairs TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX calls_time ON calls (time);
CREATE INDEX calls_call_id ON calls (call_id);
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO head VALUES (1, 0, '');
CREATE TABLE checkpoint (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO checkpoint VALUES (1, 0, '');
CREATE TRIGGER calls_are_never_changed BEFORE UPDATE ON calls
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER calls_leave_by_retention_alone BEFORE DELETE ON calls
WHEN OLD.seq > (SELECT seq FROM checkpoint)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
"""
# One entry for each version of the schema; entry N takes a file from version N to N + 1.
_MIGRATIONS = (
    _FIRST_SCHEMA,
    "ALTER TABLE calls ADD COLUMN waited REAL;\nALTER TABLE calls ADD COLUMN queued REAL;",
    "ALTER TABLE calls ADD COLUMN box TEXT;\nALTER TABLE calls ADD COLUMN effects TEXT;",
    _USAGE_SCHEMA,
)
# How a file of an older version is read where nobody may bring it up to date.
_NO_BOX = "NULL AS box, NULL AS effects FROM main.calls"
_NO_BLOCKS = "CREATE TEMP VIEW usage AS SELECT NULL AS block, NULL AS first_time, NULL AS last_time WHERE 0"
_OLDER_VIEWS = {
    1: (f"CREATE TEMP VIEW calls AS SELECT *, NULL AS waited, NULL AS queued, {_NO_BOX}", _NO_BLOCKS),
    2: (f"CREATE TEMP VIEW calls AS SELECT *, {_NO_BOX}", _NO_BLOCKS),
    3: (_NO_BLOCKS,),
}


class AuditError(Exception):
    """The audit log cannot be written or read; the message says what to do about it."""


def open_for_writing(path: Path, *, patience: float) -> sqlite3.Connection:
    """A connection that may append; makes the file, or brings an older one up to date."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise AuditError(
                phrase(
                    "Cannot open the audit log {path}: it is not a regular file. Choose another place for it.",
                    path=path,
                )
            )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Arguments are private: only the owner may read the file, whatever the umask is.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = _while_locked(lambda: _prepare(path, patience), patience)
        connection.execute("SELECT seq, hash FROM head").fetchone()  # every writer reads it: a damaged one is told now
    except OSError as problem:
        raise AuditError(
            phrase(
                "Cannot open the audit log {path}: {text}. Choose another place for it.",
                path=path,
                text=problem.strerror,
            )
        ) from problem
    except sqlite3.Error as problem:
        raise AuditError(_words_for(problem, path)) from problem
    return connection


def open_for_reading(path: str | Path) -> sqlite3.Connection:
    """A connection that cannot change anything."""
    path = Path(path)
    if not path.is_file():
        raise AuditError(phrase("There is no audit log at {path}.", path=path))
    try:
        try:
            connection = _view(path, "mode=ro")
        except sqlite3.OperationalError:
            # Even a reader must make files beside the log, and may not in a read-only folder. Where no writer left
            # anything to be merged, the file alone is the whole log.
            if Path(f"{path.resolve()}-wal").exists():
                raise
            connection = _view(path, "mode=ro&immutable=1")
    except sqlite3.Error as problem:
        raise AuditError(_words_for(problem, path)) from problem
    # Bytes that are not text must show up as a changed row, not as a crash of whoever looks for it.
    connection.text_factory = as_text
    return connection


def _view(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA busy_timeout = 5000")
        version = _check_identity(connection, path)
        if version == 0:
            raise AuditError(phrase("{path} is not an audit log yet: nothing was recorded in it.", path=path))
        if version in _OLDER_VIEWS:
            connection.execute("PRAGMA temp_store = MEMORY")
            for view in _OLDER_VIEWS[version]:
                connection.execute(view)
    except BaseException:
        connection.close()
        raise
    return connection


def as_text(raw: bytes) -> str:
    """Text, also of bytes that are none."""
    return raw.decode("utf-8", "surrogateescape")


def _prepare(path: Path, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=patience)
    try:
        version = _check_identity(connection, path)
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # An acknowledged row must survive a power cut; group commit makes that affordable.
        connection.execute("PRAGMA synchronous = FULL")
        if version < SCHEMA_VERSION:
            _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_identity(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of the file: 0 for a new, empty one."""
    # In this order: another process may make the file meanwhile, and all three of them change at once.
    has_tables = _number(connection, "SELECT count(*) FROM sqlite_master") > 0
    identity = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if has_tables and identity != APPLICATION_ID:
        raise AuditError(
            phrase("{path} is the database of another program. Choose another file for the audit log.", path=path)
        )
    if version > SCHEMA_VERSION:
        raise AuditError(
            phrase(
                "{path} was written by a newer Ferrule (format {version}; this one knows {known}). "
                "Update Ferrule, or choose another file.",
                path=path,
                version=version,
                known=SCHEMA_VERSION,
            )
        )
    return version


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """All or nothing. IMMEDIATE: other processes write the file too, so what is read is read under the same lock."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with transaction(connection):
        # Another process may have been quicker, so the version is read again under the lock.
        for migration in _MIGRATIONS[_check_identity(connection, path) :]:
            # One statement at a time: `executescript` would commit our transaction first.
            pending = ""
            for line in migration.splitlines():
                pending += line + "\n"
                if sqlite3.complete_statement(pending):
                    connection.execute(pending)
                    pending = ""
            if pending.strip():
                connection.execute(pending)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _while_locked(attempt: Callable[[], sqlite3.Connection], patience: float) -> sqlite3.Connection:
    """Switching a new file to WAL does not wait for other processes, so the waiting is done here."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _number(connection: sqlite3.Connection, query: str) -> int:
    row: tuple[Any, ...] = connection.execute(query).fetchone()
    return int(row[0])


def is_damage(problem: BaseException) -> bool:
    """Whether the file itself is broken, so that trying again is of no use."""
    return isinstance(problem, sqlite3.DatabaseError) and any(
        words in str(problem) for words in ("not a database", "malformed")
    )


def _words_for(problem: sqlite3.Error, path: Path) -> str:
    text = str(problem)
    if is_damage(problem):
        return phrase(
            "{path} is damaged or not an audit log ({text}). It was left as it is: move it away, since "
            "it may be evidence, and start again, or choose another file.",
            path=path,
            text=text,
        )
    if "locked" in text:
        return phrase("Another program keeps the audit log {path} locked. Close it, or choose another file.", path=path)
    if is_full(problem, path.parent):
        return phrase("Cannot open the audit log {path}: the disk is full. Free some space first.", path=path)
    return phrase("Cannot open the audit log {path}: {text}.", path=path, text=text)
