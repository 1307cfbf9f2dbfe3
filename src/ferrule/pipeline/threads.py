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


def _nothing(*_: object) -> None:
    pass


class Job:
    """One function to run in a thread, and the event loop that waits for its outcome."""

    __slots__ = (
        "_context", "_function", "abandoned", "finished", "inbox", "left", "lent", "seconds", "seen_through", "settle",
        "thread",
    )  # fmt: skip

    def __init__(self, function: Callable[[], Any], inbox: LoopInbox, settle: Callable[[Outcome], None]) -> None:
        self._function = function
        self._context = copy_context()
        self.inbox = inbox
        self.settle = settle
        self.seconds = 0.0
        """How long the function took, once it has returned."""
        self.thread: int | None = None
        self.finished = False
        self.abandoned = False
        self.left = False
        self.lent = False
        self.seen_through = False

    def work(self) -> Outcome:
        began = perf_counter()
        try:
            return True, self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return False, error
        finally:
            self.seconds = perf_counter() - began

    def let_go(self) -> None:
        """Keep nothing of a call that is over: it knows its job, and would stay until the next collection."""
        self._function = self.settle = _nothing


class WorkerPool:
    """Daemon threads that take jobs from one queue. An abandoned job keeps its thread, and another takes its place.

    To wake a thread costs more than most tools do, so one is woken at a time: a thread that takes a job has the next
    one come if more jobs wait. While jobs are quick, the first thread is done with all of them before the second gets
    the interpreter's lock, and the loop hears of their outcomes at once. As soon as a job blocks, the second thread
    goes on with those behind it, and wakes the loop for those before it.
    """

    def __init__(self, size: int, stuck_limit: int) -> None:
        self._size = size
        self._stuck_limit = stuck_limit
        self.start_afresh()
        _pools.add(self)

    def start_afresh(self) -> None:
        """Begin without threads: after a fork, those of the parent process are not here."""
        self.lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()  # an entry for each thread that is woken
        self._idle = 0  # threads that wait for the bell
        self._coming = False  # whether a thread was woken or started and has not looked at the queue yet
        self._held_back: list[LoopInbox] = []  # with outcomes that their loops were not woken for
        self._threads = 0
        self.stuck = 0
        """Abandoned jobs that have not returned yet."""

    def submit(self, job: Job) -> None:
        """Run a job as soon as a thread is free."""
        if self.stuck >= self._stuck_limit:
            raise TooManyStuck(phrase("{count} abandoned calls of sync tools still hang", count=self.stuck))
        with self.lock:
            self._jobs.append(job)
            self._have_one_come()
            if not self._threads:
                self._jobs.pop()
                raise RuntimeError("The system does not start another thread.")

    def abandon(self, job: Job) -> bool:
        """Leave a job behind: interrupt it, and never wait for it. False if it had finished, or never began."""
        with self.lock:
            if job.finished:
                return False
            job.abandoned = True
            if job.thread is None:
                return False  # now it never will
            if not job.lent:
                self._threads -= 1
            self.stuck += 1
            if not job.seen_through:
                interrupt(job.thread)
            self._have_one_come()
        return True

    def lend(self, job: Job) -> None:
        with self.lock:
            if not job.abandoned:
                job.lent = True
                self._threads -= 1
                self._have_one_come()

    def take_back(self, job: Job) -> None:
        """There may be more threads than places for a moment, because this one works on at once."""
        with self.lock:
            if job.lent and not job.abandoned:
                self._threads += 1
            job.lent = False

    def _have_one_come(self) -> None:
        """Wake or start a thread if jobs wait and none is on its way. If the system gives none, the jobs wait for the
        threads there are. The lock is held.
        """
        if self._coming or not self._jobs:
            return
        if self._idle:
            self._idle -= 1
            self._bell.put(None)
        elif self._threads < self._size:
            try:
                threading.Thread(target=self._serve, name="ferrule-tool", daemon=True).start()
            except RuntimeError:
                return
            self._threads += 1
        else:
            return
        self._coming = True

    def _serve(self) -> None:
        job: Job | None = None
        comes, rests = True, False
        _here.pool, me = self, threading.get_ident()
        try:
            while True:
                if rests:
                    if not self._rest():
                        return
                    comes = True
                with self.lock:
                    if comes:
                        self._coming = False
                    job = self._take()
                    rests = job is None
                    if job is not None:
                        job.thread = me
                        self._have_one_come()
                    else:
                        self._idle += 1
                    held_back = self._held_back if comes or rests else ()
                    if held_back:
                        self._held_back = []
                        if job is not None:
                            job.seen_through = True
                for inbox in held_back:
                    inbox.wake()
                if job is None:
                    continue
                if held_back:
                    _see_through(job, self, until_left=False)
                _here.job = job
                outcome = job.work()
                with self.lock:
                    job.finished = True
                    _here.job = None
                    if job.abandoned:
                        return
                    rests = not self._jobs and not self._held_back
                    comes = rests or not self._coming  # if another thread comes, it wakes the loop
                    if rests:
                        self._idle += 1
                    elif comes:
                        self._coming = True  # this one looks next
                    else:
                        self._held_back.append(job.inbox)
                job.inbox.post(job.settle, outcome, wake=comes)  # nothing interrupts this: no job is this thread's
                job.let_go()
                job = outcome = None  # a thread that rests must not keep what the last tool used
        except Abandoned:
            return  # it arrived after the tool itself had returned
        finally:
            if job is not None and job.abandoned and job.thread is not None:
                try:
                    self._leave(job)
                except Abandoned:  # it may arrive as late as here, and comes only once
                    self._leave(job)

    def _take(self) -> Job | None:
        """The first job that was not abandoned."""
        while self._jobs:
            job = self._jobs.popleft()
            if not job.abandoned:
                return job
        return None

    def _rest(self) -> bool:
        """Wait for the bell; False when this thread is not needed any more."""
        while True:
            try:
                self._bell.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self.lock:
                    if self._idle:
                        self._idle -= 1
                        self._threads -= 1
                        return False
            else:
                return True

    def _leave(self, job: Job) -> None:
        with self.lock:
            if not job.left:
                job.left = True
                self.stuck -= 1


_pools: WeakSet[WorkerPool] = WeakSet()


def _start_all_afresh() -> None:
    for pool in list(_pools):
        pool.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)


def awaits_call(frame: FrameType) -> bool:
    """Whether a thread that is here belongs to a pool and has nothing to run."""
    return frame.f_code is WorkerPool._rest.__code__  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
