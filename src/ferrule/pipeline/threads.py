"""A pool of threads for sync tools. A thread whose tool hangs is replaced, and none keeps the program from exiting."""

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
    """So many abandoned calls still hang that further calls are refused."""


def interrupt(thread: int) -> None:
    """Raise `Abandoned` in a thread at its next Python instruction. A blocking system call must return first."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Abandoned))


@contextmanager
def seen_through() -> Generator[None]:
    """Delay the interruption of a sync tool until it leaves this block.

    For work that must complete or not start, such as changing a file. An exception at an arbitrary instruction could
    come between taking a lock and the `try` that releases it.
    """
    job: Job | None = getattr(_here, "job", None)
    if job is None or job.protected:
        yield
        return
    _protect(job, _here.pool, until_left=True)
    try:
        yield
    finally:
        _protect(job, _here.pool, until_left=False)


def _protect(job: Job, pool: WorkerPool, *, until_left: bool) -> None:
    """Switch the protection of a job on or off; raises `Abandoned` if the job was abandoned meanwhile."""
    with pool.lock:
        job.protected = until_left and not job.abandoned
        if job.abandoned:
            raise Abandoned


@contextmanager
def place_released() -> Generator[Callable[[], bool]]:
    """Release a sync tool's place in its pool while the tool waits for another call: a pool full of tools that wait for
    tools would deadlock. Gives a function that says whether the tool was abandoned; it is interrupted when it leaves.
    """
    job: Job | None = getattr(_here, "job", None)
    if job is None:
        yield lambda: False
        return
    pool: WorkerPool = _here.pool
    with seen_through():
        with pool.lock:
            if not job.abandoned:
                job.released = True
                pool.threads -= 1
                pool.start_worker()
        try:
            yield lambda: job.abandoned
        finally:
            with pool.lock:  # it works on at once, so there may be more threads than places for a moment
                if job.released and not job.abandoned:
                    pool.threads += 1
                job.released = False


def _nothing(*_: object) -> None:
    pass


class Job:
    """One function to run in a thread, and the event loop that waits for its outcome."""

    __slots__ = (
        "_context", "_function", "abandoned", "finished", "inbox", "left", "protected", "released", "seconds", "settle",
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
        self.released = False
        self.protected = False

    def work(self) -> Outcome:
        began = perf_counter()
        try:
            return True, self._context.run(self._function)
        except BaseException as error:  # noqa: BLE001 - anything that a tool raises is its outcome
            return False, error
        finally:
            self.seconds = perf_counter() - began

    def clear(self) -> None:
        """Break the reference cycle with the call, so that it is freed without a garbage collection."""
        self._function = self.settle = _nothing


class WorkerPool:
    """Daemon threads that take jobs from one queue. An abandoned job keeps its thread, and a new thread replaces it.

    Waking a thread costs more than most tools do, and it competes with the event loop for the interpreter's lock. So a
    busy loop wakes one at its next turn, for all jobs of this one, and a thread that takes a job wakes the next one if
    more jobs wait. While jobs are quick, the first thread finishes all of them before the second gets
    the interpreter's lock, and wakes the event loop once for all outcomes. If a job blocks, the second thread takes the
    jobs behind it, and wakes the loop for the outcomes before it.
    """

    def __init__(self, size: int, stuck_limit: int) -> None:
        self._size = size
        self._stuck_limit = stuck_limit
        self.reset()
        _pools.add(self)

    def reset(self) -> None:
        """Start without threads, also after a fork, which does not copy them."""
        self.lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()  # an entry for each thread that is woken
        self._idle = 0  # threads that wait for the bell
        self._coming = False  # whether a thread was woken or started, and has not looked at the queue yet
        self._ringing: set[LoopInbox] = set()  # inboxes whose loops wake a thread at their next turn
        self._unwoken: list[LoopInbox] = []  # inboxes with outcomes that their loops have not been woken for
        self.threads = 0
        self.stuck = 0
        """Abandoned jobs that have not returned yet."""

    def submit(self, job: Job, *, at_once: bool = True) -> None:
        """Run a job as soon as a thread is free. Without `at_once`, a thread is woken at the loop's next turn, once for
        all jobs of this one.
        """
        if self.stuck >= self._stuck_limit:
            raise TooManyStuck(phrase("{count} abandoned calls of sync tools still hang", count=self.stuck))
        with self.lock:
            self._jobs.append(job)
            if at_once or not self.threads:
                self.start_worker()
            elif job.inbox not in self._ringing:
                self._ringing.add(job.inbox)
                job.inbox.loop.call_soon(self._ring, job.inbox)
            if not self.threads:
                self._jobs.pop()
                raise RuntimeError("The system cannot start another thread.")

    def _ring(self, inbox: LoopInbox) -> None:
        with self.lock:
            self._ringing.discard(inbox)
            self.start_worker()

    def abandon(self, job: Job) -> bool:
        """Interrupt a job, and never wait for it. False if it had finished, or never began."""
        with self.lock:
            if job.finished:
                return False
            job.abandoned = True
            if job.thread is None:
                return False  # and never will
            if not job.released:
                self.threads -= 1
            self.stuck += 1
            if not job.protected:
                interrupt(job.thread)
            self.start_worker()
        return True

    def start_worker(self) -> None:
        """Wake or start a thread if jobs wait and none is on its way. If the system cannot start one, the jobs wait for
        the threads there are. The caller holds the lock.
        """
        if self._coming or not self._jobs:
            return
        if self._idle:
            self._idle -= 1
            self._bell.put(None)
        elif self.threads < self._size:
            try:
                threading.Thread(target=self._serve, name="ferrule-tool", daemon=True).start()
            except RuntimeError:
                return
            self.threads += 1
        else:
            return
        self._coming = True

    def _serve(self) -> None:
        job: Job | None = None
        coming, resting = True, False  # as the thread that `_coming` means, and about to wait for the bell
        _here.pool, me = self, threading.get_ident()
        try:
            while True:
                if resting:
                    if not self._rest():
                        return
                    coming = True
                with self.lock:
                    if coming:
                        self._coming = False
                    job = self._take()
                    resting = job is None
                    if job is not None:
                        job.thread = me
                        self.start_worker()
                    else:
                        self._idle += 1
                    unwoken = self._unwoken if coming or resting else ()
                    if unwoken:
                        self._unwoken = []
                        if job is not None:
                            job.protected = True
                for inbox in unwoken:
                    inbox.wake()
                if job is None:
                    continue
                if unwoken:
                    _protect(job, self, until_left=False)
                _here.job = job
                outcome = job.work()
                with self.lock:
                    job.finished = True
                    _here.job = None
                    if job.abandoned:
                        return
                    resting = not self._jobs and not self._unwoken
                    coming = resting or not self._coming  # if another thread is coming, that one wakes the loop
                    if resting:
                        self._idle += 1
                    elif coming:
                        self._coming = True
                    else:
                        self._unwoken.append(job.inbox)
                job.inbox.post(job.settle, outcome, wake=coming)  # cannot be interrupted: this thread has no job now
                job.clear()
                job = outcome = None  # an idle thread must not keep what the last tool used
        except Abandoned:
            return  # it arrived after the tool had returned
        finally:
            if job is not None and job.abandoned and job.thread is not None:
                try:
                    self._leave(job)
                except Abandoned:  # it may arrive as late as here, but only once
                    self._leave(job)

    def _take(self) -> Job | None:
        """The first job that was not abandoned."""
        while self._jobs:
            job = self._jobs.popleft()
            if not job.abandoned:
                return job
        return None

    def _rest(self) -> bool:
        """Wait for the bell; False if this thread is no longer needed."""
        while True:
            try:
                self._bell.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self.lock:
                    if self._idle:
                        self._idle -= 1
                        self.threads -= 1
                        return False
            else:
                return True

    def _leave(self, job: Job) -> None:
        """Count an abandoned job as ended, once."""
        with self.lock:
            if not job.left:
                job.left = True
                self.stuck -= 1


_pools: WeakSet[WorkerPool] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [pool.reset() for pool in list(_pools)])


def awaits_call(frame: FrameType) -> bool:
    """Whether a thread at this frame belongs to a pool and is idle."""
    return frame.f_code is WorkerPool._rest.__code__  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
