"""Stage five, the only one with effects: runs a tool within its time limit, and abandons one that does not stop.

`Executor.execute` chooses where a tool runs: in a thread (`_ThreadRun`), in a task of this loop (`_TaskRun`), or on the
tools' own loop (`_LoopRun`). `_wait` waits for the run, and `_stop` ends it early.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import copy_context
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.core.context import Cancellation
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.loops import LoopInbox, disown, has_callbacks, loops_for_sync, start_task
from ferrule.core.phrases import joined, phrase
from ferrule.core.tool import Style
from ferrule.pipeline.loop_watch import NOTED, STALL, inside, watch_of
from ferrule.pipeline.streaming import SCALARS, Collected, drain_sync, finish, is_iterator, is_unfinished, settled
from ferrule.pipeline.threads import Job, Outcome, TooManyStuck, WorkerPool, interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ferrule.core.call import Limits
    from ferrule.core.loops import LateTimer
    from ferrule.core.tool import Invocation, Tool
    from ferrule.pipeline.loop_watch import LoopWatch
    from ferrule.pipeline.stages import Call
    from ferrule.pipeline.tool_loops import LoopThread

logger = logging.getLogger("ferrule.calls")

_DONE, _TIME_IS_UP, _CANCELLED = "done", "time is up", "cancelled"
_STOPPED, _RETURNED, _LEFT, _BLOCKED, _UNSTARTED = "stopped", "returned", "left", "blocked", "unstarted"
_SYNC, _SYNC_STREAM = Style.SYNC, Style.SYNC_STREAM
_COROUTINE: type[Any] = CoroutineType
_LONGEST_HELD_UP = 30.0
"""Seconds that are not counted, if the call's time limit is not longer, while other calls block its loop."""
_A_MOMENT = 0.0001
"""Seconds that the loop's thread itself waits for a sync tool that was quick last time. A turn of it takes as long."""
_TURN_SECONDS = 0.005
"""Seconds for which quick sync tools in a row may keep the loop from everything else."""
_LEAST_GRACE = 0.05
"""So that the calls a tool has made are cancelled too, even if its grace period is 0."""
_REMOTE_GRACE = 2.0
"""Extra seconds for a tool on another machine to stop, for the round trip."""
_LEAST_LEFT = 0.001
_NEXT_LOOK = 0.05
"""Seconds between looks at a call whose time is not counted at the moment."""
_RETURNED_ANYWAY = phrase("It returned before it could be stopped, so it may have done its work.")
_LOOK_FIRST = phrase("Check whether it is done before you do it again.")
_ENDINGS = {
    _LEFT: phrase("It did not stop when told to and was abandoned."),
    _BLOCKED: phrase("It blocked its event loop, so it could not be stopped, and was abandoned."),
}


