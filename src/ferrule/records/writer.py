"""The one thread that writes the audit log: it commits whatever the queue holds in one transaction."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase
from ferrule.records.database import AuditError, is_damage, open_for_writing, transaction
from ferrule.records.reserve import Reserve, is_full
from ferrule.records.row import INSERT, content_of, gap_content, retention_content, seal, unreadable_content
from ferrule.records.statistics import BLOCK, BLOCKS_A_TURN, add_missing_blocks

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from pathlib import Path

    from ferrule.pipeline.stages import CallRecord


# How long audit rows are kept, and how old ones go without breaking the chain.


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
    removed, gone = 0, _ROWS_A_PASS
    while gone >= _ROWS_A_PASS:
        with transaction(connection):
            gone = _remove(connection, retention)
        removed += gone
    if removed:
        connection.execute("PRAGMA incremental_vacuum").fetchall()
    return removed


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
        raise AuditError(phrase("The audit log is missing a row that it must have; `verify` says where."))
    return row


_log = logging.getLogger("ferrule.audit")

_ROWS_A_COMMIT = 1_000
_ROWS_A_SLICE = 16
_RETENTION_SECONDS = 3_600.0
_RETENTION_ROWS = 10_000
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 5.0


@dataclass(slots=True, frozen=True)
class WriteProblem:
    """The log could not be written for longer than its patience; `waiting` records were held back."""

    time: float
    message: str
    waiting: int


class Awaited:
    """A record whose caller waits on an event loop until it is committed."""

    __slots__ = ("future", "record")

    def __init__(self, record: CallRecord, future: asyncio.Future[None]) -> None:
        self.record = record
        self.future = future


class Marker:
    """A place in the queue: reached once everything before it is committed."""

    __slots__ = ("error", "reached")

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.error: AuditError | None = None

    def pass_on(self, error: AuditError | None) -> None:
        self.error = error
        self.reached.set()


class Stop(Marker):
    """The last thing in the queue."""

    __slots__ = ()


Item = Any  # CallRecord | Awaited | Marker; spelled out it would be imported on the hot path


class Writer:
    """Owns the connection. Everything here runs in its own thread, but for what `AuditLog` reads.

    A commit that fails is tried again, with growing pauses. After `patience` seconds those who wait are told,
    the problem is logged and listed, and the records stay here until the disk takes them.
    """

    def __init__(self, path: Path, *, retention: Retention, patience: float, linger: float, room: int) -> None:
        self.queue: SimpleQueue[Item] = SimpleQueue()
        self.hurry = threading.Event()
        self.problems: deque[WriteProblem] = deque(maxlen=100)
        self.failing: AuditError | None = None
        self.room = room
        """How many more records the queue may hold: its bound less what this thread holds back."""
        self._bound = room
        self._path = path
        self._reserve = Reserve(path.parent / f"{path.name}-reserve")
        self._used_reserve = False
        self._retention = retention
        self._patience = patience
        self._linger = linger
        self._held: deque[Item] = deque()
        self._contents: dict[int, tuple[Any, ...]] = {}
        self._stopping = False
        self._summed = 0
        # A bound of few rows is held more closely than one of many.
        self._retention_rows = min(_RETENTION_ROWS, max(100, (retention.rows or _RETENTION_ROWS) // 10))
        self._since_retention = self._retention_rows
        self._retention_due = 0.0
        self.notes: deque[str] = deque(maxlen=100)
        """What a user should hear: that the file was removed under the session, and which rows went with it."""
        self._connection: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None
        # Opened by whoever makes the log, so that a bad file is their error and not a line in a log.
        self._known: tuple[int, str] = _head(self._open(patience)) or (0, "")
        self._reserve.keep()
        self.thread = threading.Thread(target=self._run, name="ferrule-audit", daemon=True)

    def refuse(self) -> None:
        """Take no more records: the log is being closed."""
        self._bound = self.room = 0

    def _run(self) -> None:
        while not self._stopping or not self.queue.empty():
            self._held.append(self.queue.get())
            # While it lingers nothing has to wake it, which keeps `record` cheap; `flush` and `close` cut it short.
            if self._linger and not isinstance(self._held[0], (Marker, Awaited)):
                self.hurry.wait(self._linger)
            self.hurry.clear()
            self._drain()
            self._write_held()
            self._apply_retention()
        if self._used_reserve:  # the file beside the log is merged into it, which takes room too
            self._reserve.give_up()
        self._drop_connection()
        self._take_back_reserve()

    def _drain(self) -> None:
        take, held = self.queue.get_nowait, self._held
        try:
            while True:
                held.append(take())
        except Empty:
            self.room = self._bound - len(held)

    def _write_held(self) -> None:
        since, pause = time.monotonic(), _FIRST_PAUSE
        while self._held:
            try:
                # Commit the oldest held records in one transaction, then wake the callers that wait for them.
                items = [self._held[index] for index in range(min(len(self._held), _ROWS_A_COMMIT))]
                if contents := self._render(items):
                    self._append(contents)
                for item in items:
                    self._held.popleft()
                    self._contents.pop(id(item), None)
                self._tell(items, None)
                self._since_retention += len(contents)
            except Exception as problem:  # noqa: BLE001 - whatever it is, it is told and this thread lives on
                self._drop_connection()
                if is_full(problem, self._path.parent) and self._reserve.give_up():
                    self._used_reserve = True
                    continue
                if self.failing or is_damage(problem) or time.monotonic() - since >= self._patience:
                    self._report(problem)
                    if self._stopping:
                        return
                self.hurry.wait(pause)
                self.hurry.clear()
                pause = min(pause * 2, _LONGEST_PAUSE)
                self._drain()
            else:
                if self.failing:
                    _log.warning("The audit log %s can be written again.", self._path)
                self.failing, since, pause = None, time.monotonic(), _FIRST_PAUSE
                self.room = self._bound - len(self._held)
                self._sum_up()
        self._take_back_reserve()

    def _take_back_reserve(self) -> None:
        if self._used_reserve:
            self._reserve.take_back()

    def _render(self, items: list[Item]) -> list[tuple[Any, ...]]:
        """Redaction and JSON come before the database is locked, and once, however often it is tried."""
        done = self._contents
        for number, item in enumerate(items):
            if id(item) not in done and not isinstance(item, Marker):
                done[id(item)] = _content(item.record if isinstance(item, Awaited) else item)
                if number % _ROWS_A_SLICE == 0:
                    time.sleep(0)  # let an event loop have its turn between slices
        return [done[id(item)] for item in items if not isinstance(item, Marker)]

    def _open(self, patience: float) -> sqlite3.Connection:
        self._connection = open_for_writing(self._path, patience=patience)
        self._file = self._path.stat()
        return self._connection

    def _is_current(self) -> bool:
        try:
            return self._file is not None and os.path.samestat(self._file, self._path.stat())
        except OSError:
            return False

    def _append(self, contents: list[tuple[Any, ...]]) -> None:
        # The file may have been removed or replaced meanwhile.
        if self._connection is not None and not self._is_current():
            self._drop_connection()
        connection = self._connection or self._open(min(self._patience, _LONGEST_PAUSE))
        with transaction(connection):
            head = _head(connection)
            if head is None:
                raise AuditError(
                    phrase("The head of the audit log {path} was removed. Move the file away.", path=self._path)
                )
            seq, last_hash = head
            lost = None if head == self._known or _holds(connection, self._known) else self._known
            if lost is not None:
                contents = [gap_content(time.time(), *lost, seq), *contents]
            rows: list[tuple[Any, ...]] = []
            for content in contents:
                seq += 1
                row = seal(seq, content, last_hash)
                last_hash = row[-1]
                rows.append(row)
            connection.executemany(INSERT, rows)
            connection.execute("UPDATE head SET seq = ?, hash = ?", (seq, last_hash))
        self._known = (seq, last_hash)
        if lost is not None:
            said = (
                f"The audit log {self._path} was removed or replaced while Ferrule was running: it ended at row "
                f"{lost[0]}, and the one in its place at row {head[0]}. `ferrule audit verify` names the gap; calls "
                "are recorded again from here on."
            )
            _log.warning("%s", said)
            self.notes.append(said)

    def _report(self, problem: Exception) -> None:
        """Tell everyone who waits; keep the records themselves."""
        waiting = [item for item in self._held if isinstance(item, (Awaited, Marker))]
        records = [item.record if isinstance(item, Awaited) else item for item in self._held
                   if not isinstance(item, Marker)]  # fmt: skip
        if any(isinstance(item, Stop) for item in self._held):
            fate = phrase("are lost, because the log was closed")
        else:
            fate = phrase("are waiting. Free some space or repair it, and they will be written")
        error = AuditError(
            phrase(
                "The audit log {path} cannot be written ({problem}); {count} records {fate}.",
                path=self._path,
                problem=problem,
                count=len(records),
                fate=fate,
            )
        )
        if self.failing is None:
            _log.error("%s", error)
            self.problems.append(WriteProblem(time.time(), str(problem), len(records)))
        self.failing = error
        self._held = deque(records)
        self._contents.clear()
        self._tell(waiting, error)

    def _tell(self, items: list[Item], error: AuditError | None) -> None:
        for item in items:
            if isinstance(item, Marker):
                self._stopping = self._stopping or isinstance(item, Stop)
                item.pass_on(error)
        settle((item.future, error) for item in items if isinstance(item, Awaited))

    def _drop_connection(self) -> None:
        """A connection that failed may be stuck; the next attempt opens the file anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sum_up(self) -> None:
        """Keep what statistics need of whole blocks of rows; those of an older file are made up for bit by bit.

        Rows that wait to be written come first, while no more blocks are left behind than one turn makes up for.
        """
        behind = self._known[0] // BLOCK - self._summed
        if self._connection is None or behind <= (BLOCKS_A_TURN if self._held else 0):
            return
        try:
            self._summed = self._known[0] // BLOCK - add_missing_blocks(self._connection)
        except sqlite3.Error as problem:  # statistics read the rows themselves then
            _log.warning("Rows of the audit log %s could not be summed up: %s", self._path, problem)
            self._summed = self._known[0] // BLOCK

    def _apply_retention(self) -> None:
        if self._retention == KEEP_ALL or self._connection is None:
            return
        if self._since_retention < self._retention_rows and time.monotonic() < self._retention_due:
            return
        try:
            remove_old_rows(self._connection, self._retention)
        except (sqlite3.Error, AuditError) as problem:
            # Keeping rows too long harms nobody today; it is said, and tried again at the next turn.
            _log.warning("Old rows of the audit log %s could not be removed: %s", self._path, problem)
            self.problems.append(WriteProblem(time.time(), f"retention: {problem}", 0))
        self._since_retention = 0
        self._retention_due = time.monotonic() + _RETENTION_SECONDS


