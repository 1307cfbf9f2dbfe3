"""Work on another event loop: handed over from a thread or a loop, and waited for until it has really ended."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_SECONDS_BETWEEN_SIGNALS = 0.2


@dataclass(slots=True, frozen=True)
class SyncCaller:
    """Who stands still until a call has ended: the tools it is inside of, and the loop of its thread, if it has one."""

    tools: tuple[str, ...] = ()
    loop: asyncio.AbstractEventLoop | None = None


sync_caller: ContextVar[SyncCaller | None] = ContextVar("ferrule.sync_caller", default=None)
"""Set for all that `run_sync` and its kin start."""
loops_for_sync: set[asyncio.AbstractEventLoop] = set()
"""The loop that they run on, once there is one."""


class Posted(Generic[T]):
    """A coroutine that was handed to a loop, and runs there as a task with the context of whoever handed it over.

    `ended` is settled when the task has ended, and not earlier when it was only told to.
    """

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self.ended: Future[T] = Future()
        self._work = work
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False
        try:
            loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            work.close()
            raise

    def cancel(self) -> None:
        """Tell it to stop. Safe from any thread."""
        self._cancelled = True
        self._loop.call_soon_threadsafe(self._stop)

    def _begin(self) -> None:
        if self._cancelled:
            self._work.close()
            self.ended.set_exception(asyncio.CancelledError())
            return
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.ended.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(task.result())


async def elsewhere(
    work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, *, wait_when_cancelled: bool = True
) -> T:
    """Await a coroutine that runs on another loop. Whoever is cancelled meanwhile waits until it has stopped there,
    unless that loop may never move again.
    """
    caller = sync_caller.get()
    if caller is not None and caller.loop is loop:
        work.close()
        raise RuntimeError(
            "This needs the event loop that `run_sync` blocks while it waits. Write `await runtime.run(...)` instead."
        )
    here = asyncio.get_running_loop()
    over: asyncio.Future[None] = here.create_future()

    def wake(_ended: Future[T]) -> None:
        try:
            here.call_soon_threadsafe(lambda: over.done() or over.set_result(None))
        except RuntimeError:
            return  # this loop is closed: nobody waits any more

    posted = Posted(work, loop)
    posted.ended.add_done_callback(wake)
    again: asyncio.CancelledError | None = None
    while not over.done():
        try:
            await asyncio.wait({over})
        except asyncio.CancelledError as error:
            if again is None:  # told twice, it would be kept from tidying up
                posted.cancel()
            if not wait_when_cancelled:
                raise
            again = error
    if again is not None:
        raise again
    return posted.ended.result()


def wait_for(posted: Posted[T]) -> T:
    """Stand still until it has ended. Ctrl-C is raised when that has stopped it; a second one is at once."""
    try:
        if sys.platform != "win32":
            return posted.ended.result()
        while True:  # a lock that is waited for without an end hears no Ctrl-C there
            try:
                return posted.ended.result(_SECONDS_BETWEEN_SIGNALS)
            except TimeoutError:
                if posted.ended.done():
                    raise
    except BaseException:
        if not posted.ended.done():
            posted.cancel()
            posted.ended.exception()
        raise
