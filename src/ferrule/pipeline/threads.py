"""Threads for sync tools: quick to hand work to, replaced when a tool hangs, never in the way of exit."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, ref

from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator
    from types import FrameType

_IDLE_SECONDS = 30.0

Outcome = tuple[bool, Any]
"""`(True, value)` or `(False, exception)`."""

_here = threading.local()


class Abandoned(BaseException):
    """Thrown into a sync tool that went on after its call was over."""


@contextmanager
def seen_through() -> Generator[None]:
    """In here a sync tool is not interrupted when its call is given up, but as soon as it has left.

    For what must not be torn, such as a change of a file: an exception that comes at any instruction may come between
    taking a lock and noting that it was taken, and then nobody ever lets go of it.
    """
    job, lock = getattr(_here, "taken", (None, None))
    if job is None or lock is None or job.seen_through:
        yield
        return
    _mark(job, lock, seen_through=True)
    try:
        yield
    finally:
        _mark(job, lock, seen_through=False)


@contextmanager
def lent() -> Generator[None]:
    """In here a sync tool waits for another call: its place in the pool is free for that one meanwhile, or a pool full
    of tools that wait for tools would wait forever.
    """
    pool, (job, _) = getattr(_here, "pool", None), getattr(_here, "taken", (None, None))
    if pool is None or job is None:
        yield
        return
    pool.lend(job)
    try:
        yield
    finally:
        pool.take_back(job)


def _mark(job: Job, lock: threading.Lock, *, seen_through: bool) -> None:
    with lock:
        job.seen_through = seen_through
        if job.abandoned:
            job.seen_through = False
            raise Abandoned


class TooManyStuck(RuntimeError):  # noqa: N818
    """So many abandoned calls still hang that no further thread is given out."""


class Job:
    """One function to run in a thread, for one event loop that waits for its outcome.

    Being told through the loop costs more than most tools take. Where it is likely to be over `soon`, the loop's own
    thread may `wait` a moment first. The outcomes of `silent` functions, which report nothing on their way, are told
    together.
    """

    __slots__ = (
        "_context", "_outcome", "_over", "_settle", "_taken", "abandoned", "began", "finished", "function", "left",
        "lent", "loop", "seconds", "seen_through", "silent", "thread",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        settle: Callable[[Outcome], None],
        *,
        soon: bool = False,
        silent: bool = False,
    ) -> None:
        self.function = function
        self.began = 0.0
        self.seconds = 0.0
        """How long the function itself took, once it has ended."""
        self._outcome: Outcome | None = None
        self._over = self._taken = None
        if soon:
            self._over, self._taken = threading.Lock(), threading.Lock()
            self._over.acquire()
        self.thread: int | None = None
        self.finished = False
        self.abandoned = False
        self.left = False
        self.lent = False
        self.seen_through = False
        self.loop = loop
        self._settle = settle
        self.silent = silent
        self._context = copy_context()

    def work(self) -> Outcome:
        self.began = perf_counter()
        try:
            return True, self._context.run(self.function)
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return False, error
        finally:
            self.seconds = perf_counter() - self.began

    def wait(self, seconds: float) -> Outcome | None:
        """The outcome, if it comes within a moment; otherwise the loop is told later. Blocks the thread that asks."""
        if self._over is None or self._taken is None:
            return None
        # Whoever takes the second lock decides how the outcome goes over: neither may think that the other does it.
        if self._over.acquire(timeout=seconds) or not self._taken.acquire(blocking=False):
            return self._outcome
        return None

    def deliver(self, outcome: Outcome, following: Job | None = None) -> None:
        """Tell how it went; where another job for the same loop comes next in this thread, together with that one."""
        if self._over is not None and self._taken is not None:
            self._outcome = outcome
            if self._taken.acquire(blocking=False):
                self._over.release()
                return
        if self.silent:
            later = following is not None and following.loop is self.loop and following.silent
            outcomes_for(self.loop).add(self._settle, outcome, later=later)
            return
        try:
            self.loop.call_soon_threadsafe(self._settle, outcome)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


class Outcomes:
    """What one loop has not heard of yet; it is woken once for all of it."""

    __slots__ = ("__weakref__", "_lock", "_loop", "_untold", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._lock = threading.Lock()
        self._untold: list[tuple[Callable[[Outcome], None], Outcome]] = []
        self._woken = False

    def add(self, settle: Callable[[Outcome], None], outcome: Outcome, *, later: bool = False) -> None:
        """`later`: another comes soon, and whoever looks after the pool calls `tell` should it not."""
        with self._lock:
            self._untold.append((settle, outcome))
        if not later:
            self.wake()

    def wake(self) -> None:
        """Have the loop call `tell`. Safe from any thread."""
        with self._lock:
            if self._woken:
                return
            self._woken = True
        loop = self._loop()
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self.tell)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def tell(self) -> None:
        """Settle what is there, on the loop."""
        with self._lock:
            untold, self._untold = self._untold, []
            self._woken = False
        for settle, outcome in untold:
            settle(outcome)


_outcomes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outcomes] = WeakKeyDictionary()
_outcomes_lock = threading.Lock()


def outcomes_for(loop: asyncio.AbstractEventLoop) -> Outcomes:
    found = _outcomes.get(loop)
    if found is None:
        with _outcomes_lock:
            found = _outcomes.setdefault(loop, Outcomes(loop))
    return found


_QUICK_SECONDS = 0.003
"""How long a job may take that others stand behind, before they get another thread."""
_MORE_RELIEF = 4
"""How many times as many of them get one when the next turns out slow as well."""


class WorkerPool:
    """Daemon threads that take jobs. A job that is abandoned loses its thread, and the pool gets a new one.

    Quick jobs run one after the other: a thread for each would cost more than they do, and they would only take turns.
    Where one turns out slow, `relieve` has another thread go on with those behind it.
    """

    def __init__(self, size: int, stuck_limit: int) -> None:
        self._size = size
        self._stuck_limit = stuck_limit
        self.start_afresh()
        _pools.add(self)

    def start_afresh(self) -> None:
        """Without threads: those of the process that this one was forked from are not here."""
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0  # jobs that no thread has taken yet
        self._idle = 0  # threads that wait for a job, or are about to
        self._threads = 0
        self._first: Job | None = None  # the quick job that others stand behind
        self._behind: deque[Job] = deque()
        self._relief = 1  # how many of those get a thread when the first turns out slow
        self.stuck = 0

    def check_room(self) -> None:
        """Raise `TooManyStuck` where no further job is taken."""
        if self.stuck >= self._stuck_limit:
            raise TooManyStuck(phrase("{count} abandoned calls of sync tools still hang", count=self.stuck))

    def submit(self, job: Job) -> None:
        """Run a job as soon as a thread is free."""
        self.check_room()
        with self._lock:
            self._hand_out(job)
            if not self._threads:
                job.abandoned = True
                raise RuntimeError("The system gives no thread.")

    def submit_quick(self, jobs: list[Job]) -> None:
        """Run jobs that are quick, one after the other; `relieve` has to be called until none is left."""
        with self._lock:
            self._behind += jobs
            if self._first is None and (first := self._following()) is not None:
                self._hand_out(first)

    def relieve(self) -> bool:
        """Have another thread go on behind a job that is not quick after all; says whether to look again."""
        with self._lock:
            first = self._first
            if first is not None and first.began and perf_counter() - first.began > _QUICK_SECONDS:
                for _ in range(self._relief):  # those behind may well be as slow, and would be found out one by one
                    if self._first is not None:
                        self._pass_on(self._first)
                self._relief *= _MORE_RELIEF
            self._hire()
            return self._first is not None

    def _hand_out(self, job: Job) -> None:
        """To a thread that rests, or a new one; the lock is held."""
        self._waiting += 1
        self._jobs.put(job)
        if self._idle < self._waiting:
            self._hire()

    def _following(self) -> Job | None:
        """The next of those behind the first, which is the first from now on; the lock is held."""
        while self._behind:
            job = self._behind.popleft()
            if not job.abandoned:
                self._first = job
                return job
        self._first = None
        self._relief = 1
        return None

    def _pass_on(self, job: Job) -> None:
        """Let those behind a job go on without it; the lock is held."""
        if self._first is job and (following := self._following()) is not None:
            self._hand_out(following)

    def abandon(self, job: Job) -> bool:
        """Give up on a job: stop it if Python code can be stopped, and never wait for it. False if it was done."""
        with self._lock:
            if job.finished:
                return False
            job.abandoned = True
            self._pass_on(job)
            if job.thread is None:
                return True  # never started, and now never will be
            if not job.lent:
                self._threads -= 1
            self.stuck += 1
            if not job.seen_through:
                interrupt(job.thread)
            self._hire()
        return True

    def lend(self, job: Job) -> None:
        with self._lock:
            if not job.abandoned:
                job.lent = True
                self._threads -= 1
                self._pass_on(job)
                self._hire()

    def take_back(self, job: Job) -> None:
        """There may be more threads than places for a moment: this one works on at once."""
        with self._lock:
            if job.lent and not job.abandoned:
                self._threads += 1
            job.lent = False

    def _hire(self) -> None:
        """One more thread, where a job waits for one and there is room; the lock is held. Where the system gives none,
        the job waits for those there are, or for the next try.
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
        me = threading.get_ident()
        _here.pool = self
        try:
            while True:
                job = following
                if job is None:
                    job = self._next()
                if job is None:
                    return
                with self._lock:
                    self._waiting -= 1
                    abandoned = job.abandoned
                    if not abandoned:
                        self._idle -= 1
                        job.thread = me
                if abandoned:
                    if following is not None:  # the one before it counts on this one to wake the loop
                        outcomes_for(following.loop).wake()
                        following = None
                    continue
                _here.taken = job, self._lock
                outcome = job.work()
                with self._lock:
                    job.finished = True
                    _here.taken = None, None
                    if job.abandoned:
                        return
                    following = self._following() if self._first is job else None
                    self._idle += 1
                    if following is not None:  # for this thread, once it has told: until then nobody interrupts it
                        self._waiting += 1
                job.deliver(outcome, following)
                del outcome
        except Abandoned:
            return  # arrived after the tool itself was left
        finally:
            if job is not None and job.abandoned and job.thread is not None:
                try:
                    self._leave(job)
                except Abandoned:  # it may arrive as late as here, and comes only once
                    self._leave(job)

    def _leave(self, job: Job) -> None:
        with self._lock:
            if not job.left:
                job.left = True
                self.stuck -= 1

    def _next(self) -> Job | None:
        while True:
            try:
                return self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if not self._waiting:
                        self._idle -= 1
                        self._threads -= 1
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


def interrupt(thread: int) -> None:
    """Raise `Abandoned` in a thread at its next Python instruction; a blocking system call ends first."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Abandoned))
