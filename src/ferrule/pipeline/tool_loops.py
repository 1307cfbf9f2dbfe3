"""The event loop that async tools run on, in a thread of its own, and the one for programs that have no loop.

An async tool that blocks its event loop stops everything else on it. A program that serves others therefore runs tools
on another loop than its own: whatever a tool does, the program can leave it behind and answer. All tools share one
loop, because a lock or a client belongs to the loop that it was first used on. Only while that loop does not answer do
calls start on a fresh one.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from ferrule.core.context import running_loop
from ferrule.core.loops import (
    LoopInbox,
    Posted,
    SyncCaller,
    elsewhere,
    loops_for_sync,
    start_task,
    sync_caller,
    wait_for,
)
from ferrule.pipeline.loop_watch import inside, watch_of
from ferrule.pipeline.threads import Abandoned, Job, Outcome, TooManyStuck, WorkerPool, interrupt, lent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ferrule.core.context import ToolContext
    from ferrule.core.tool import Invocation

T = TypeVar("T")

logger = logging.getLogger("ferrule.calls")

PATIENCE = 2.0
"""Seconds that calls wait for a blocked loop before they start on a fresh one. Moving at once would break what belongs
to the first loop after every hiccup.
"""
_MOST_LOOPS = 32
"""Blocked loops that are left behind before further calls are refused, as `Limits.stuck_threads` says of threads."""
_SECONDS_TO_END = 1.0


class LoopThread:
    """An event loop that runs until the program ends, in a thread that never keeps it from ending."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_DaemonThreads(self.loop))
        if sys.version_info < (3, 12):
            self.loop.set_task_factory(_TaskWithContext)
        self.watch = watch_of(self.loop)
        self.queue: set[LoopJob] = set()
        """Jobs that have not started yet."""
        self._over = False
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while not self._over:
            try:
                self.loop.run_forever()  # also ends when a tool calls `loop.stop()`, which is not for it to decide
            except BaseException as error:  # noqa: BLE001 - what a task of a tool raises must not end all others
                if not isinstance(error, Abandoned):  # it was meant for a tool that has just ended by itself
                    logger.warning("A task that a tool started raised %s", type(error).__name__)

    def end(self) -> None:
        """At the end of the program: cancel what still runs here, and give it a moment to clean up."""
        if self.watch.silent:
            return
        try:
            Posted(_cancel_all(), self.loop).ended.result(_SECONDS_TO_END)
        except Exception as error:  # raised by a tool's own clean-up, and there is no time left to wait for it
            logger.debug("Calls did not end with the program", exc_info=error)
        self._over = True
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(_SECONDS_TO_END)
        if not self.thread.is_alive():
            self.loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_SECONDS_TO_END / 2)
    await asyncio.get_running_loop().shutdown_asyncgens()


class _TaskWithContext(asyncio.Task[Any]):
    """Lets the watch see for which call a task runs; from Python 3.12 on every task has `get_context`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> None:
        self._context = options["context"] = options.get("context") or copy_context()
        super().__init__(work, loop=loop, **options)


class _DaemonThreads(ThreadPoolExecutor):
    """What `asyncio.to_thread` uses on these loops. Python would wait for its own threads when the program ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int = 64) -> None:
        super().__init__(1)
        self._pool = WorkerPool(size, size)
        self._inbox = LoopInbox(loop)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whatever it raised is for the code that waits
                future.set_exception(error)

        self._pool.submit(Job(work, self._inbox, lambda _outcome: None))
        return future


class LoopJob:
    """One async tool at work on the tools' loop, and the event loop that waits for its outcome.

    `start` makes the coroutine; `settle` is called with the outcome, or with None if the tool's task was cancelled.
    """

    def __init__(
        self,
        invocation: Invocation,
        start: Callable[[], Coroutine[Any, Any, Outcome]],
        inbox: LoopInbox,
        settle: Callable[[Outcome | None], None],
    ) -> None:
        self.invocation = invocation
        self.begun = False
        self.over = False
        """Whether it has ended, or will never begin."""
        self.blocked = 0.0
        """For how many seconds it blocked its loop, once it has ended or was abandoned."""
        self._start, self._inbox, self._settle = start, inbox, settle
        self._context = copy_context()
        self._lock = threading.Lock()
        self._place: LoopThread | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._made = monotonic()
        self._uncounted = 0.0

    def put(self, place: LoopThread) -> None:
        """Start it on this loop, and on no other, unless it has started already."""
        with self._lock:
            if self.begun or self.over:
                return
            self._leave()
            self._place = place
            place.watch.enter(self.invocation)
            place.queue.add(self)
        place.loop.call_soon_threadsafe(self._begin, place, context=self._context)

    def _leave(self) -> float:
        if self._place is None:
            return 0.0
        self._place.queue.discard(self)
        return self._place.watch.leave(self.invocation)

    def _begin(self, place: LoopThread) -> None:
        with self._lock:
            if self._place is not place or self.over or self.begun:
                return
            self.begun = True
            place.queue.discard(self)
            self._uncounted = monotonic() - self._made - place.watch.lost(self.invocation)
        self._task = start_task(self._start(), place.loop)
        if self._task.done():
            self._end(self._task)
        else:
            self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Outcome]) -> None:
        self.over = True
        if self._place is not None and self._place.watch.silent:
            self._place.watch.answer()  # the call that comes next must find the loop free
        self.blocked = self._leave()
        self._inbox.post(self._settle, None if task.cancelled() else task.result())

    @property
    def silent(self) -> float:
        """For how many seconds its loop has not answered; 0 if it does."""
        return self._place.watch.silent if self._place is not None else 0.0

    @property
    def culprit(self) -> Invocation | None:
        """The call that blocks its loop now."""
        return self._place.watch.culprit if self._place is not None else None

    def excused(self) -> float:
        """Seconds in which it could not go on, because it had not started or another call blocked its loop."""
        if self._place is None or not self.begun:
            return monotonic() - self._made
        return self._uncounted + self._place.watch.lost(self.invocation)

    def cancel(self) -> None:
        """Cancel its task as soon as its loop moves."""
        if self._place is not None:
            self._place.loop.call_soon_threadsafe(lambda: self._task is not None and self._task.cancel())

    def abandon(self, put_down: Callable[[asyncio.Task[Outcome]], None]) -> bool:
        """Never wait for it: interrupt it if it blocks its loop, otherwise have it `put_down` there. False if it had
        not even started, and now never will.
        """
        with self._lock:
            place = self._place
            if not self.begun or place is None:
                self.over = True
                self._leave()
                return False
            if place.watch.silent and place.watch.running_call() is self.invocation and place.thread.ident is not None:
                self.blocked = place.watch.silent
                place.watch.report()
                interrupt(place.thread.ident)
                return True
        place.loop.call_soon_threadsafe(lambda: self._task is None or self._task.done() or put_down(self._task))
        return True


