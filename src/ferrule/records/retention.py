"""How long audit rows are kept, and how old ones go without breaking the chain."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase
from ferrule.records.row import INSERT, retention_content, seal
from ferrule.records.usage_blocks import BLOCK

if TYPE_CHECKING:
    import sqlite3

# One pass removes at most this many rows, so that other processes never wait long for the lock.
_ROWS_A_PASS = 20_000


@dataclass(slots=True, frozen=True)
class Retention:
    """Which rows stay: those younger than `days`, and at most the newest `rows`. None keeps everything."""

    days: float | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.days is not None and not self.days > 0:
            raise ValueError(f"Retention: days must be more than 0, not {self.days!r}.")
        if self.rows is not None and self.rows < 1:
            raise ValueError(f"Retention: rows must be at least 1, not {self.rows!r}.")


KEEP_ALL = Retention()


def remove_old_rows(connection: sqlite3.Connection, retention: Retention) -> int:
    """Remove what retention no longer keeps, oldest first; how many rows went.

    What was removed is written down twice: in the checkpoint, where `verify` starts, and as a row of the
    chain, so that a checkpoint somebody else moved does not pass for ours.
    """
    if retention == KEEP_ALL:
        return 0
    removed = 0
    while True:
        gone = _pass(connection, retention)
        removed += gone
        if gone < _ROWS_A_PASS:
            break
    if removed:
        connection.execute("PRAGMA incremental_vacuum").fetchall()
    return removed


def _pass(connection: sqlite3.Connection, retention: Retention) -> int:
    connection.execute("BEGIN IMMEDIATE")
    try:
        gone = _remove(connection, retention)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return gone


def _remove(connection: sqlite3.Connection, retention: Retention) -> int:
    now = time.time()
    head_seq, head_hash = _one(connection, "SELECT seq, hash FROM head")
    (before,) = _one(connection, "SELECT seq FROM checkpoint")
    last = before
    if retention.rows is not None:
        last = max(last, head_seq - retention.rows)
    if retention.days is not None:
        # Calls overlap, so times are not quite in order; the first row young enough to stay ends the removal.
        (kept,) = _one(connection, "SELECT min(seq) FROM calls WHERE time >= ?", now - retention.days * 86_400)
        last = max(last, head_seq if kept is None else kept - 1)
    last = min(last, before + _ROWS_A_PASS)
    (rows,) = _one(connection, "SELECT count(*) FROM calls WHERE seq <= ?", last)
    if not rows or _only_our_own_note(connection, last, rows):
        return 0
    (last_hash,) = _one(connection, "SELECT hash FROM calls WHERE seq = ?", last)
    connection.execute("UPDATE checkpoint SET seq = ?, hash = ?", (last, last_hash))
    connection.execute("DELETE FROM calls WHERE seq <= ?", (last,))
    connection.execute("DELETE FROM usage WHERE block < ?", (-(-last // BLOCK),))  # those that lost a row
    note = seal(head_seq + 1, retention_content(now, last, last_hash, rows), head_hash)
    connection.execute(INSERT, note)
    connection.execute("UPDATE head SET seq = ?, hash = ?", (note[0], note[-1]))
    return rows


def _only_our_own_note(connection: sqlite3.Connection, last: int, rows: int) -> bool:
    """Removing nothing but the last note would leave a new note, and so on for ever."""
    if rows > 1:
        return False
    (kind,) = _one(connection, "SELECT kind FROM calls WHERE seq <= ?", last)
    return kind == "retention"


def _one(connection: sqlite3.Connection, query: str, *values: Any) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query, values).fetchone()
    if row is None:
        from ferrule.records.database import AuditError

        raise AuditError(phrase("The audit log lost a row it must have; `verify` says where."))
    return row
