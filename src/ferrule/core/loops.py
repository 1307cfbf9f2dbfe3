"""Event loops: work on another loop, tasks that start at once, cheap timers and callbacks, signals."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

T = TypeVar("T")
_SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(slots=True, frozen=True)
class SyncCaller:
    """The code that `run_sync` blocks: the tools that it runs inside of, and its thread's event loop, if it has one."""

    tools: tuple[str, ...] = ()
    loop: asyncio.AbstractEventLoop | None = None


sync_caller: ContextVar[SyncCaller | None] = ContextVar("ferrule.sync_caller", default=None)
"""Set in everything that `run_sync` and the like start."""
loops_for_sync: set[asyncio.AbstractEventLoop] = set()
"""The loop that those calls run on, once there is one."""


class Posted(Generic[T]):
    """A coroutine that was handed to another loop, and runs there as a task with the context of the caller.

    `ended` is done when the task has ended; after `cancel` that may take a while.
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
        """Cancel the task. Safe from any thread."""
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
    """Await a coroutine that runs on another loop. If cancelled, waits until the coroutine has stopped too.
    `wait_when_cancelled=False` is for loops that may be blocked forever.
    """
    caller = sync_caller.get()
    if caller is not None and caller.loop is loop:
        work.close()
        raise RuntimeError(
            "This needs the event loop that `run_sync` blocks while it waits. Write `await runtime.run(...)` instead."
        )
    posted = Posted(work, loop)
    over = asyncio.wrap_future(posted.ended)
    over.add_done_callback(lambda over: over.exception())  # or asyncio would report it as never retrieved
    again: asyncio.CancelledError | None = None
    while not over.done():
        try:
            await asyncio.wait({over})
        except asyncio.CancelledError as error:
            if again is None:  # a second cancellation would interrupt its clean-up
                posted.cancel()
            if not wait_when_cancelled:
                raise
            again = error
    if again is not None:
        raise again
    return over.result()


def wait_for(posted: Posted[T], is_abandoned: Callable[[], bool] = lambda: False) -> T:
    """Block until it has ended. Ctrl-C stops it first and is then raised; a second Ctrl-C is raised at once. So does
    `is_abandoned`, with `CancelledError`.
    """
    try:
        while not posted.ended.done():
            if is_abandoned():
                raise asyncio.CancelledError
            with suppress(TimeoutError):  # now and then, because on Windows Ctrl-C doesn't wake a wait for a lock
                posted.ended.exception(_SECONDS_BETWEEN_LOOKS)
        return posted.ended.result()
    except BaseException:
        if not posted.ended.done():
            posted.cancel()
            posted.ended.exception()
        raise


# Starts a task at once instead of at the loop's next turn.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false, reportUntypedBaseClass=false, reportUnknownArgumentType=false


if sys.version_info >= (3, 12):

    def start_task(coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
        """Run a coroutine up to its first wait; the task may be done when this returns."""
        return asyncio.Task(coroutine, loop=loop, eager_start=True)

else:
    from asyncio import tasks
    from contextvars import Context, copy_context

    _current: dict[Any, Any] = tasks._current_tasks  # noqa: SLF001

    class _FirstStep:
        """Replaces a coroutine whose first step was taken already, and repeats how that step ended."""

        __slots__ = ("cancelling", "error", "given", "task")

        def __init__(self, task: _EagerTask, given: Any, error: BaseException | None) -> None:
            self.task, self.given, self.error = task, given, error
            # A cancellation that the step requested applies after the step, not before.
            self.cancelling, task._must_cancel = task._must_cancel, False  # noqa: SLF001

        def send(self, _: Any) -> Any:
            self.task._must_cancel = self.cancelling  # noqa: SLF001
            if self.error is not None:
                raise self.error
            return self.given

    class _EagerTask(tasks._PyTask):  # noqa: SLF001
        """3.12's `eager_start` for 3.11: asyncio's Python task, which takes its first step when it is made."""

        # Set by the constructors of both parents, which are not called: they would schedule the first step.
        _name = "ferrule-tool"
        _num_cancels_requested = 0
        _must_cancel = False
        _fut_waiter = None

        def __init__(self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> None:
            self._loop = loop
            self._callbacks = []
            self._coro = coroutine
            self._context = context = copy_context()
            outer = _current.pop(loop, None)
            try:
                _current[loop] = self
                try:
                    first = _FirstStep(self, context.run(coroutine.send, None), None)
                except StopIteration as end:
                    if not self._callbacks and not self._must_cancel:
                        self._result, self._state = end.value, "FINISHED"
                        return
                    first = _FirstStep(self, None, end)
                except BaseException as error:  # noqa: BLE001 - asyncio's own step handles each kind
                    first = _FirstStep(self, None, error)
                finally:
                    del _current[loop]
                self._coro = first
                try:
                    context.run(self._Task__step)
                finally:
                    self._coro = coroutine
                    del first  # its exception may refer to this frame
            finally:
                if outer is not None:
                    _current[loop] = outer
            if not self.done():
                tasks._register_task(self)  # noqa: SLF001

        def get_context(self) -> Context:
            return self._context

        def __del__(self) -> None:
            if self._state != "FINISHED" or self._exception is not None:
                super().__del__()

    def start_task(coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
        """Run a coroutine up to its first wait; the task may be done when this returns."""
        return _EagerTask(coroutine, loop)


def has_callbacks(loop: asyncio.AbstractEventLoop, *, unknown: bool) -> bool:
    """Whether the loop has callbacks ready to run; `unknown` for loops that do not tell."""
    return bool(getattr(loop, "_ready", unknown))


def disown(task: asyncio.Task[Any]) -> None:
    """Forget a task that cannot be ended, so that neither `asyncio.run` nor the interpreter waits for it at exit."""
    import ctypes

    asyncio.tasks._unregister_task(task)  # noqa: SLF001
    task._log_destroy_pending = False  # noqa: SLF001
    # Destroying its coroutine would run the tool's code again, perhaps forever, so it is never destroyed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


# Callbacks that cost less than the loop's own.


class LateTimer:
    """Calls `then` at a time, unless it is cancelled before."""

    __slots__ = ("at", "handle", "then")

    def __init__(self, at: float, then: Callable[[], object]) -> None:
        self.at = at
        self.then: Callable[[], object] | None = then
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        self.then = None
        if self.handle is not None:
            self.handle.cancel()

    def fire(self) -> None:
        then, self.then = self.then, None
        if then is not None:
            then()


class LateTimers:
    """Timers for the running loop that cost a fraction of its own. Only those that are still wanted after half a second
    are passed to the loop; the timers of calls and requests are mostly cancelled by then.
    """

    _SOON = 0.5

    def __init__(self) -> None:
        self._fresh: list[LateTimer] = []

    def start(self, seconds: float, then: Callable[[], object]) -> LateTimer:
        timer = LateTimer(monotonic() + seconds, then)
        if seconds < self._SOON:
            timer.handle = asyncio.get_running_loop().call_later(seconds, timer.fire)
            return timer
        if not self._fresh:
            loop = asyncio.get_running_loop()
            loop.call_later(self._SOON, self._hand_over, loop)
        self._fresh.append(timer)
        return timer

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        fresh, self._fresh = self._fresh, []
        for timer in fresh:
            if timer.then is not None:
                timer.handle = loop.call_later(max(0.0, timer.at - monotonic()), timer.fire)


class LoopInbox:
    """Callbacks from other threads for one loop, which is woken once for all that arrive before it runs them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.timers = LateTimers()
        self._posted: deque[tuple[Callable[..., object], Any]] = deque()
        self._woken = False
        self._waits = False
        self._bell = Lock()  # no SimpleQueue: a wait for one that a signal interrupts after its time never ends
        self._bell.acquire()

    def post(self, then: Callable[[T], object], given: T, *, wake: bool = True) -> None:
        """Call `then(given)` in the loop, in the order posted. Safe from any thread.

        Without `wake`, the caller must see to it that `wake` is called soon.
        """
        self._posted.append((then, given))
        if wake:
            self.wake()

    def wake(self) -> None:
        """Make the loop run what was posted. Safe from any thread."""
        if self._woken:
            return
        self._woken = True
        if self._waits:
            with suppress(RuntimeError):  # it rings already
                self._bell.release()
        else:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._deliver)

    def wait(self, seconds: float) -> None:
        """Block the loop's own thread until something is posted, and run it: quicker than a turn of the loop."""
        self._waits = True
        try:
            if not self._posted:  # what came before the wait rings no bell
                self._bell.acquire(timeout=seconds)
        finally:
            self._waits = False  # before `_deliver`: from now on the loop must be woken
            self._deliver()

    def _deliver(self) -> None:
        self._woken = False  # first, so that what is posted from now on wakes the loop again
        while self._posted:
            then, given = self._posted.popleft()
            then(given)


# Signals, handled in the running event loop.


_CANNOT = (NotImplementedError, RuntimeError)  # not on Windows, and only in the main thread


def on_signal(name: str, then: Callable[..., object], *given: object) -> None:
    """Call `then` when the signal comes, where that is possible.

    A signal that the program was started to ignore, as by `nohup`, stays ignored.
    """
    loop = asyncio.get_running_loop()
    for number in _known(name):
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        with suppress(*_CANNOT):
            loop.add_signal_handler(number, then, *given)


def no_more_on_signal(name: str) -> None:
    """Undo `on_signal`."""
    loop = asyncio.get_running_loop()
    for number in _known(name):
        with suppress(*_CANNOT):
            loop.remove_signal_handler(number)


def _known(name: str) -> Iterator[signal.Signals]:
    found = getattr(signal, name, None)  # no system has all of them
    if isinstance(found, signal.Signals):
        yield found
