"""Stage seven: every call leaves exactly one record. Also listeners, which watch calls while they run (P9)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import WeakSet

from ferrule.core.events import CallEvent, PartialOutput, Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container, Iterable
    from contextlib import AbstractContextManager

    from ferrule.core.call import RawCall
    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.stages import CallRecord


E = TypeVar("E")


class Recorder(Protocol):
    """Keeps records. `record` must not block; if it returns an awaitable, that is awaited before the call returns."""

    def record(self, record: CallRecord) -> Awaitable[None] | None:
        """Take the record of a call that has ended."""
        ...


@runtime_checkable
class Watcher(Protocol):
    """A recorder that is also told when a call is looked up and when its tool starts."""

    def looked_up(self, call: RawCall, session: Session, *, found: bool) -> None: ...

    def started(self, invocation: Invocation, session: Session) -> None: ...


@runtime_checkable
class Noting(Protocol):
    """A recorder with notes for the user or the model, which are added to the next result, the oldest first."""

    notes: deque[str]


class Span(Protocol):
    """The trace of one execution."""

    def result(self, value: Any) -> None:
        """Note the tool's value."""
        ...

    def waited(self, user: float, turn: float) -> None:
        """Note how many seconds the call has waited: for the user's answers, and for its turn."""
        ...


class Tracer(Protocol):
    """Wraps a tool's execution, for spans."""

    def span(self, invocation: Invocation, session: Session) -> AbstractContextManager[Span]: ...


logger = logging.getLogger("ferrule.calls")


class Recording:
    """The recorders of a runtime. One that fails or is slow harms neither the call nor the others."""

    def __init__(self, recorders: Iterable[Recorder]) -> None:
        if hasattr(recorders, "record"):
            raise TypeError(f"Recorders come in a list, also where there is one: write recorders=[{recorders!r}].")
        self.recorders = tuple(recorders)
        for one in self.recorders:
            if not callable(getattr(one, "record", None)):
                raise TypeError(f"{one!r} is not a recorder: it has no method `record`.")
        self.watchers = tuple(one for one in self.recorders if isinstance(one, Watcher))
        self._is_watched = any(not getattr(one, "for_debugging", False) for one in self.watchers)
        self.noting = tuple(one.notes for one in self.recorders if isinstance(one, Noting))
        self._pending: set[asyncio.Future[Any]] = set()

    @property
    def is_watched(self) -> bool:
        """Whether any watcher needs to be told. Those that only log for debugging need it only at that level."""
        return self._is_watched or logger.isEnabledFor(logging.DEBUG)

    def take_notes(self) -> list[str]:
        return [notes.popleft() for notes in self.noting for _ in range(len(notes))]

    def tell(self, what: str, *about: Any, **more: Any) -> None:
        """Call a method of all watchers."""
        for watcher in self.watchers:
            try:
                getattr(watcher, what)(*about, **more)
            except KeyboardInterrupt:
                raise
            except BaseException:
                logger.exception("%s failed on %s", type(watcher).__name__, what)

    def record(self, record: CallRecord) -> list[Awaitable[Any]]:
        """Stage seven. What it returns must be given to `settle` before the result is returned."""
        waiting: list[Awaitable[Any]] = []
        for recorder in self.recorders:
            try:
                pending = recorder.record(record)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                logger.exception("Call %s could not be recorded by %s", record.call_id, type(recorder).__name__)
                waiting.append(_failed(error))
                continue
            if pending is not None and isinstance(pending, Awaitable):  # pyright: ignore[reportUnnecessaryIsInstance]
                waiting.append(pending)
        return waiting

    async def settle(self, waiting: list[Awaitable[Any]], timeout: float | None = None) -> BaseException | None:
        """Wait for recorders that take time, and return the first failure. Cancelling the wait does not cancel them."""
        futures = [asyncio.ensure_future(_failure_of(one)) for one in waiting]
        for future in futures:
            self._pending.add(future)
            future.add_done_callback(self._note)
        done, _ = await asyncio.wait(futures, timeout=timeout)
        return next((error for one in done if not one.cancelled() and (error := one.result()) is not None), None)

    def _note(self, future: asyncio.Future[Any]) -> None:
        self._pending.discard(future)
        if not future.cancelled() and (error := future.result()) is not None:
            logger.error("A call could not be recorded", exc_info=error)


