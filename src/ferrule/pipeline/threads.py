"""Threads for sync tools: cheap to hand work to, replaced when a tool hangs, never in the way of exit."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    from ferrule.core.loops import LoopInbox

_IDLE_SECONDS = 30.0

Outcome = tuple[bool, Any]
"""`(True, value)` or `(False, exception)`."""

_here = threading.local()
"""The `pool` that this thread belongs to, and the `job` that it runs."""


class Abandoned(BaseException):
    """Raised inside a tool whose call has ended without it."""


class TooManyStuck(RuntimeError):  # noqa: N818
    """So many abandoned calls still hang that no further one is taken."""


def interrupt(thread: int) -> None:
    """Raise `Abandoned` in a thread at its next Python instruction; a blocking system call has to return first."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Abandoned))


@contextmanager
def seen_through() -> Generator[None]:
    """Put off the interruption of a sync tool until it leaves this block.

    For work that must not be torn apart, such as changing a file: an exception at an arbitrary instruction may come
    between taking a lock and noting that it was taken, and then the lock is never released.
    """
    job: Job | None = getattr(_here, "job", None)
    if job is None or job.seen_through:
        yield
        return
    _see_through(job, _here.pool, until_left=True)
    try:
        yield
    finally:
        _see_through(job, _here.pool, until_left=False)


def _see_through(job: Job, pool: WorkerPool, *, until_left: bool) -> None:
    with pool.lock:
        job.seen_through = until_left and not job.abandoned
        if job.abandoned:
            raise Abandoned


@contextmanager
def lent() -> Generator[None]:
    """Free a sync tool's place in its pool while the tool waits for another call: a pool full of tools that wait for
    tools would wait forever.
    """
    job: Job | None = getattr(_here, "job", None)
    if job is None:
        yield
        return
    pool: WorkerPool = _here.pool
    pool.lend(job)
    try:
        yield
    finally:
        pool.take_back(job)


_ALONE: deque[Any] = deque()


class Job:
    """One function to run in a thread, and the event loop that waits for its outcome.

    Hearing of the outcome through the loop takes longer than most tools do. If the function is likely to be over
    `soon`, the loop's own thread may `wait` for it for a moment.
    """

    __slots__ = (
        "_context", "_inbox", "_outcome", "_over", "_settle", "_taken", "abandoned", "finished", "function", "left",
        "lent", "seconds", "seen_through", "thread", "together",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[[], Any],
        inbox: LoopInbox,
        settle: Callable[[Outcome], None],
        *,
        soon: bool = False,
    ) -> None:
        self.function = function
        self.seconds = 0.0
        """How long the function took, once it has returned."""
        self.thread: int | None = None
        self.together: deque[Job] = _ALONE
        """Those that were submitted with it and have not started."""
        self.finished = False
        self.abandoned = False
        self.left = False
        self.lent = False
        self.seen_through = False
        self._inbox = inbox
        self._settle = settle
        self._context = copy_context()
        self._outcome: Outcome | None = None
        self._over = self._taken = None
        if soon:
            self._over, self._taken = threading.Lock(), threading.Lock()
            self._over.acquire()

    def work(self) -> Outcome:
        began = perf_counter()
        try:
            return True, self._context.run(self.function)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return False, error
        finally:
            self.seconds = perf_counter() - began

    def wait(self, seconds: float) -> Outcome | None:
        """Block this thread until the outcome is there. None if it takes longer: then `settle` is called with it."""
        if self._over is None or self._taken is None:
            return None
        # Whichever thread gets the second lock decides how the outcome is delivered, so that exactly one of them does.
        if self._over.acquire(timeout=seconds) or not self._taken.acquire(blocking=False):
            return self._outcome
        return None

    def deliver(self, outcome: Outcome) -> None:
        if self._over is not None and self._taken is not None:
            self._outcome = outcome
            if self._taken.acquire(blocking=False):
                self._over.release()
                return
        self._inbox.post(self._settle, outcome)


