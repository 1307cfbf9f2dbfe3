"""Event loops of our own, each in a daemon thread: for async tools, and for programs that have no loop.

An async tool that blocks its event loop stops all that runs on it. A program that serves others therefore runs tools on
a loop apart from its own: whatever a tool does, the program can give up on it and answer. All tools share one loop,
because a lock or a client belongs to the loop that it was first used on. Only while that loop stands still do calls
begin on another.
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
from ferrule.core.loops import Posted, SyncCaller, elsewhere, loops_for_sync, sync_caller, wait_for
from ferrule.pipeline.eager import start_task
from ferrule.pipeline.stalls import STALL, born_inside, inside, watch_of
from ferrule.pipeline.threads import Abandoned, Job, Outcome, TooManyStuck, WorkerPool, interrupt, lent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ferrule.core.context import ToolContext
    from ferrule.core.tool import Invocation

T = TypeVar("T")

logger = logging.getLogger("ferrule.calls")

PATIENCE = 2.0
"""Seconds that calls wait for a loop that stands still before they begin on another."""
_MOST_LOOPS = 32
_SECONDS_TO_END = 1.0


class LoopThread:
    """An event loop that runs until the program ends, in a thread that never keeps it from ending."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_DaemonThreads(self.loop))
        if sys.version_info < (3, 12):
            self.loop.set_task_factory(_noting_the_call)
        self.watch = watch_of(self.loop)
        self._over = False
        self.thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while not self._over:
            try:
                self.loop.run_forever()  # ends where a tool calls `loop.stop()`, which is not for it to decide
            except BaseException as error:  # noqa: BLE001 - what a task of a tool raises must not end all others
                if not isinstance(error, Abandoned):  # which was meant for a tool that has just ended by itself
                    logger.warning("A task that a tool started raised %s", type(error).__name__)

    def end(self) -> None:
        """At the end of the program: what still runs here is cancelled, and has a moment to tidy up."""
        if self.watch.standing:
            return
        try:
            Posted(_cancel_all(), self.loop).ended.result(_SECONDS_TO_END)
        except Exception as error:  # a tool's own tidying up, and no time is left to wait for it
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