def _head(connection: sqlite3.Connection) -> tuple[int, str] | None:
    return connection.execute("SELECT seq, hash FROM head").fetchone()


def _holds(connection: sqlite3.Connection, known: tuple[int, str]) -> bool:
    """Whether a log has the row that is known to have been its last once; what retention removed does not count."""
    seq, digest = known
    found: tuple[str] | None = connection.execute("SELECT hash FROM calls WHERE seq = ?", (seq,)).fetchone()
    if found is not None:
        return found[0] == digest
    (removed_to,) = connection.execute("SELECT seq FROM checkpoint").fetchone() or (0,)
    return seq <= removed_to


def _content(record: CallRecord) -> tuple[Any, ...]:
    try:
        return content_of(record)
    except Exception as problem:  # noqa: BLE001 - made by hand, with fields of the wrong type: a row all the same
        _log.exception("A record could not be read; its place in the audit log says so.")
        return unreadable_content(time.time(), f"The record could not be read: {type(problem).__name__}.")


def settle(outcomes: Iterable[tuple[asyncio.Future[Any], Any]]) -> None:
    """From another thread, give futures their results or exceptions: each loop is told once of all of its own. On one
    that is closed nobody waits any more.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for future, result in outcomes:
        by_loop.setdefault(future.get_loop(), []).append((future, result))
    for loop, pairs in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, pairs)


def _resolve(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in pairs:
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)