class ToolFailed(Exception):  # noqa: N818 - carries what a tool raised to the stage that words it
    """A tool raised; `cause` is what."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class RemoteRunner(Protocol):
    """Runs calls on other machines."""

    longest_wait: float
    """Seconds that a call may wait for a worker, in addition to its time limit."""

    def pool_of(self, tool: Tool[Any]) -> str | None:
        """The pool of workers that a tool runs on; None if it runs here."""
        ...

    def perform(self, call: Call, pool: str) -> Coroutine[Any, Any, Any]:
        """Run a call there and return its value; raises `StoppedError` if it failed. Cancelling it stops the tool."""
        ...


class _Run:
    """One run of a tool, for the event loop that waits for it. Each subclass is a place where tools run."""

    timer: LateTimer | None = None
    ended: asyncio.Future[None] | None = None
    """Made when the tool is asked to stop, and done when it has."""
    is_blocked = False
    """Whether it blocks its loop, and cannot be stopped at the moment."""
    abandoned: set[_Run] | None = None
    """Where it is noted once it was abandoned. It keeps its call and so its session, so it goes as soon as it ends."""

    def __init__(self, call: Call, inbox: LoopInbox) -> None:
        self.call, self.inbox = call, inbox
        self.began = monotonic()
        self.outcome: Outcome | None = None
        self.waiter: asyncio.Future[str | StoppedError] = inbox.loop.create_future()
        """Done when the tool has ended, or the call ends before it; its result is the reason."""

    def start(self) -> None:
        """Start the tool, unless it was started already."""

    def settle(self, outcome: Outcome) -> None:
        """The tool has ended."""
        self.outcome = outcome
        self.end(_DONE)
        if self.abandoned is not None:
            self.abandoned.discard(self)
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)

    def end(self, reason: str | StoppedError) -> None:
        """The call is over, even if the tool is not."""
        if not self.waiter.done():
            self.waiter.set_result(reason)

    def limit(self, seconds: float) -> None:
        """End the call when its time is up. Time that the user takes to answer doesn't count, nor time for which other
        calls kept it from running.
        """
        self.timer = self.inbox.timers.start(seconds, partial(self._look_at_time, seconds))

    def _look_at_time(self, seconds: float) -> None:
        call = self.call
        uncounted = min(self.excused(), max(call.seconds, _LONGEST_HELD_UP))
        if call.context is not None:
            uncounted += call.context.waited
        left = seconds + uncounted - (monotonic() - self.began)
        if left > _LEAST_LEFT:
            self.timer = self.inbox.timers.start(max(left, _NEXT_LOOK), partial(self._look_at_time, seconds))
        else:
            self.time_is_up()

    def excused(self) -> float:
        """Seconds for which other calls kept it from running."""
        return 0.0

    def time_is_up(self) -> None:
        self.end(_TIME_IS_UP)

    def cancel(self) -> None:
        """Ask it to stop, in addition to its context's cancellation."""

    def leave(self) -> str:
        """Abandon it if it is still running; returns how it ended."""
        if self.outcome is None and (how := self.abandon()):
            return how
        return _RETURNED if self.outcome is not None and self.outcome[0] else _STOPPED

    def abandon(self) -> str:
        """Stop waiting for it; returns how it was left, or nothing if it has ended or never began."""
        raise NotImplementedError

    def is_over(self) -> bool:
        """Whether it has ended since it was abandoned."""
        return True


class _ThreadRun(_Run):
    """A sync tool in a thread."""

    def __init__(self, call: Call, inbox: LoopInbox, pool: WorkerPool, limits: Limits, *, at_once: bool) -> None:
        super().__init__(call, inbox)
        self._pool, self._limits, self._at_once = pool, limits, at_once
        self.job = Job(self._work, inbox, self.settle)

    def _work(self) -> Any:
        call = self.call
        inside.set((call.invocation, call.context))
        tool = call.invocation.tool
        value = tool.start(call.invocation.params, call.context)
        if is_iterator(value):
            return drain_sync(value, *_stream(call, self._limits), self.waiter.done)
        return settled(value)

    def start(self) -> None:
        self._pool.submit(self.job, at_once=self._at_once)

    def abandon(self) -> str:
        if self._pool.abandon(self.job):
            return _LEFT  # the pool counts those that still hang
        return _RETURNED if self.job.finished else _UNSTARTED


class _TaskRun(_Run):
    """An async tool in a task of this loop."""

    def __init__(self, call: Call, inbox: LoopInbox, task: asyncio.Task[Outcome], watch: LoopWatch) -> None:
        super().__init__(call, inbox)
        self._task, self._watch = task, watch
        self._lost = watch.lost(call.invocation)
        task.add_done_callback(lambda task: self.settle(_outcome_of(task)))

    def excused(self) -> float:
        return self._watch.lost(self.call.invocation) - self._lost

    def cancel(self) -> None:
        self._task.cancel()

    def abandon(self) -> str:
        _force_end(self._task, self.call.invocation)
        return _LEFT

    def is_over(self) -> bool:
        return self._task.done()


