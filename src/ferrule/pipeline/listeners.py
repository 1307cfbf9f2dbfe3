"""Who watches calls while they run, and the stream of events for one set of calls (P9)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferrule.core.events import CallEvent, Done, Partial, Pending

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

logger = logging.getLogger("ferrule.calls")

_BACKLOG = 1000


class Listeners:
    """The subscribers of a runtime. One that fails is logged, and harms nobody."""

    def __init__(self) -> None:
        self.all: tuple[Callable[[CallEvent], None], ...] = ()

    def subscribe(self, listener: Callable[[CallEvent], None]) -> Callable[[], None]:
        self.all = (*self.all, listener)

        def unsubscribe() -> None:
            self.all = tuple(one for one in self.all if one is not listener)

        return unsubscribe

    def emit(self, event: CallEvent) -> None:
        for listener in self.all:
            try:
                listener(event)
            except Exception:
                logger.exception("A listener failed on %s", type(event).__name__)

    def emitter(self) -> Emitter:
        """What one call's context reports through."""
        return Emitter(self)


class Emitter:
    """Takes one call's reports: straight on on the loop's own thread, handed over from any other.

    A thread that reports faster than the loop can listen waits a little, so that memory stays flat. Once closed it
    is deaf, so that a tool that goes on after its call is over adds nothing to what was said.
    """

    __slots__ = ("_closed", "_home", "_listeners", "_loop", "_room")

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._room = threading.Semaphore(_BACKLOG)
        self._closed = False

    def __call__(self, event: CallEvent) -> None:
        if self._closed or not self._listeners.all:
            return
        if threading.get_ident() == self._home:
            self._listeners.emit(event)
        elif self._room.acquire(timeout=1.0):
            try:
                self._loop.call_soon_threadsafe(self._deliver, event)
            except RuntimeError:
                return  # the loop is closed: nobody listens any more

    def _deliver(self, event: CallEvent) -> None:
        self._room.release()
        if not self._closed:
            self._listeners.emit(event)

    def close(self) -> None:
        self._closed = True


class Backlog:
    """Events of some calls, waiting to be read. When nobody reads, the oldest partial output gives way."""

    def __init__(self, ids: set[str]) -> None:
        self._ids = ids
        self._events: deque[CallEvent] = deque()
        self._dropped: dict[str, int] = {}
        self._ready = asyncio.Event()
        self.closed = False

    def add(self, event: CallEvent) -> None:
        if event.call_id not in self._ids:
            return
        if len(self._events) >= _BACKLOG and not isinstance(event, (Pending, Done)):
            self._make_room()
        self._events.append(event)
        self._ready.set()

    def _make_room(self) -> None:
        for position, event in enumerate(self._events):
            if not isinstance(event, (Pending, Done)):
                self._dropped[event.call_id] = self._dropped.get(event.call_id, 0) + 1
                del self._events[position]
                return

    def close(self) -> None:
        self.closed = True
        self._ready.set()

    async def next(self) -> CallEvent | None:
        """The oldest event; None when closed and empty."""
        while not self._events:
            if self.closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        event = self._events.popleft()
        if isinstance(event, Partial) and (dropped := self._dropped.pop(event.call_id, 0)):
            return replace(event, dropped=dropped)
        return event


async def stream(listeners: Listeners, ids: set[str], start: Callable[[], Awaitable[Any]]) -> AsyncIterator[CallEvent]:
    """Events of the calls that `start` runs, until all are done; closing the stream stops them."""
    backlog = Backlog(ids)
    unsubscribe = listeners.subscribe(backlog.add)

    async def work() -> None:
        try:
            await start()
        finally:
            backlog.close()

    task = asyncio.ensure_future(work())
    try:
        while (event := await backlog.next()) is not None:
            yield event
        await task
    finally:
        unsubscribe()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
