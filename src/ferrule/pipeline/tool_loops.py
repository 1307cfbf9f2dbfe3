"""Event loops in threads of their own: one for async tools, and one for programs without a loop (`run_sync`).

An async tool that blocks its event loop stops everything else on it. A server therefore runs tools on another loop than
its own, so that it can abandon any tool and answer. All tools share one loop, because a lock or a client belongs to the
loop that it was first used on. While that loop is blocked, new calls start on another one.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ferrule.core.context import running_loop
from ferrule.core.loops import (
    LoopInbox,
    Posted,
    SyncCaller,
    elsewhere,
    loops_for_sync,
    sync_caller,
    wait_for,
)
from ferrule.pipeline.loop_watch import inside, watch_of
from ferrule.pipeline.threads import Abandoned, Job, TooManyStuck, WorkerPool, place_released

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextvars import Context

    from ferrule.core.context import ToolContext

T = TypeVar("T")

logger = logging.getLogger("ferrule.calls")

PATIENCE = 2.0
"""Seconds that calls wait for a blocked loop before they start on another. Locks and clients that belong to the first
loop do not work there, so a hiccup must not be enough.
"""
_MOST_LOOPS = 32
"""Loops that may be blocked before further calls are refused, like `Limits.stuck_threads` for threads."""
_SECONDS_TO_END = 1.0


class LoopThread:
    """An event loop that runs until the program ends, in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_DaemonThreads(self.loop))
        if not hasattr(asyncio.Task, "get_context"):
            self.loop.set_task_factory(_TaskWithContext)
        self.watch = watch_of(self.loop)
        self.queue: set[WaitingForLoop] = set()
        """Calls that have not started yet."""
        self._over = False
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while not self._over:
            try:
                self.loop.run_forever()  # returns when a tool calls `loop.stop()`, but other calls still need the loop
            except BaseException as error:  # noqa: BLE001 - SystemExit in one tool's task must not end the others
                if not isinstance(error, Abandoned):  # that one came too late for its tool
                    logger.warning("A task that a tool started raised %s", type(error).__name__)

    def end(self) -> None:
        """At the end of the program: cancel what still runs, and give it a moment to clean up."""
        if self.watch.silent:
            return
        try:
            Posted(_cancel_all(), self.loop).ended.result(_SECONDS_TO_END)
        except Exception as error:  # a tool's clean-up failed or takes too long
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
    """Has `get_context`, from which the watch tells which call a task belongs to. Python 3.12 has it in every task."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> None:
        self._context = options["context"] = options.get("context") or copy_context()
        super().__init__(work, loop=loop, **options)

    def get_context(self) -> Context:
        return self._context


class _DaemonThreads(ThreadPoolExecutor):
    """Runs what `asyncio.to_thread` is given on these loops. At exit Python would wait for its own executor."""

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
            except BaseException as error:  # noqa: BLE001 - for the code that waits
                future.set_exception(error)

        self._pool.submit(Job(work, self._inbox, lambda _outcome: None))
        return future


class WaitingForLoop(Protocol):
    """A call that waits to start on one of the tools' loops."""

    def put(self, place: LoopThread) -> None:
        """Start on this loop instead of any earlier one, unless it has started."""
        ...


class ToolLoops:
    """The loops that async tools run on: one, and others for as long as it is blocked."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without loops, also after a fork, which does not copy their threads."""
        self._lock = threading.Lock()
        self._places: list[LoopThread] = []

    def places(self) -> list[LoopThread]:
        with self._lock:
            return list(self._places)

    def _open(self) -> LoopThread:
        if len(self._places) >= _MOST_LOOPS:
            raise TooManyStuck(f"{_MOST_LOOPS} event loops are blocked by other calls")
        place = LoopThread(f"ferrule-tools-{len(self._places) + 1}")
        place.watch.on_silence = lambda: self._move_queue_of(place)
        self._places.append(place)
        return place

    def submit(self, call: WaitingForLoop) -> None:
        """Start a call on the first loop that is not blocked."""
        with self._lock:
            free = (place for place in self._places if place.watch.silent < PATIENCE)
            place = next(free, None) or self._open()
        call.put(place)

    def _move_queue_of(self, place: LoopThread) -> None:
        """Start the calls that wait for a blocked loop on another one."""
        if place.watch.silent >= PATIENCE:
            with suppress(TooManyStuck):
                for call in list(place.queue):
                    self.submit(call)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something other than a call, such as a plugin's start, on the first of the tools' loops."""

        async def there() -> T:
            return await work()

        with self._lock:
            place = self._places[0] if self._places else self._open()
        key = object()
        place.watch.enter(key)
        try:
            return await elsewhere(there(), place.loop, wait_when_cancelled=False)
        finally:
            place.watch.leave(key)


tool_loops = ToolLoops()
"""Shared by all runtimes of the process, like the locks and clients that tools keep in their modules."""
_sync: list[LoopThread] = []  # the loop for sync calls, once there is one
_lock = threading.Lock()
_before_fork: list[LoopThread] = []  # kept, because closing the parent's loops here could disturb them there
_ending = threading.Event()


def sync_loop() -> asyncio.AbstractEventLoop:
    """The loop for `run_sync` and the like, started at first use."""
    with _lock:
        if not _sync:
            _sync.append(LoopThread("ferrule-sync"))
            loops_for_sync.add(_sync[0].loop)
        return _sync[0].loop


def run_and_wait(start: Callable[[], Coroutine[Any, Any, T]], name: str, parent: ToolContext | None = None) -> T:
    """Run a coroutine on another thread's loop and block until it has ended: on the loop of the call that makes it, or
    else on the one for sync calls. If that call is cancelled, so is the coroutine.
    """
    here, found = running_loop(), inside.get()
    if here is not None and (found is not None or parent is not None):
        tool = found[0].tool.name if found is not None else "that calls it"
        raise RuntimeError(
            f"`{name}` would block the event loop of the async tool `{tool}`. Write `await context.call(...)` instead."
        )
    if here is not None and any(one.loop is here for one in (*_sync, *tool_loops.places())):
        raise RuntimeError(f"`{name}` would block Ferrule's own event loop. Write `await runtime.run(...)` instead.")
    with place_released() as is_abandoned:
        around = parent or (found[1] if found is not None else None)
        if parent is not None:
            posted = Posted(start(), parent.loop or sync_loop())
        else:
            tools: tuple[str, ...] = ()
            if found is not None:
                tools = around.lineage if around is not None else (found[0].tool.name,)
            before, context = sync_caller.get() or SyncCaller(), copy_context()
            context.run(sync_caller.set, SyncCaller((*before.tools, *tools), here or before.loop))
            posted = context.run(lambda: Posted(start(), sync_loop()))
        try:
            with around.cancellation.telling(posted.cancel) if around is not None else nullcontext():
                return wait_for(posted, is_abandoned)
        except asyncio.CancelledError:
            if _ending.is_set():
                raise SystemExit from None  # ends this thread without a traceback
            raise


@atexit.register
def _end() -> None:
    _ending.set()
    for place in (*_sync, *tool_loops.places()):
        place.end()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _before_fork.extend((*_sync, *tool_loops._places))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    tool_loops.reset()
    _sync.clear()
    loops_for_sync.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
