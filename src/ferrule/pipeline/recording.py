"""Hands records to whoever keeps them; one that fails or is slow harms neither the call nor the others."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ferrule.pipeline.record import CallRecord, Noting, Recorder, Watcher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

logger = logging.getLogger("ferrule.calls")


class Recording:
    """The recorders of a runtime, and those of them that also watch calls begin."""

    def __init__(self, recorders: Iterable[Recorder]) -> None:
        self._recorders = tuple(recorders)
        for one in self._recorders:
            if not callable(getattr(one, "record", None)):
                raise TypeError(f"{one!r} is no recorder: it has no method `record`.")
        self.watchers = tuple(one for one in self._recorders if isinstance(one, Watcher))
        self._noting = tuple(one.notes for one in self._recorders if isinstance(one, Noting))
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def has_notes(self) -> bool:
        return any(self._noting)

    def take_notes(self) -> list[str]:
        """What the recorders have to tell besides, for one result to say."""
        return [notes.popleft() for notes in self._noting for _ in range(len(notes))]

    def tell(self, what: str, *about: Any, **more: Any) -> None:
        """Tell the watchers."""
        for watcher in self.watchers:
            try:
                getattr(watcher, what)(*about, **more)
            except Exception:
                logger.exception("%s failed on %s", type(watcher).__name__, what)

    def record(self, record: CallRecord) -> list[Awaitable[Any]]:
        """Stage seven; what it returns must be settled before the result is given."""
        waiting: list[Awaitable[Any]] = []
        for recorder in self._recorders:
            try:
                pending = recorder.record(record)
            except Exception as error:
                logger.exception("Call %s could not be recorded by %s", record.call_id, type(recorder).__name__)
                waiting.append(_failed(error))
                continue
            if pending is not None:
                waiting.append(pending)
        return waiting

    async def settle(self, waiting: list[Awaitable[Any]], timeout: float | None = None) -> BaseException | None:
        """Wait for recorders that take time, and give the first failure. Cancelling the wait does not cancel them."""
        futures = [asyncio.ensure_future(one) for one in waiting]
        for future in futures:
            self._pending.add(future)
            future.add_done_callback(self._note)
        done, _ = await asyncio.wait(futures, timeout=timeout)
        return next((error for one in done if not one.cancelled() and (error := one.exception()) is not None), None)

    def _note(self, future: asyncio.Future[Any]) -> None:
        self._pending.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            logger.error("A call could not be recorded", exc_info=error)


async def _failed(error: Exception) -> None:
    raise error