class _LoopRun(_Run):
    """An async tool on one of the tools' loops: the first that is not blocked when it could start."""

    def __init__(self, call: Call, inbox: LoopInbox, work: Callable[[], Coroutine[Any, Any, Outcome]]) -> None:
        super().__init__(call, inbox)
        self.blocked = 0.0
        """How many seconds it blocked its loop, once it has ended or was abandoned."""
        self.over = False
        """Whether it has ended, or will never start."""
        self._work, self._context = work, copy_context()
        self._lock = threading.Lock()
        self._place: LoopThread | None = None
        self._begun = False
        self._task: asyncio.Task[Outcome] | None = None
        self._queued = 0.0

    def start(self) -> None:
        from ferrule.pipeline.tool_loops import tool_loops

        tool_loops.submit(self)

    def put(self, place: LoopThread) -> None:
        """Start on this loop instead of any earlier one, unless it has started."""
        with self._lock:
            if self._begun or self.over:
                return
            self._leave_place()
            self._place = place
            place.watch.enter(self.call.invocation)
            place.queue.add(self)
        place.loop.call_soon_threadsafe(self._begin, place, context=self._context)

    def _leave_place(self) -> float:
        if self._place is None:
            return 0.0
        self._place.queue.discard(self)
        return self._place.watch.leave(self.call.invocation)

    def _begin(self, place: LoopThread) -> None:
        with self._lock:
            if self._place is not place or self.over or self._begun:
                return
            self._begun = True
            place.queue.discard(self)
            self._queued = monotonic() - self.began - place.watch.lost(self.call.invocation)
        self._task = start_task(self._work(), place.loop)
        if self._task.done():
            self._end(place, self._task)
        else:
            self._task.add_done_callback(partial(self._end, place))

    def _end(self, place: LoopThread, task: asyncio.Task[Outcome]) -> None:
        self.over = True
        if place.watch.silent:
            place.watch.answer()  # now, so that the next call finds the loop free
        self.blocked = self._leave_place()
        self._task = None  # its exception refers to the frames it came through, and they to this run
        self.inbox.post(self.settle, _outcome_of(task))

    @property
    def is_blocked(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._place is not None and self._place.watch.silent > 0

    def excused(self) -> float:
        if self._place is None or not self._begun:
            return monotonic() - self.began
        return self._queued + self._place.watch.lost(self.call.invocation)

    def time_is_up(self) -> None:
        watch, invocation = self._place.watch if self._place is not None else None, self.call.invocation
        if watch is not None and watch.silent and watch.culprit is not invocation:
            self.end(_held_up(invocation.tool, watch, begun=self._begun))
        else:
            self.end(_TIME_IS_UP)

    def cancel(self) -> None:
        if self._place is not None:
            self._place.loop.call_soon_threadsafe(lambda: self._task is not None and self._task.cancel())

    def abandon(self) -> str:
        """Interrupt it if it blocks its loop; otherwise end its task there."""
        invocation = self.call.invocation
        with self._lock:
            place = self._place
            if self.over or not self._begun or place is None:
                self.over = True
                self._leave_place()
                return ""
            if place.watch.silent and place.watch.running_call() is invocation and place.thread.ident is not None:
                self.blocked = place.watch.silent
                place.watch.report()
                interrupt(place.thread.ident)
                return _BLOCKED
        place.loop.call_soon_threadsafe(lambda: self._task is None or _force_end(self._task, invocation))
        return _LEFT

    def is_over(self) -> bool:
        return self.over


class Executor:
    """Runs tools: async ones in a task, sync ones in a thread, each within a time limit.

    With `own_loop`, async tools run on the tools' loop instead of the caller's, unless they say that they never block.
    """

    def __init__(self, limits: Limits, *, own_loop: bool = False, remote: RemoteRunner | None = None) -> None:
        self._limits = limits
        self.own_loop = own_loop
        self.remote = remote
        self._pool = WorkerPool(limits.threads, limits.stuck_threads)
        self._left: set[_Run] = set()
        self._running: dict[str, _Run] = {}
        self._inbox: LoopInbox | None = None
        self._turn_due = 0.0
        """When quick sync tools must let the loop do something else."""
        self._slow: set[str] = set()
        """Sync tools that took longer than `_A_MOMENT` last time."""
        self.unwanted: set[str] = set()
        """Ids of calls that were cancelled before they started."""

    @property
    def abandoned(self) -> int:
        """How many abandoned calls have not ended yet."""
        return sum(not run.is_over() for run in self._left) + self._pool.stuck

    def cancel(self, call_id: str) -> bool:
        """Stop a running call, whose result says so. False if no such call is running."""
        run = self._running.get(call_id)
        if run is None:
            return False
        run.inbox.post(run.end, _CANCELLED)
        return True

    def pool_of(self, tool: Tool[Any]) -> str | None:
        """The pool of workers that a tool runs on; None if it runs here."""
        if self.remote is not None:
            return self.remote.pool_of(tool)
        return tool.remote or None

    def execute(self, call: Call) -> Coroutine[Any, Any, Any]:
        """Run the tool and return its value. Raises `ToolFailed` if it raised, or `StoppedError` if it was stopped."""
        invocation = call.invocation
        tool = invocation.tool
        if self.unwanted and invocation.call_id in self.unwanted:
            raise _cancelled(tool, phrase("It was cancelled."))
        if (self.remote is not None or tool.remote) and (pool := self.pool_of(tool)) is not None:
            return self._remotely(call, pool)
        if tool.style is _SYNC or tool.style is _SYNC_STREAM:
            return self._in_thread(call)
        return self._in_task(call, tool, call.seconds)

    # Where a tool runs

    def _in_task(
        self, call: Call, tool: Tool[Any], seconds: float, begin: Callable[[], Any] | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Run an async tool, or what `begin` gives: the rest of a call."""
        loop = asyncio.get_running_loop()
        if (self.own_loop or loop in loops_for_sync) and tool.may_block:
            return self._on_tools_loop(call, loop, seconds, begin)
        return self._on_this_loop(call, loop, seconds, begin)

    async def _on_tools_loop(
        self, call: Call, loop: asyncio.AbstractEventLoop, seconds: float, begin: Callable[[], Any] | None
    ) -> Any:
        run = _LoopRun(call, self._inbox_of(loop), lambda: self._guarded(call, begin))
        try:
            return await self._wait(run, max(0.0, seconds))
        finally:
            # Noted even if short where the call was abandoned for it.
            if run.blocked >= (NOTED if run.over else STALL):
                call.blocked += run.blocked

    async def _on_this_loop(
        self, call: Call, loop: asyncio.AbstractEventLoop, seconds: float, begin: Callable[[], Any] | None
    ) -> Any:
        began = monotonic()
        task = start_task(self._guarded(call, begin), loop)
        if (spent := monotonic() - began) >= STALL:
            blocked = watch_of(loop).first_step_took(call.invocation, began)
            call.blocked += blocked if blocked >= NOTED else 0.0
        if task.done():  # most never wait
            try:
                if not task.cancelled():
                    succeeded, value = task.result()
                    if succeeded:
                        return value
                    del value  # an exception that this frame held would hold this frame too
                return _value_of(_outcome_of(task))
            finally:
                del task  # its exception refers to the frames it came through, this one among them
        watch = watch_of(loop)
        watch.enter(call.invocation)
        try:
            run = _TaskRun(call, self._inbox_of(loop), task, watch)
            return await self._wait(run, max(0.0, seconds - spent))
        finally:
            blocked = watch.leave(call.invocation)
            call.blocked += blocked if blocked >= NOTED else 0.0

    async def _remotely(self, call: Call, pool: str) -> Any:
        """Run a call on another machine."""
        if self.remote is None:
            said = phrase(
                "`{name}` was not run: it runs on the workers of the pool `{pool}`, and this program has no connection "
                "to them.",
                name=call.invocation.tool.name,
                pool=pool,
            )
            what_helps = phrase("Set `remote.url` in the settings, or give the Runtime remote=RemoteCalls(…).")
            raise StoppedError(Stage.EXECUTE, ErrorKind.EXECUTION, said, what_helps)
        loop, seconds = asyncio.get_running_loop(), call.seconds + self.remote.longest_wait
        try:
            return await self._on_this_loop(call, loop, seconds, partial(self.remote.perform, call, pool))
        except ToolFailed as failed:
            if isinstance(failed.cause, StoppedError):
                raise failed.cause from None
            raise

    async def _in_thread(self, call: Call) -> Any:
        loop, name = asyncio.get_running_loop(), call.invocation.tool.name
        inbox = self._inbox_of(loop)
        is_busy = has_callbacks(loop, unknown=False)
        run = _ThreadRun(call, inbox, self._pool, self._limits, at_once=not is_busy)
        soon = name not in self._slow and not is_busy  # or else others would wait too
        value = await self._wait(run, call.seconds, moment=min(_A_MOMENT, call.seconds) if soon else 0.0)
        if run.job.seconds >= _A_MOMENT:
            self._slow.add(name)
        elif not soon:
            self._slow.discard(name)
        if is_unfinished(value):
            left = call.seconds - (monotonic() - run.began)
            return await self._in_task(call, call.invocation.tool, left, lambda: value)
        return value

    async def _guarded(self, call: Call, begin: Callable[[], Any] | None) -> Outcome:
        """Run an async tool. Anything that it raises is its outcome, except the user's Ctrl-C.

        A function may return a coroutine or a generator instead of a result, as decorated ones do.
        """
        invocation, context = call.invocation, call.context
        tool = invocation.tool
        inside.set((invocation, context))
        try:
            value: Any = tool.start(invocation.params, context) if begin is None else begin()
            if type(value) is _COROUTINE:
                value = await value
            if type(value) in SCALARS:  # most need no look
                return True, value
            if is_unfinished(value):
                value = await finish(value, *_stream(call, self._limits))
            return True, settled(value)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            return False, error

    # Waiting and stopping

    async def _wait(self, run: _Run, seconds: float, moment: float = 0.0) -> Any:
        """Start a tool and return its value. If its time runs out or it is cancelled, stop it and raise `StoppedError`.

        For `moment` seconds the loop's thread itself waits: an outcome that comes through the loop takes longer than
        most sync tools run.
        """
        call, inbox = run.call, run.inbox
        tool, call_id, loop = call.invocation.tool, call.invocation.call_id, inbox.loop
        self._running[call_id] = run
        try:
            try:
                run.start()
                if moment:
                    inbox.wait(moment)
                if not run.waiter.done():
                    run.limit(seconds)
                # What the tool has reported must be delivered before its result.
                elif has_callbacks(loop, unknown=True) or loop.time() > self._turn_due:
                    self._turn_due = loop.time() + _TURN_SECONDS
                    await asyncio.sleep(0)
                reason = await run.waiter
            except asyncio.CancelledError:
                await self._stop(run)  # the work must not outlive its caller
                raise
            except TooManyStuck as error:
                said = phrase("`{name}` was not run: {error}.", name=tool.name, error=error.args[0])
                raise StoppedError(Stage.EXECUTE, ErrorKind.EXECUTION, said, phrase("Try again later.")) from None
            if reason is _DONE:
                assert run.outcome is not None  # noqa: S101 - `settle` sets both
                outcome, run.outcome = run.outcome, None  # or an exception would keep the run alive
                return _value_of(outcome)
            end = await self._stop(run)
        finally:
            if run.timer is not None:
                run.timer.cancel()
            if self._running.get(call_id) is run:  # callers choose the ids, and two calls may have the same
                del self._running[call_id]
        if isinstance(reason, StoppedError):
            raise reason
        own_words = call.context.stopped_words if call.context is not None else ""
        raise _cut_short(tool, reason, end, call.seconds, own_words)

    async def _stop(self, run: _Run) -> str:
        """Ask a tool to stop, and abandon it if it has not ended within its grace period. Returns how it ended.

        Cancelling the caller again, as anyio's scopes do repeatedly, does not shorten the grace period.
        """
        tool, context = run.call.invocation.tool, run.call.context
        loop = run.inbox.loop
        run.ended = ended = loop.create_future()
        if context is not None:
            context.cancellation.request()
        run.cancel()
        grace = self._limits.grace if tool.grace is None else tool.grace
        if self.remote is not None and self.pool_of(tool) is not None:
            grace += _REMOTE_GRACE
        if context is not None:
            grace = max(grace, _LEAST_GRACE)
        elif isinstance(run, _ThreadRun) and tool.style is _SYNC:
            grace = 0.0  # without a context it cannot know that it should stop
        cancellation = context.cancellation if context is not None else Cancellation()
        cancellation.allow(loop.time() + grace)  # calls that it has made may extend this
        again: asyncio.CancelledError | None = None
        while run.outcome is None and not run.is_blocked and (left := cancellation.until - loop.time()) > 0:
            try:
                await asyncio.wait({ended}, timeout=min(left, STALL))
            except asyncio.CancelledError as error:
                again = error
        end = run.leave()
        if end in _ENDINGS:
            run.call.record.abandoned = True
            if not run.is_over():
                run.abandoned = self._left
                self._left.add(run)
        if again is not None:
            raise again
        return end

    def _inbox_of(self, loop: asyncio.AbstractEventLoop) -> LoopInbox:
        inbox = self._inbox
        if inbox is None or inbox.loop is not loop:
            inbox = self._inbox = LoopInbox(loop)
        return inbox


def _force_end(task: asyncio.Task[Any], invocation: Invocation) -> None:
    """Close a task that ignored its cancellation, or make sure that nothing ever waits for it."""
    if task.done():
        return
    logger.warning("Tool %s ignored being cancelled (call %s)", invocation.tool.name, invocation.call_id)
    work = task.get_coro()
    assert isinstance(work, CoroutineType)  # noqa: S101 - `_guarded`
    try:
        work.close()  # code that swallows CancelledError rarely swallows GeneratorExit
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - anything that the tool raises
        logger.warning("Tool %s could not be ended: %s", invocation.tool.name, type(error).__name__)
        disown(task)
    task.cancel()


def _outcome_of(task: asyncio.Task[Outcome]) -> Outcome:
    try:
        return task.result()
    except BaseException as error:  # noqa: BLE001 - it was cancelled, or closed from outside
        return False, error


def _value_of(outcome: Outcome) -> Any:
    succeeded, value = outcome
    if succeeded:
        return value
    raise ToolFailed(value)


def _cut_short(tool: Tool[Any], reason: str, end: str, timeout: float, own_words: str) -> StoppedError:
    """The early exit of a call that was cancelled or timed out, by how its tool ended and what it says about that."""
    name, limit = tool.name, f"{timeout:g}"
    ending = _ENDINGS.get(end, "")
    details = {"abandoned": True} if ending else None
    too_long = phrase("`{name}` ran longer than its time limit of {seconds} s.", name=name, seconds=limit)
    kind = ErrorKind.CANCELLED if reason is _CANCELLED else ErrorKind.TIMEOUT
    if end is _RETURNED and not tool.read_only:
        said = phrase("`{name}` was cancelled.", name=name) if reason is _CANCELLED else too_long
        return StoppedError(Stage.EXECUTE, kind, joined(" ", [said, _RETURNED_ANYWAY]), _LOOK_FIRST)
    if reason is _CANCELLED:
        return _cancelled(tool, joined(" ", [phrase("It was cancelled."), ending]), details)
    if end is _UNSTARTED:
        too_long = phrase(
            "`{name}` was not run: no thread was free within its time limit of {seconds} s.", name=name, seconds=limit
        )
        return StoppedError(Stage.EXECUTE, kind, too_long, phrase("Try again later."))
    less = phrase("Ask for less at once, or for a longer time limit.")
    if end is not _BLOCKED:
        too_long = phrase(
            "`{name}` ran longer than its time limit of {seconds} s and was stopped.", name=name, seconds=limit
        )
    return StoppedError(Stage.EXECUTE, kind, joined(" ", [too_long, ending, own_words]), less, details)


def _held_up(tool: Tool[Any], watch: LoopWatch, *, begun: bool) -> StoppedError:
    """The early exit of a call that another one kept from running."""
    culprit = watch.culprit
    return StoppedError(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase(
            "`{name}` could not go on: {who} has blocked the event loop of the tools for {seconds} s.",
            name=tool.name,
            who=f"`{culprit.tool.name}`" if culprit is not None else phrase("something"),
            seconds=f"{watch.silent:.0f}",
        ),
        phrase("Try again.") if tool.read_only or not begun else _LOOK_FIRST,
        {"abandoned": True} if begun else None,
    )


def _cancelled(tool: Tool[Any], why: str, details: dict[str, Any] | None = None) -> StoppedError:
    message = joined(" ", [phrase("`{name}` did not finish.", name=tool.name), why])
    return StoppedError(Stage.EXECUTE, ErrorKind.CANCELLED, message, None, details)


def _stream(call: Call, limits: Limits) -> tuple[Callable[[Any], None], Collected]:
    """Where the pieces of a streaming tool go: to listeners, and into the result."""
    tool = call.invocation.tool
    show: Callable[[Any], None] = call.context.partial if call.context is not None else lambda piece: None
    return show, Collected(limits, tool.max_result, tool.nothing_yielded)