async def _failed(error: BaseException) -> None:
    raise error


async def _failure_of(waiting: Awaitable[Any]) -> BaseException | None:
    """What a recorder raised. Not raised by its task: SystemExit there would end the whole loop."""
    try:
        await waiting
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - anything that a recorder raises
        ours = error.__traceback__
        return error.with_traceback(ours and ours.tb_next)  # the recorder's own frames; a future has none
    return None


_BACKLOG = 1000


_SUBSCRIBING = threading.RLock()


class Listeners:
    """The listeners of a runtime, after those of the runtime `above` it, which it was made from. One that fails is
    logged, and harms neither the call nor the others.
    """

    def __init__(self, above: Listeners | None = None) -> None:
        self.all: tuple[Callable[[CallEvent], None], ...] = ()
        self.below: WeakSet[Listeners] | None = None
        if above is not None:
            with _SUBSCRIBING:
                self.all = above.all
                above.below = WeakSet() if above.below is None else above.below
                above.below.add(self)

    def subscribe(self, listener: Callable[[CallEvent], None]) -> Callable[[], None]:
        entry = partial(listener)  # of its own, also for a listener that subscribes twice
        self.change(lambda listeners: (*listeners, entry))
        return lambda: self.change(lambda listeners: tuple(one for one in listeners if one is not entry))

    def change(self, changed: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
        with _SUBSCRIBING:
            self.all = changed(self.all)
            for one in self.below or ():
                one.change(changed)

    def emit(self, event: CallEvent) -> None:
        for listener in self.all:
            try:
                listener(event)
            except KeyboardInterrupt:
                raise
            except BaseException:
                logger.exception("A listener failed on %s", type(event).__name__)


class Emitter:
    """Passes one call's reports to the listeners, on the loop's own thread.

    Another thread that reports faster than the loop can pass them on waits a little, so that memory stays bounded. Once
    the call is over, reports of a tool that still runs are dropped.
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
                return  # the loop is closed

    def _deliver(self, event: CallEvent) -> None:
        self._room.release()
        if not self._closed:
            self._listeners.emit(event)

    def close(self) -> None:
        self._closed = True


class EventQueue(Generic[E]):
    """Events for a reader, of all calls or `only` of some. If the reader is slow, the oldest progress and partial
    outputs are dropped; dropped outputs are counted.
    """

    def __init__(self, only: Container[str] | None = None) -> None:
        self._only = only
        self._events: deque[E] = deque()
        self._dropped: dict[str, int] = {}
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, event: E) -> None:
        if self._only is not None and getattr(event, "call_id", "") not in self._only:
            return
        if len(self._events) >= _BACKLOG and isinstance(event, (Progress, PartialOutput)):
            self._make_room()
        self._events.append(event)
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def next(self) -> E | None:
        """The oldest event; None when closed and empty."""
        while not self._events:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        event = self._events.popleft()
        if isinstance(event, PartialOutput) and (dropped := self._dropped.pop(event.call_id, 0)):
            return replace(event, dropped=event.dropped + dropped)
        return event

    def _make_room(self) -> None:
        for position, event in enumerate(self._events):
            if isinstance(event, (Progress, PartialOutput)):
                if isinstance(event, PartialOutput):
                    self._dropped[event.call_id] = self._dropped.get(event.call_id, 0) + 1 + event.dropped
                del self._events[position]
                return


async def stream(
    ids: set[str], start: Callable[[Callable[[CallEvent], None]], Awaitable[Any]]
) -> AsyncIterator[CallEvent]:
    """Yield the events of the calls that `start` runs with a listener of their own, until all are done. Closing the
    stream stops them.
    """
    queue: EventQueue[CallEvent] = EventQueue(ids)

    async def work() -> None:
        try:
            await start(queue.put)
        finally:
            queue.close()

    task = asyncio.ensure_future(work())
    try:
        while (event := await queue.next()) is not None:
            yield event
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
