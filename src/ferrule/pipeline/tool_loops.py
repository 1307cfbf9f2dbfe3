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
from contextvars import ContextVar, copy_context
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from ferrule.core.context import running_loop
from ferrule.core.loops import Posted, SyncCaller, elsewhere, loops_for_sync, start_task, sync_caller, wait_for
from ferrule.pipeline.threads import Abandoned, Job, Outcome, TooManyStuck, WorkerPool, interrupt, lent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextvars import Context

    from ferrule.core.context import ToolContext
    from ferrule.core.tool import Invocation


# Which call blocks an event loop, and for how long.


logger = logging.getLogger("ferrule.calls")

_BEAT = 0.1
STALL = 0.25
"""Seconds without a sign of life from which a loop counts as standing still."""
NOTED = 1.0
"""Seconds from which a stall is worth a warning, and a word in the result."""
_IDLE_SECONDS = 10.0
_OURS = str(Path(__file__).parent.parent) + os.sep
_NOT_THEIRS = (str(Path(threading.__file__).parent) + os.sep, "<frozen ", _OURS)

inside: ContextVar[tuple[Invocation, ToolContext | None] | None] = ContextVar("ferrule.call", default=None)
"""The call that the running code works for; also in the tasks and threads that a tool starts."""

born_inside: WeakKeyDictionary[asyncio.Task[Any], Invocation] = WeakKeyDictionary()
"""Tasks that tools started, by their call: Python 3.11 does not tell a task's context."""