class WorkerPool:
    """Daemon threads that take jobs. An abandoned job keeps its thread, and the pool starts another in its place.

    Jobs that are submitted together run one after the other in one thread: to wake a thread for each would cost more
    than most tools do. `spread` gives those that have to wait for long a thread each.
    """

    def __init__(self, size: int, stuck_limit: int) -> None:
        self._size = size
        self._stuck_limit = stuck_limit
        self.start_afresh()
        _pools.add(self)

    def start_afresh(self) -> None:
        """Begin without threads: after a fork, those of the parent process are not here."""
        self.lock = threading.Lock()
        self._queue: SimpleQueue[deque[Job]] = SimpleQueue()
        self._waiting = 0  # entries of the queue that no thread has taken yet
        self._idle = 0  # threads that wait for an entry, or are about to
        self._threads = 0
        self.stuck = 0
        """Abandoned jobs that have not returned yet."""

    def check_room(self) -> None:
        """Raise `TooManyStuck` if no further job is taken."""
        if self.stuck >= self._stuck_limit:
            raise TooManyStuck(phrase("{count} abandoned calls of sync tools still hang", count=self.stuck))

    def submit(self, *jobs: Job) -> deque[Job]:
        """Run jobs one after the other, as soon as a thread is free; returns those that have not started."""
        together = deque(jobs)
        with self.lock:
            for job in jobs:
                job.together = together
            self._enqueue(together)
            if not self._threads:
                for job in jobs:
                    job.abandoned = True
                raise RuntimeError("The system gives no thread.")
        return together

    def spread(self, together: deque[Job]) -> None:
        """Give jobs that were submitted together, and have not started yet, a thread each."""
        with self.lock:
            self._spread(together)

    def _spread(self, together: deque[Job]) -> None:
        while together:
            self._enqueue(deque([together.popleft()]))

    def _enqueue(self, jobs: deque[Job]) -> None:
        """The lock is held."""
        self._waiting += 1
        self._queue.put(jobs)
        self._hire()

    def abandon(self, job: Job) -> bool:
        """Leave a job behind: interrupt it, and never wait for it. False if it had finished."""
        with self.lock:
            if job.finished:
                return False
            job.abandoned = True
            if job.thread is None:
                return True  # it has not started, and now never will
            if not job.lent:
                self._threads -= 1
            self.stuck += 1
            if not job.seen_through:
                interrupt(job.thread)
            self._spread(job.together)
            self._hire()
        return True

    def lend(self, job: Job) -> None:
        with self.lock:
            if not job.abandoned:
                job.lent = True
                self._threads -= 1
                self._spread(job.together)
                self._hire()

    def take_back(self, job: Job) -> None:
        """There may be more threads than places for a moment, because this one works on at once."""
        with self.lock:
            if job.lent and not job.abandoned:
                self._threads += 1
            job.lent = False

    def _hire(self) -> None:
        """Start a thread if an entry needs one and there is room. If the system gives none, it waits for the threads
        there are. The lock is held.
        """
        if self._waiting > self._idle and self._threads < self._size:
            try:
                threading.Thread(target=self._serve, name="ferrule-tool", daemon=True).start()
            except RuntimeError:
                return
            self._threads += 1
            self._idle += 1

    def _serve(self) -> None:
        job: Job | None = None
        following: Job | None = None
        _here.pool, me = self, threading.get_ident()
        try:
            while True:
                taken = None
                if following is None and (taken := self._next()) is None:
                    return
                with self.lock:
                    if taken is not None:
                        self._waiting -= 1
                        following = _first(taken)
                        self._idle -= following is not None
                    elif following is not None and following.abandoned:
                        following = _first(following.together)
                        self._idle += following is None
                    if following is None:
                        continue
                    job, following = following, None
                    job.thread = me
                _here.job = job
                outcome = job.work()
                with self.lock:
                    job.finished = True
                    _here.job = None
                    if job.abandoned:
                        return
                    following = _first(job.together)
                    self._idle += following is None
                job.deliver(outcome)  # nothing interrupts this: the next job is not this thread's yet
                job = outcome = None  # a thread that waits must not keep what the last tool used
        except Abandoned:
            return  # it arrived after the tool itself had returned
        finally:
            if job is not None and job.abandoned and job.thread is not None:
                try:
                    self._leave(job)
                except Abandoned:  # it may arrive as late as here, and comes only once
                    self._leave(job)

    def _next(self) -> deque[Job] | None:
        """The next entry; None when this thread is not needed any more."""
        while True:
            try:
                return self._queue.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self.lock:
                    if not self._waiting:
                        self._idle -= 1
                        self._threads -= 1
                        return None

    def _leave(self, job: Job) -> None:
        with self.lock:
            if not job.left:
                job.left = True
                self.stuck -= 1


def _first(jobs: deque[Job]) -> Job | None:
    """Take the first job that was not abandoned."""
    while jobs:
        job = jobs.popleft()
        if not job.abandoned:
            return job
    return None


_pools: WeakSet[WorkerPool] = WeakSet()


def _start_all_afresh() -> None:
    for pool in list(_pools):
        pool.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)


def awaits_call(frame: FrameType) -> bool:
    """Whether a thread that is here belongs to a pool and has nothing to run."""
    return frame.f_code is WorkerPool._next.__code__  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