class ToolLoops:
    """The loops that a program's async tools run on: one, and fresh ones for as long as it is blocked."""

    def __init__(self) -> None:
        self.start_afresh()

    def start_afresh(self) -> list[LoopThread]:
        """Begin without loops; returns those there were."""
        before = getattr(self, "_places", [])
        self._lock = threading.Lock()
        self._places: list[LoopThread] = []
        return before

    def places(self) -> list[LoopThread]:
        with self._lock:
            return list(self._places)

    @property
    def home(self) -> LoopThread:
        """The loop that tools run on unless it is blocked, and on which plugins are started and ended."""
        with self._lock:
            return self._places[0] if self._places else self._open()

    def _open(self) -> LoopThread:
        place = LoopThread(f"ferrule-tools-{len(self._places) + 1}")
        place.watch.on_silence = lambda: self._move_queue_of(place)
        self._places.append(place)
        return place

    def submit(self, job: LoopJob) -> None:
        """Start a job on the first loop that is not blocked."""
        with self._lock:
            for place in self._places:
                if place.watch.silent < PATIENCE:
                    break
            else:
                if len(self._places) >= _MOST_LOOPS:
                    raise TooManyStuck(f"{_MOST_LOOPS} event loops are blocked by other calls")
                place = self._open()
        job.put(place)

    def _move_queue_of(self, place: LoopThread) -> None:
        """Abandon a loop that has not answered for too long: what has not started there starts elsewhere."""
        if place.watch.silent >= PATIENCE:
            with suppress(TooManyStuck):
                for job in list(place.queue):
                    self.submit(job)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something on the home loop that is not a call, such as a plugin's start."""

        async def there() -> T:
            return await work()

        place, key = self.home, object()
        place.watch.enter(key)
        try:
            return await elsewhere(there(), place.loop, wait_when_cancelled=False)
        finally:
            place.watch.leave(key)


tool_loops = ToolLoops()
"""Those of this process. They belong to no runtime, because what tools keep in their modules does not either."""
_sync: list[LoopThread] = []
_lock = threading.Lock()
_of_the_parent: list[LoopThread] = []
_ending = threading.Event()


def sync_loop() -> asyncio.AbstractEventLoop:
    """The loop for calls that `run_sync` and the like make; started at first use."""
    with _lock:
        if not _sync:
            _sync.append(LoopThread("ferrule-sync"))
            loops_for_sync.add(_sync[0].loop)
        return _sync[0].loop


def run_and_wait(start: Callable[[], Coroutine[Any, Any, T]], name: str, parent: ToolContext | None = None) -> T:
    """Run a coroutine on another thread's loop and block until it has ended: on the loop of the call that waits for it,
    or else on the one for sync calls.
    """
    here, found = running_loop(), inside.get()
    if here is not None and (found is not None or parent is not None):
        tool = found[0].tool.name if found is not None else "that calls it"
        raise RuntimeError(
            f"`{name}` would block the event loop of the async tool `{tool}`. Write `await context.call(...)` instead."
        )
    if here is not None and any(one.loop is here for one in (*_sync, *tool_loops.places())):
        raise RuntimeError(f"`{name}` would block Ferrule's own event loop. Write `await runtime.run(...)` instead.")
    with lent():
        if parent is not None:
            posted = Posted(start(), parent.loop or sync_loop())
            with parent.cancellation.telling(posted.cancel):
                return wait_for(posted)
        tools: tuple[str, ...] = ()
        if found is not None:
            invocation, around = found
            tools = around.lineage if around is not None else (invocation.tool.name,)
        before, context = sync_caller.get() or SyncCaller(), copy_context()
        context.run(sync_caller.set, SyncCaller((*before.tools, *tools), here or before.loop))
        try:
            return wait_for(context.run(lambda: Posted(start(), sync_loop())))
        except asyncio.CancelledError:
            if _ending.is_set():  # the program ends, and this thread with it: nothing may be printed about that
                raise SystemExit from None
            raise


@atexit.register
def _end() -> None:
    _ending.set()
    for place in (*_sync, *tool_loops.places()):
        place.end()


def _start_afresh() -> None:
    """After a fork: the threads are not here, and the loops are the parent's. They are kept, so that none is closed."""
    global _lock
    _lock = threading.Lock()
    _of_the_parent.extend((*_sync, *tool_loops.start_afresh()))
    _sync.clear()
    loops_for_sync.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