class LoopWatch:
    """One loop: since when it stands still, and to which call the time is due that it stood still before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.blocked_by: Invocation | None = None
        """Who blocks it now, as soon as that is known."""
        self.on_stall: Callable[[float], None] | None = None
        """Hears again and again, in the watching thread, for how long the loop has stood still."""
        self.beating = False
        self._lock = threading.Lock()
        self._calls: set[object] = set()
        self._own: dict[object, float] = {}
        self._stalled = 0.0
        self._unexplained = 0.0
        self._blamed: list[tuple[float, float]] = []
        self._thread = self._native = 0
        self._last = self._delayed = 0.0
        self._told = False

    # Calls in flight

    def enter(self, call: object) -> None:
        """A call is in flight on this loop from now on. Safe from any thread."""
        with self._lock:
            self._calls.add(call)
            if self.beating:
                return
            self.beating = True
            self._last = monotonic()
        self.loop.call_soon_threadsafe(self._beat)
        _watcher.look_at(self)

    def leave(self, call: object) -> float:
        """It is over; gives for how many seconds it blocked the loop."""
        if self.standing and threading.get_ident() == self._thread:
            self._catch_up()
        with self._lock:
            self._calls.discard(call)
            return self._own.pop(call, 0.0) + (self.standing if self.blocked_by is call else 0.0)

    def _beat(self) -> None:
        self._thread, self._native = threading.get_ident(), threading.get_native_id()
        self._catch_up()
        with self._lock:
            self.beating = bool(self._calls)
        if self.beating:
            self.loop.call_later(_BEAT, self._beat)

    def _catch_up(self) -> None:
        """The loop moves, or this would not run: whatever it stood still for before is over."""
        stood, told, self._told = self.standing, self._told, False
        if stood:
            self._settle(self.blocked_by, stood)
            if not told and stood >= NOTED:
                self._warn(stood)
        self._last, self.blocked_by = monotonic(), None

    # Who is to blame

    def blame(self, call: Invocation, began: float) -> float:
        """The first step of a call has kept the loop since `began`: for how many seconds it blocked it, without those
        that are due to the calls that it made.
        """
        now = monotonic()
        self._blamed = [one for one in self._blamed if one[0] > began]
        seconds = now - began - sum(seconds for _, seconds in self._blamed)
        if seconds < STALL:
            return 0.0
        self._blamed.append((now, seconds))
        self._settle(call, seconds)
        if not self._told and seconds >= NOTED:
            self.blocked_by = call
            self._warn(seconds)
        self._last, self.blocked_by, self._told = now, None, False
        return seconds

    def _settle(self, call: Invocation | None, seconds: float) -> None:
        with self._lock:
            self._stalled += seconds
            if call is None:
                self._unexplained += seconds
            elif call in self._calls:
                self._own[call] = self._own.get(call, 0.0) + seconds

    @property
    def standing(self) -> float:
        """For how many seconds the loop has stood still up to now; 0 where it moves."""
        stood = monotonic() - self._last - _BEAT if self.beating else 0.0
        return stood if stood > STALL else 0.0

    def mark(self) -> tuple[float, float]:
        """Where the count of lost time is now, for `excused`."""
        return self._stalled, self._unexplained

    def excused(self, call: object, mark: tuple[float, float], most: float) -> float:
        """Seconds since the mark in which the loop stood still and it was not this call's fault. Where nobody knows
        whose fault it was, at most so many.
        """
        with self._lock:
            unexplained = self._unexplained - mark[1]
            others = self._stalled - mark[0] - unexplained - self._own.get(call, 0.0)
            standing, culprit = self.standing, self.blocked_by
        if culprit is None:
            unexplained += standing
        elif culprit is not call:
            others += standing
        return others + min(unexplained, most)

    # Looking on, in the watching thread

    def look(self) -> None:
        standing = self.standing
        if not standing or not self.loop.is_running():
            self._delayed = _delay_of(self._native)
            return
        self.find_culprit()
        if standing >= NOTED:
            self.tell()
        if self.on_stall is not None:
            self.on_stall(standing)

    def find_culprit(self) -> Invocation | None:
        """Who blocks the loop, found out now unless the watching thread has already."""
        if self.blocked_by is None and self.standing:
            self.blocked_by = self._culprit()
        return self.blocked_by

    def tell(self) -> None:
        """Name whoever blocks the loop in the log, once for each time."""
        if not self._told:
            self._told = True
            self._warn(self.standing, self._place())

    def _warn(self, seconds: float, place: str = "") -> None:
        """Only where it is a tool's doing: on a busy machine any thread may have to wait for its turn."""
        if _delay_of(self._native) - self._delayed < seconds / 2:
            _warn(self.blocked_by, seconds, place)

    def _culprit(self) -> Invocation | None:
        task = asyncio.current_task(self.loop)
        if task is None:
            return None
        context: Context | None = task.get_context() if sys.version_info >= (3, 12) else getattr(task, "_context", None)
        found = context.get(inside) if context is not None else None
        return found[0] if found is not None else born_inside.get(task)

    def _place(self) -> str:
        """Where the loop's thread is: the innermost line that is neither Python's own nor ours, if there is one."""
        innermost = frame = sys._current_frames().get(self._thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        while frame is not None and _is_not_theirs(frame.f_code.co_filename):
            frame = frame.f_back
        frame = frame or innermost
        return f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def _is_not_theirs(file: str) -> bool:
    return file.startswith(_NOT_THEIRS) and "site-packages" not in file.removeprefix(_OURS)


def _delay_of(thread: int) -> float:
    """Seconds for which a thread of ours could have run and had to wait for a processor; 0 where nobody knows."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:  # noqa: PTH123 - ten times a second
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _warn(call: Invocation | None, seconds: float, place: str) -> None:
    if call is None:
        logger.warning("The event loop has stood still for %.1f s%s, and so have all calls on it", seconds, place)
        return
    logger.warning(
        "Tool %s has blocked the event loop for %.1f s%s (call %s); await what takes long, or write it as a plain "
        "`def`, which runs in a thread",
        call.tool.name,
        seconds,
        place,
        call.call_id,
    )


class _Watcher:
    """The thread that looks at every loop with calls in flight. While there are none it sleeps, and at last ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: list[LoopWatch] = []
        self._wake = threading.Event()
        self._runs = False

    def look_at(self, watch: LoopWatch) -> None:
        with self._lock:
            if watch not in self._watches:
                self._watches.append(watch)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._work, name="ferrule-watch", daemon=True).start()
        self._wake.set()

    def _work(self) -> None:
        while True:
            self._wake.clear()
            with self._lock:
                self._watches = [one for one in self._watches if one.beating and not one.loop.is_closed()]
                watches = list(self._watches)
            for watch in watches:
                try:
                    watch.look()
                except Exception:
                    logger.exception("A loop could not be watched")
            if watches:
                sleep(_BEAT)
            elif not self._wake.wait(_IDLE_SECONDS):
                with self._lock:
                    if not self._watches:
                        self._runs = False
                        return


_watcher = _Watcher()
_watches: dict[asyncio.AbstractEventLoop, LoopWatch] = {}


def watch_of(loop: asyncio.AbstractEventLoop) -> LoopWatch:
    """The watch of a loop, made at first use."""
    watch = _watches.get(loop)
    if watch is None:
        for one in [one for one in list(_watches) if one.is_closed()]:
            _watches.pop(one, None)
        watch = _watches.setdefault(loop, LoopWatch(loop))
    return watch


def _start_afresh() -> None:
    global _watcher
    _watcher = _Watcher()
    _watches.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)


T = TypeVar("T")


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


def _start_afresh_tool_loops() -> None:
    """After a fork: the threads are not here, and the loops are the parent's. They are kept, so that none is closed."""
    global _sync_lock
    _sync_lock = threading.Lock()
    _of_the_parent.extend((*_sync, *tool_loops.start_afresh()))
    _sync.clear()
    loops_for_sync.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh_tool_loops)
