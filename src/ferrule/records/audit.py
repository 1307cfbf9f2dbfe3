"""The audit log: every call, refusals included, in one SQLite file that shows when it was tampered with."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from ferrule.core.phrases import phrase
from ferrule.records.database import AuditError
from ferrule.records.writer import KEEP_ALL, Awaited, Marker, Retention, Stop, WriteProblem, Writer

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ferrule.pipeline.stages import CallRecord

__all__ = ["AuditError", "AuditLog", "Retention", "WriteProblem"]

_log = logging.getLogger("ferrule.audit")

_LINGER = 0.1
_AT_EXIT_SECONDS = 5.0


class AuditLog:
    """A recorder that appends every record to a database file. Use it from any thread and any event loop.

    `acknowledge="queued"` hands the record to the writer thread and goes on; a crash of the process can lose
    the last tenth of a second. `acknowledge="committed"` returns an awaitable that completes once
    the row is safely on disk, so no result is given for a call that is not on record.

    Nothing is dropped. When `max_queue` records wait for a slow disk, `record` returns an awaitable in either
    mode, and callers slow down to the speed of the disk. When the disk cannot be written for `patience`
    seconds, those who wait get an `AuditError`, the problem is logged and listed in `problems`, and the
    records are kept and tried again; once `max_queue` of them are kept, `record` raises. Where no event loop
    runs, waiting means blocking.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        acknowledge: Literal["queued", "committed"] = "queued",
        retention: Retention = KEEP_ALL,
        max_queue: int = 50_000,
        patience: float = 5.0,
    ) -> None:
        if acknowledge not in ("queued", "committed"):
            raise ValueError(f'acknowledge is "queued" or "committed", not {acknowledge!r}.')
        self.path = Path(path)
        self._always_wait = acknowledge == "committed"
        self._retention = retention
        self._max_queue = max_queue
        self._patience = patience
        self._closed = False
        self._forked = False
        self._start()
        atexit.register(self._at_exit)
        _open_logs.add(self)

    def _start(self) -> None:
        self._writer = Writer(
            self.path,
            retention=self._retention,
            patience=self._patience,
            linger=0.0 if self._always_wait else _LINGER,
            room=self._max_queue,
        )
        self.notes = self._writer.notes
        """What the next result says of the log: that it was removed, and which rows were lost."""
        self._put = self._writer.queue.put
        self._size = self._writer.queue.qsize
        self._writer.thread.start()

    def record(self, record: CallRecord) -> Awaitable[None] | None:
        """Take one record. This is on the way of every call, so it does nothing but put it in a queue."""
        if self._always_wait or self._size() >= self._writer.room:
            return self._record_and_wait(record)
        self._put(record)
        return None

    def _record_and_wait(self, record: CallRecord) -> Awaitable[None] | None:
        if self._closed:
            raise AuditError(phrase("The audit log {path} is closed.", path=self.path))
        if self._forked:
            # A forked child has no writer thread; the parent writes what that still held. Closing inherited SQLite
            # connections can damage the file, so the old writer is kept alive.
            self._inherited = self._writer
            self._forked = False
            self._start()
            return self.record(record)
        writer = self._writer
        if writer.failing is not None and self._size() >= writer.room:
            raise writer.failing
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._put(record)
            self.flush()
            return None
        future: asyncio.Future[None] = loop.create_future()
        self._put(Awaited(record, future))
        if not self._always_wait:
            writer.hurry.set()
        return future

    @property
    def problems(self) -> tuple[WriteProblem, ...]:
        """When writing failed for longer than `patience`, oldest first; empty in good times."""
        return tuple(self._writer.problems)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything recorded so far is committed; raises `AuditError` when it cannot be."""
        if self._closed or self._forked:
            return
        self._wait_for(Marker(), timeout)

    def close(self, timeout: float | None = None) -> None:
        """Write what is queued and stop. Raises `AuditError` if something could not be written."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self._at_exit)
        if self._forked:
            return
        self._writer.refuse()
        self._wait_for(Stop(), timeout)
        self._writer.thread.join(timeout)

    def _wait_for(self, marker: Marker, timeout: float | None) -> None:
        self._put(marker)
        self._writer.hurry.set()
        if not marker.reached.wait(timeout):
            raise AuditError(
                phrase(
                    "The audit log {path} was not written within {timeout} seconds.", path=self.path, timeout=timeout
                )
            )
        if marker.error is not None:
            raise marker.error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at_exit(self) -> None:
        try:
            self.close(_AT_EXIT_SECONDS)
        except AuditError as problem:
            _log.error("At exit: %s", problem)

    def _note_fork(self) -> None:
        if not self._closed:
            self._forked = True
            self._writer.refuse()


_open_logs: weakref.WeakSet[AuditLog] = weakref.WeakSet()


def _note_forks() -> None:
    for log in _open_logs:
        log._note_fork()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_forks)
