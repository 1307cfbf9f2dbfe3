"""Records to write in tests, and the means to tamper with them afterwards."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ferrule.core.context import Caller
from ferrule.pipeline.stages import CallRecord
from ferrule.records import database
from ferrule.records.audit import AuditLog
from ferrule.records.row import content_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


def a_record(number: int = 1, **changes: Any) -> CallRecord:
    values: dict[str, Any] = {
        "call_id": f"call_{number}",
        "parent_id": None,
        "session_id": "session",
        "caller": Caller("acme", "ann", "dev"),
        "tool": "Read",
        "version": "1.0.0",
        "kind": "readonly",
        "arguments": {"file_path": f"{number}.txt"},
        "started": time.time(),
        "duration": 0.01,
    }
    return CallRecord(**{**values, **changes})


def a_refusal(number: int = 1, **changes: Any) -> CallRecord:
    refused: dict[str, Any] = {
        "tool": "Bash",
        "kind": "execute",
        "verdict": "deny",
        "reason": "Commands are not allowed here.",
        "stage": "authorise",
        "outcome": "permission_error",
        "error": "Commands are not allowed here.",
    }
    return a_record(number, **{**refused, **changes})


def a_log(path: Path, rows: int) -> Path:
    with AuditLog(path) as log:
        for number in range(1, rows + 1):
            log.record(a_record(number))
    return path


def an_older_log(path: Path, rows: int) -> Path:
    """As the first version of the format wrote it: without the newer columns, in the table and in the hashes."""
    last = ""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(database._FIRST_SCHEMA)
        connection.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        for number in range(1, rows + 1):
            content = content_of(a_record(number))[:-4]
            last = sha256(ascii((number, *content, before := last)).encode()).hexdigest()
            row = (number, *content, before, last)
            connection.execute(f"INSERT INTO calls VALUES ({', '.join('?' * len(row))})", row)
        connection.execute("UPDATE head SET seq = ?, hash = ?", (rows, last))
    return path


def tamper(path: Path, *statements: str) -> None:
    """Change the file as someone with SQLite and no scruples would: the triggers go first."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS calls_are_never_changed")
        connection.execute("DROP TRIGGER IF EXISTS calls_leave_by_retention_alone")
        for statement in statements:
            connection.execute(statement)


def some_records() -> list[CallRecord]:
    """A day's work: successes, failures, refusals, and tools that do not exist."""
    return [
        *(a_record(number, duration=number / 1000) for number in range(1, 101)),
        a_record(101, outcome="timeout_error", stage="execute", duration=9.0),
        a_record(102, outcome="validation_error", stage="validate", duration=5.0),
        a_refusal(103, duration=60.0),
        a_refusal(104, stage="confirm"),
        a_record(105, tool="Bash", outcome="permission_error", stage="execute", duration=0.5),
        a_record(106, tool="Made", version="", outcome="not_found_error", stage="lookup"),
        a_record(107, tool="Up", version="", outcome="not_found_error", stage="lookup"),
    ]


@contextmanager
def another_program_holds(path: Path) -> Generator[None]:
    """Nobody else can write while this lasts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