def _noting_the_call(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    if (found := inside.get()) is not None:
        born_inside[task] = found[0]
    return task


class _DaemonThreads(ThreadPoolExecutor):
    """What `asyncio.to_thread` uses on these loops. Those of asyncio would be waited for when the program ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, size: int = 64) -> None:
        super().__init__(1)
        self._pool = WorkerPool(size, size)
        self._loop = loop

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whatever it raised is for whoever waits
                future.set_exception(error)

        self._pool.submit(Job(work, self._loop, lambda _outcome: None))
        return future


class LoopJob:
    """One call's async work: handed to a loop of the tools', begun there, and given up when it does not end.

    `start` makes the coroutine; `deliver` hears the outcome, in the loop's thread.
    """

    def __init__(
        self,
        invocation: Invocation,
        start: Callable[[], Coroutine[Any, Any, Outcome]],
        deliver: Callable[[Outcome | None], None],
    ) -> None:
        self.invocation = invocation
        self.begun = False
        self.over = False
        """Whether it has ended, or nobody waits for it any more and it has not begun."""
        self.blocked = 0.0
        """For how many seconds it blocked its loop, once it has ended or was given up."""
        self._start = start
        self._deliver = deliver
        self._context = copy_context()
        self._lock = threading.Lock()
        self._place: LoopThread | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._mark = (0.0, 0.0)
        self._excused = 0.0

    def put(self, place: LoopThread) -> None:
        """Have it begin there, and nowhere else."""
        with self._lock:
            if self.begun or self.over:
                return
            if self._place is not None:
                self._excused = self.excused(0.0)
                self._place.watch.leave(self.invocation)
            self._place, self._mark = place, place.watch.mark()
            place.watch.enter(self.invocation)
        place.loop.call_soon_threadsafe(self._begin, place, context=self._context)

    def excused(self, most: float) -> float:
        """Seconds in which its loop stood still, and not through its fault."""
        if self._place is None:
            return self._excused
        return self._excused + self._place.watch.excused(self.invocation, self._mark, most)

    @property
    def standing(self) -> float:
        """For how long its loop has stood still by now."""
        return self._place.watch.standing if self._place is not None else 0.0

    @property
    def is_blocking(self) -> bool:
        """Whether its loop stands still now, and it is to blame."""
        place = self._place
        return place is not None and place.watch.standing > 0 and place.watch.find_culprit() is self.invocation

    @property
    def blocked_by(self) -> Invocation | None:
        return self._place.watch.blocked_by if self._place is not None else None

    def _begin(self, place: LoopThread) -> None:
        with self._lock:
            if self._place is not place or self.over or self.begun:
                return
            self.begun = True
        began = monotonic()
        self._task = start_task(self._start(), place.loop)
        if monotonic() - began > STALL:
            place.watch.blame(self.invocation, began)
        if self._task.done():
            self._end(self._task)
        else:
            self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Outcome]) -> None:
        self.over = True
        if self._place is not None:
            self.blocked = self._place.watch.leave(self.invocation)
        self._deliver(None if task.cancelled() else task.result())

    def cancel(self) -> None:
        """Tell it to stop, as soon as its loop hears that."""
        with self._lock:
            place = self._place
            if not self.begun or place is None:
                return
        place.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def give_up(self, put_down: Callable[[asyncio.Task[Outcome]], None]) -> bool:
        """Wait for it no longer; False where it had not even begun. One that holds its loop is interrupted at its next
        Python instruction, any other is `put_down` in its loop.
        """
        with self._lock:
            place = self._place
            if not self.begun or place is None:
                self.over = True
                if place is not None:
                    place.watch.leave(self.invocation)
                return False
            if self.is_blocking and place.thread.ident is not None:
                self.blocked = place.watch.standing
                place.watch.tell()
                interrupt(place.thread.ident)
                return True
        place.loop.call_soon_threadsafe(lambda: self._task is None or self._task.done() or put_down(self._task))
        return True


class ToolLoops:
    """The loops that a program's async tools run on. A call begins on the first of them that moves."""

    def __init__(self) -> None:
        self.start_afresh()

    def start_afresh(self) -> list[LoopThread]:
        """Without loops; gives those there were."""
        before = getattr(self, "_places", [])
        self._lock = threading.Lock()
        self._places: list[LoopThread] = []
        self._waiting: list[LoopJob] = []
        return before

    @property
    def home(self) -> LoopThread:
        """The loop that tools run on unless it stands still, and on which plugins are started and ended."""
        with self._lock:
            return self._places[0] if self._places else self._open()

    def _open(self) -> LoopThread:
        place = LoopThread(f"ferrule-tools-{len(self._places) + 1}")
        place.watch.on_stall = self._relieve
        self._places.append(place)
        return place

    def submit(self, job: LoopJob) -> None:
        """Begin a call's work as soon as a loop moves."""
        with self._lock:
            job.put(self._moving())
            self._waiting = [one for one in self._waiting if not one.begun and not one.over]
            self._waiting.append(job)

    def _moving(self) -> LoopThread:
        for place in self._places:
            if place.watch.standing < PATIENCE:
                return place
        if len(self._places) >= _MOST_LOOPS:
            raise TooManyStuck(f"{_MOST_LOOPS} event loops are blocked by other calls")
        return self._open()

    def _relieve(self, standing: float) -> None:
        """A loop has stood still for so long: calls that could not begin on it go to one that moves."""
        if standing < PATIENCE:
            return
        with self._lock:
            self._waiting = [one for one in self._waiting if not one.begun and not one.over]
            for job in self._waiting:
                if job.standing >= PATIENCE:
                    with suppress(TooManyStuck):
                        job.put(self._moving())

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something on the home loop that is no call, such as a plugin's start."""

        async def there() -> T:
            return await work()

        place, key = self.home, object()
        place.watch.enter(key)
        try:
            return await elsewhere(there(), place.loop, wait_when_cancelled=False)
        finally:
            place.watch.leave(key)

    def places(self) -> list[LoopThread]:
        with self._lock:
            return list(self._places)


tool_loops = ToolLoops()
"""Those of this process. What tools keep in their modules is the process's too, so they are not one runtime's."""
_sync: list[LoopThread] = []
_sync_lock = threading.Lock()
_of_the_parent: list[LoopThread] = []
_ending = threading.Event()


def sync_loop() -> asyncio.AbstractEventLoop:
    """Where calls run that `run_sync` and its kin make; started at first use."""
    with _sync_lock:
        if not _sync:
            _sync.append(LoopThread("ferrule-sync"))
            loops_for_sync.add(_sync[0].loop)
        return _sync[0].loop


def is_ours(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop is one of these, and no program's own."""
    return any(one.loop is loop for one in (*_sync, *tool_loops.places()))


def run_and_wait(start: Callable[[], Coroutine[Any, Any, T]], name: str, parent: ToolContext | None = None) -> T:
    """Run a coroutine beside this thread and stand still until it has ended: on the loop of the call that waits for
    it, or else on the one for sync calls.
    """
    here, found = running_loop(), inside.get()
    if here is not None and (found is not None or parent is not None):
        tool = found[0].tool.name if found is not None else "that calls it"
        raise RuntimeError(
            f"`{name}` would block the event loop of the async tool `{tool}`. Write `await context.call(...)` instead."
        )
    if here is not None and is_ours(here):
        raise RuntimeError(f"`{name}` would block Ferrule's own event loop. Write `await runtime.run(...)` instead.")
    with lent():
        if parent is not None:
            posted = Posted(start(), parent.loop or sync_loop())
            with parent.cancellation.telling(posted.cancel):
                return wait_for(posted)
        before, context = sync_caller.get() or SyncCaller(), copy_context()
        caller = SyncCaller((*before.tools, *_tools_around(found)), here or before.loop)
        context.run(sync_caller.set, caller)
        try:
            return wait_for(context.run(lambda: Posted(start(), sync_loop())))
        except asyncio.CancelledError:
            if _ending.is_set():  # the program ends, and this thread with it: nobody wants to hear of that
                raise SystemExit from None
            raise


def _tools_around(found: tuple[Invocation, ToolContext | None] | None) -> tuple[str, ...]:
    if found is None:
        return ()
    invocation, context = found
    return context.lineage if context is not None else (invocation.tool.name,)


@atexit.register
def _end() -> None:
    _ending.set()
    for place in (*_sync, *tool_loops.places()):
        place.end()


def _start_afresh() -> None:
    """After a fork: the threads are not here, and the loops are the parent's. They are kept, so that none is closed."""
    global _sync_lock
    _sync_lock = threading.Lock()
    _of_the_parent.extend((*_sync, *tool_loops.start_afresh()))
    _sync.clear()
    loops_for_sync.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
