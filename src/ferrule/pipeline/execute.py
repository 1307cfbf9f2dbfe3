"""Stage five, the only one with effects: runs a tool within its time, and never waits for one that will not stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.core.context import Cancellation, limit_time
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.loops import LateTimer, LoopInbox, disown, has_callbacks, loops_for_sync, start_task
from ferrule.core.phrases import joined, phrase
from ferrule.core.tool import Style
from ferrule.pipeline.loop_watch import NOTED, STALL, inside, watch_of
from ferrule.pipeline.streaming import Collected, drain, drain_sync, finish, is_iterator, is_unfinished, settled
from ferrule.pipeline.threads import Job, Outcome, TooManyStuck, WorkerPool

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    from ferrule.core.call import Limits
    from ferrule.core.tool import Invocation, Tool
    from ferrule.pipeline.stages import Call
    from ferrule.pipeline.tool_loops import LoopJob

logger = logging.getLogger("ferrule.calls")

_DONE, _TIME_IS_UP, _CANCELLED = "done", "time is up", "cancelled"
_STOPPED, _RETURNED, _LEFT, _BLOCKED = "stopped", "returned", "left", "blocked"
_ASYNC_STREAM, _SYNC, _SYNC_STREAM = Style.ASYNC_STREAM, Style.SYNC, Style.SYNC_STREAM
_LONGEST_HELD_UP = 30.0
"""Seconds that a call waits at least for a loop which another call blocks, before it ends as well."""
_A_MOMENT = 0.0001
"""What the loop's thread waits for a sync tool that was quick the last time; a turn of the loop takes as long."""
_QUICK_SECONDS = 0.003
"""How long quick sync tools that run one after the other may take before each gets a thread."""
_TURN_SECONDS = 0.005
"""How long quick sync tools, one after the other, may keep the loop from everything else."""
_SECONDS_TO_BE_HEARD = 0.05
"""For a tool without a grace period: the calls that it has made must still hear that they are to stop."""
_REMOTE_GRACE = 2.0
"""Extra seconds that a tool on another machine has to stop, for the way there and back."""
_LEAST_LEFT = 0.001
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
    """Seconds that a call may wait for a worker, besides what it may run."""

    def pool_of(self, tool: Tool[Any]) -> str | None:
        """The workers that a tool runs on; None for here."""
        ...

    def perform(self, call: Call, pool: str) -> Coroutine[Any, Any, Any]:
        """The value of a call that was run there; raises `StoppedError` if it failed. Cancelling it stops the tool."""
        ...


class _Timer:
    """A call's time. It does not pass while the user is asked, nor while the call cannot go on through no fault of its
    own: `excused` says for how many seconds that was so far, of which `most` count.
    """

    __slots__ = (
        "_began",
        "_end",
        "_excused",
        "_granted",
        "_handle",
        "_inbox",
        "_left",
        "_most",
        "_over",
        "_thread",
    )  # fmt: skip

    def __init__(
        self,
        seconds: float,
        end: Callable[[], None],
        inbox: LoopInbox,
        excused: Callable[[], float] | None,
        most: float,
    ) -> None:
        self._left, self._end, self._inbox, self._excused, self._most = seconds, end, inbox, excused, most
        self._began, self._granted, self._over = monotonic(), 0.0, False
        self._thread = threading.get_ident()
        self._handle: LateTimer | None = inbox.timers.start(seconds, self._look)

    def _look(self) -> None:
        self._count()
        if self._left > _LEAST_LEFT:
            self._handle = self._inbox.timers.start(self._left, self._look)
        else:
            self._handle = None
            self._end()

    def _count(self) -> None:
        """Subtract what has passed since the last look."""
        now, excused = monotonic(), min(self._excused(), self._most) if self._excused is not None else 0.0
        self._left -= max(0.0, now - self._began - (excused - self._granted))
        self._began, self._granted = now, excused

    def pause(self) -> None:
        self._in_loop(self._pause)

    def resume(self) -> None:
        self._in_loop(self._resume)

    def _in_loop(self, then: Callable[[], None]) -> None:
        """The tool may run in another thread than its timer."""
        if threading.get_ident() == self._thread:
            then()
        else:
            self._inbox.loop.call_soon_threadsafe(then)

    def _pause(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._count()

    def _resume(self) -> None:
        if not self._over and self._handle is None:
            left = self._left
            self._count()  # what passed meanwhile does not count
            self._left = left
            self._handle = self._inbox.timers.start(max(0.0, left), self._look)

    def cancel(self) -> None:
        self._over = True
        if self._handle is not None:
            self._handle.cancel()


class _Port(LoopInbox):
    """What the executor keeps about a loop whose calls it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.turn_due = 0.0
        """When quick sync tools have kept the loop from everything else for long enough."""
        self._jobs: list[Job] = []
        self._together: list[tuple[WorkerPool, deque[Job]]] = []
        self._looks = False

    def submit_with_others(self, job: Job, pool: WorkerPool) -> None:
        """Hand a quick job over together with all that are made in this turn of the loop: one thread is woken for all
        of them. If one turns out to be slow, those behind it get threads of their own.
        """
        if not self._jobs:
            self.loop.call_soon(self._submit, pool)
        self._jobs.append(job)

    def _submit(self, pool: WorkerPool) -> None:
        jobs, self._jobs = self._jobs, []
        try:
            together = pool.submit(*jobs)
        except RuntimeError as error:  # the system gives no thread
            for job in jobs:
                job.deliver((False, error))
        else:
            if len(jobs) > 1:
                self._together.append((pool, together))
                if not self._looks:
                    self._looks = True
                    self.loop.call_later(_QUICK_SECONDS, self._look, ())

    def _look(self, seen: Iterable[tuple[WorkerPool, deque[Job]]]) -> None:
        """Spread the jobs that were there at the last look."""
        for pool, together in seen:
            if together:
                pool.spread(together)
        fresh, self._together, self._looks = self._together, [], bool(self._together)
        if fresh:
            self.loop.call_later(_QUICK_SECONDS, self._look, fresh)


class _ToolRun:
    """A tool at work in a thread or in a task, as the loop that waits for it sees it."""

    outcome: Outcome | None = None
    ended: asyncio.Future[None] | None = None
    """Done when the tool is, once it was asked to stop."""
    cancel: Callable[[], object] | None = None
    """Asks it to stop, besides what its context says."""
    is_deaf: Callable[[], bool] | None = None
    """Whether it cannot hear at the moment that it is to stop."""
    excused: Callable[[], float] | None = None
    """Seconds for which it could not go on because of others."""
    leave: Callable[[], str]
    """Abandons it if it still runs; returns how it ended."""

    def __init__(self, inbox: LoopInbox) -> None:
        self.inbox = inbox
        self.waiter: asyncio.Future[str | StoppedError] = inbox.loop.create_future()
        """Done when the tool is, or when the call ends without it: with the reason."""

    def settle(self, outcome: Outcome | None = None) -> None:
        """The tool is done."""
        self.outcome = outcome
        self.end(_DONE)
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)

    def end(self, reason: str | StoppedError) -> None:
        """The call is over, whatever the tool does."""
        if not self.waiter.done():
            self.waiter.set_result(reason)


class Executor:
    """Runs tools: async ones in a task, sync ones in a thread, each within a time limit.

    With `own_loop`, async tools run on the tools' loop instead of the caller's, unless they say that they never block.
    """

    def __init__(self, limits: Limits, *, own_loop: bool = False, remote: RemoteRunner | None = None) -> None:
        self._limits = limits
        self.own_loop = own_loop
        self.remote = remote
        self._pool = WorkerPool(limits.threads, limits.stuck_threads)
        self._left: list[Callable[[], bool]] = []
        """For each abandoned task, whether it is over."""
        self._running: dict[str, _ToolRun] = {}
        self._port: _Port | None = None
        self._slow: set[str] = set()
        """Sync tools that took longer than a moment the last time."""
        self.unwanted: set[str] = set()
        """Calls that were cancelled before they began."""

    @property
    def abandoned(self) -> int:
        """How many abandoned calls have not ended yet."""
        self._left = [is_over for is_over in self._left if not is_over()]
        return len(self._left) + self._pool.stuck

    def cancel(self, call_id: str) -> bool:
        """Stop a running call, whose result will say so. False if no such call is running."""
        running = self._running.get(call_id)
        if running is None:
            return False
        running.inbox.post(running.end, _CANCELLED)
        return True

    def pool_of(self, tool: Tool[Any]) -> str | None:
        """The workers that a tool runs on; None for here."""
        if self.remote is not None:
            return self.remote.pool_of(tool)
        return tool.remote or None

    def execute(self, call: Call) -> Coroutine[Any, Any, Any]:
        """The tool's value. Raises `ToolFailed` with what the tool raised, or `StoppedError` if it was cut short."""
        tool = call.invocation.tool
        if self.unwanted and call.invocation.call_id in self.unwanted:
            raise _cancelled(tool, phrase("It was cancelled."))
        style = tool.style
        loop = asyncio.get_running_loop()
        if (self.remote is not None or tool.remote) and (pool := self.pool_of(tool)) is not None:
            return self._remotely(call, pool, loop)
        if style is _SYNC or style is _SYNC_STREAM:
            return self._in_thread(call, loop)
        if (self.own_loop or loop in loops_for_sync) and tool.may_block:
            return self._on_tools_loop(call, loop)
        return self._on_this_loop(call, loop)

    # Where a tool runs

    async def _on_this_loop(self, call: Call, loop: asyncio.AbstractEventLoop) -> Any:
        body = self._begin(call)
        began = monotonic()
        task = start_task(_guard(body, call), loop)
        spent = monotonic() - began
        if spent >= STALL:
            _note_blocked(call, watch_of(loop).first_step_took(call.invocation, began))
        if task.done():  # it never waited, as most do not
            value = _task_value(task, call)
        else:
            value = await self._value_of(call, task, body, max(0.0, call.seconds - spent), loop)
        return await self._finish(call, value, loop) if is_unfinished(value) else value

    async def _remotely(self, call: Call, pool: str, loop: asyncio.AbstractEventLoop) -> Any:
        """Run a call on another machine, and wait for it here."""
        tool = call.invocation.tool
        if self.remote is None:
            raise _not_connected(tool, pool)
        body = self.remote.perform(call, pool)
        task = start_task(_guard(body, call), loop)
        try:
            return await self._value_of(call, task, body, call.seconds + self.remote.longest_wait, loop)
        except ToolFailed as failed:
            if isinstance(failed.cause, StoppedError):
                raise failed.cause from None
            raise

    async def _value_of(
        self,
        call: Call,
        task: asyncio.Task[Outcome],
        body: Coroutine[Any, Any, Any],
        seconds: float,
        loop: asyncio.AbstractEventLoop,
    ) -> Any:
        """The value of a task of this loop, within so many seconds."""
        if task.done():
            return _task_value(task, call)
        invocation, running = call.invocation, _ToolRun(self._port_of(loop))
        task.add_done_callback(lambda _: running.settle())
        running.cancel = task.cancel

        def leave() -> str:
            if task.done():
                return _RETURNED if not task.cancelled() and task.result()[0] else _STOPPED
            self._left.append(task.done)
            _put_down(task, body, invocation)
            return _LEFT

        running.leave = leave
        watch = watch_of(loop)
        watch.enter(invocation)
        before = watch.lost(invocation)
        running.excused = lambda: watch.lost(invocation) - before
        try:
            await self._wait(call, running, seconds)
        finally:
            _note_blocked(call, watch.leave(invocation))
        return _task_value(task, call)

    async def _on_tools_loop(
        self, call: Call, loop: asyncio.AbstractEventLoop, begun: Coroutine[Any, Any, Any] | None = None
    ) -> Any:
        """Run an async tool on the tools' loop, and wait for it here; `begun` is its coroutine, if there is one.

        If the tool blocks that loop, it is abandoned at its time limit. If another one does, the time does not count.
        """
        from ferrule.pipeline.tool_loops import LoopJob, tool_loops

        invocation, running = call.invocation, _ToolRun(self._port_of(loop))
        tool = invocation.tool
        bodies: list[Coroutine[Any, Any, Any]] = [begun] if begun is not None else []

        async def work() -> Outcome:
            try:
                if not bodies:
                    bodies.append(self._begin(call))
                outcome = await _guard(bodies[0], call)
                if outcome[0] and is_unfinished(outcome[1]):
                    bodies[0] = finish(outcome[1], _shower(call), self._collect(call))
                    outcome = await _guard(bodies[0], call)
            except ToolFailed as failed:
                outcome = False, failed.cause
            except KeyboardInterrupt as error:  # the tool's own: the user's reaches the main thread alone
                outcome = False, error
            return outcome

        def leave() -> str:
            if job.over:
                return _RETURNED if running.outcome is not None and running.outcome[0] else _STOPPED
            if not job.abandon(lambda task: _put_down(task, bodies[0], invocation)):
                if begun is not None:
                    begun.close()
                return _STOPPED
            self._left.append(lambda: job.over)
            return _BLOCKED if job.blocked else _LEFT

        job = LoopJob(invocation, work, running.inbox, running.settle)
        running.cancel, running.leave, running.excused = job.cancel, leave, job.excused
        running.is_deaf = lambda: job.silent > 0
        try:
            tool_loops.submit(job)
        except TooManyStuck as error:
            raise _too_many(tool, error) from None

        def time_is_up() -> None:
            is_held_up = job.silent and job.culprit is not invocation
            running.end(_held_up(tool, job) if is_held_up else _TIME_IS_UP)

        try:
            await self._wait(call, running, call.seconds, time_is_up)
        finally:
            _note_blocked(call, job.blocked, NOTED if job.over else STALL)
        if running.outcome is None:
            raise _cancelled(tool, phrase("It was cancelled from inside."))
        return _value(running.outcome)

    async def _in_thread(self, call: Call, loop: asyncio.AbstractEventLoop) -> Any:
        invocation, context, port = call.invocation, call.context, self._port_of(loop)
        running = _ToolRun(port)
        tool, params, call_id = invocation.tool, invocation.params, invocation.call_id

        def work() -> Any:
            inside.set((invocation, context))
            value = tool.start(params, context)
            if tool.style is not _SYNC_STREAM and not is_iterator(value):
                return settled(value)
            return drain_sync(value, _shower(call), self._collect(call), running.waiter.done)

        def leave() -> str:
            if running.outcome is None and self._pool.abandon(job):
                return _LEFT
            return _RETURNED if running.outcome is not None and running.outcome[0] else _STOPPED

        is_quick = tool.name not in self._slow
        soon = is_quick and not has_callbacks(loop, unknown=False)  # a busy loop has better to do than to wait
        job = Job(work, port, running.settle, soon=soon)
        try:
            self._pool.check_room()
        except TooManyStuck as error:
            raise _too_many(tool, error) from None
        self._running[call_id] = running  # it can be cancelled from the moment it runs
        if soon or not is_quick:
            self._pool.submit(job)
        else:
            port.submit_with_others(job, self._pool)
        outcome = job.wait(min(_A_MOMENT, call.seconds)) if soon else None
        if outcome is not None:
            running.outcome = outcome
            # Callbacks may be the tool's own and come before its end: a report, or that the call is cancelled.
            if has_callbacks(loop, unknown=True) or loop.time() > port.turn_due:
                port.turn_due = loop.time() + _TURN_SECONDS
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    self._let_go(call_id, running)
                    raise
        if outcome is not None and not running.waiter.done():
            self._let_go(call_id, running)
        else:
            if soon:
                self._slow.add(tool.name)
            running.leave = leave
            await self._wait(call, running, call.seconds)
            (self._slow.discard if job.seconds < _A_MOMENT else self._slow.add)(tool.name)
        assert running.outcome is not None  # noqa: S101 - a thread always delivers one
        value = _value(running.outcome)
        return await self._finish(call, value, loop) if is_unfinished(value) else value

    def _begin(self, call: Call) -> Coroutine[Any, Any, Any]:
        """A tool's coroutine. Making it may fail already, for example when a wrapper refuses its arguments."""
        tool = call.invocation.tool
        try:
            body = tool.start(call.invocation.params, call.context)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            raise ToolFailed(error) from None
        if tool.style is _ASYNC_STREAM:
            return drain(body, _shower(call), self._collect(call))
        return body

    async def _finish(self, call: Call, value: Any, loop: asyncio.AbstractEventLoop) -> Any:
        """The result of a coroutine or generator that a function returned instead of one, as decorators do."""
        body = finish(value, _shower(call), self._collect(call))
        if (self.own_loop or loop in loops_for_sync) and call.invocation.tool.may_block:
            return await self._on_tools_loop(call, loop, body)
        task = start_task(_guard(body, call), loop)
        return await self._value_of(call, task, body, call.seconds, loop)

    def _collect(self, call: Call) -> Collected:
        tool = call.invocation.tool
        return Collected(self._limits, tool.max_result, tool.nothing_yielded)

    # Waiting, and stopping

    async def _wait(
        self, call: Call, running: _ToolRun, seconds: float, time_is_up: Callable[[], None] | None = None
    ) -> None:
        """Return when the tool is done; otherwise stop it, and raise what cut it short."""
        invocation, context, inbox = call.invocation, call.context, running.inbox
        then = time_is_up or partial(running.end, _TIME_IS_UP)
        if context is None and running.excused is None:  # nothing ever stops its time
            timer = inbox.timers.start(seconds, then)
        else:
            timer = _Timer(seconds, then, inbox, running.excused, max(call.seconds, _LONGEST_HELD_UP))
            if context is not None:
                limit_time(context, timer)
        self._running[invocation.call_id] = running
        try:
            try:
                reason = await running.waiter
            except asyncio.CancelledError:
                await self._stop(call, running)  # the work must not outlive its caller
                raise
            if reason is _DONE:
                return
            end = await self._stop(call, running)
        finally:
            timer.cancel()
            self._let_go(invocation.call_id, running)
        if isinstance(reason, StoppedError):
            raise reason
        own_words = context.stopped_words if context is not None else ""
        raise _cut_short(invocation.tool, reason, end, call.seconds, own_words)

    async def _stop(self, call: Call, running: _ToolRun) -> str:
        """Ask a tool to stop, and abandon it if it has not ended within its grace period. Returns how it ended.

        A caller that is cancelled again and again, as anyio's scopes do it, waits nevertheless: clean-up is under way.
        """
        tool, context = call.invocation.tool, call.context
        loop = running.inbox.loop
        running.ended = ended = loop.create_future()
        if context is not None:
            context.cancellation.request()
        if running.cancel is not None:
            running.cancel()
        grace = self._limits.grace if tool.grace is None else tool.grace
        if self.remote is not None and self.pool_of(tool) is not None:
            grace += _REMOTE_GRACE
        if context is not None:
            grace = max(grace, _SECONDS_TO_BE_HEARD)
        elif tool.style in (_SYNC, _SYNC_STREAM):
            grace = 0.0  # it has no way to hear of it
        cancellation = context.cancellation if context is not None else Cancellation()
        cancellation.allow(loop.time() + grace)  # the calls that it has made may extend this
        again: asyncio.CancelledError | None = None
        while running.outcome is None and not ended.done() and (left := cancellation.until - loop.time()) > 0:
            if running.is_deaf is not None:
                if running.is_deaf():
                    break
                left = min(left, STALL)
            try:
                await asyncio.wait({ended}, timeout=left)
            except asyncio.CancelledError as error:
                again = error
        end = running.leave()
        if again is not None:
            raise again
        return end

    def _let_go(self, call_id: str, running: _ToolRun) -> None:
        if self._running.get(call_id) is running:  # callers choose the id, and may use it twice
            del self._running[call_id]

    def _port_of(self, loop: asyncio.AbstractEventLoop) -> _Port:
        port = self._port
        if port is None or port.loop is not loop:
            port = self._port = _Port(loop)
        return port


async def _guard(body: Awaitable[Any], call: Call) -> Outcome:
    """Turn whatever a tool raises into an outcome; only cancelling and the user's Ctrl-C go through."""
    inside.set((call.invocation, call.context))
    try:
        return True, settled(await body)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
        return False, error


def _put_down(task: asyncio.Task[Any], body: Coroutine[Any, Any, Any], invocation: Invocation) -> None:
    """End a task that ignores cancelling from outside, or see to it that nothing ever waits for it."""
    logger.warning("Tool %s ignored being cancelled (call %s)", invocation.tool.name, invocation.call_id)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio reports it as lost
    try:
        body.close()  # what swallows CancelledError seldom swallows GeneratorExit
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the tool's own, while it is put down
        logger.warning("Tool %s could not be ended: %s", invocation.tool.name, type(error).__name__)
        disown(task)
    task.cancel()


def _note_blocked(call: Call, seconds: float, least: float = NOTED) -> None:
    if seconds >= least:
        call.blocked += seconds


def _task_value(task: asyncio.Task[Outcome], call: Call) -> Any:
    if task.cancelled():
        raise _cancelled(call.invocation.tool, phrase("It was cancelled from inside."))
    return _value(task.result())


def _value(outcome: Outcome) -> Any:
    succeeded, value = outcome
    if succeeded:
        return value
    raise ToolFailed(value)


def _cut_short(tool: Tool[Any], reason: str, end: str, timeout: float, own_words: str) -> StoppedError:
    """What a call came to that was cancelled or took too long, by how its tool ended and what it says of that."""
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
    less = phrase("Ask for less at once, or for a longer time limit.")
    if end is not _BLOCKED:
        too_long = phrase(
            "`{name}` ran longer than its time limit of {seconds} s and was stopped.", name=name, seconds=limit
        )
    return StoppedError(Stage.EXECUTE, kind, joined(" ", [too_long, ending, own_words]), less, details)


def _held_up(tool: Tool[Any], job: LoopJob) -> StoppedError:
    """What a call came to that another one kept from going on."""
    culprit = job.culprit
    return StoppedError(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase(
            "`{name}` could not go on: {who} has blocked the event loop of the tools for {seconds} s.",
            name=tool.name,
            who=f"`{culprit.tool.name}`" if culprit is not None else phrase("something"),
            seconds=f"{job.silent:.0f}",
        ),
        phrase("Try again.") if tool.read_only or not job.begun else _LOOK_FIRST,
        {"abandoned": True} if job.begun else None,
    )


def _too_many(tool: Tool[Any], error: TooManyStuck) -> StoppedError:
    return StoppedError(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase("`{name}` was not run: {error}.", name=tool.name, error=error.args[0]),
        phrase("Try again later."),
    )


def _not_connected(tool: Tool[Any], pool: str) -> StoppedError:
    return StoppedError(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase(
            "`{name}` was not run: it runs on the workers of the pool `{pool}`, and this program has no connection to "
            "them.",
            name=tool.name,
            pool=pool,
        ),
        phrase("Set `remote.url` in the settings, or give the Runtime remote=RemoteCalls(…)."),
    )


def _cancelled(tool: Tool[Any], why: str, details: dict[str, Any] | None = None) -> StoppedError:
    message = joined(" ", [phrase("`{name}` did not finish.", name=tool.name), why])
    return StoppedError(Stage.EXECUTE, ErrorKind.CANCELLED, message, None, details)


def _shower(call: Call) -> Callable[[Any], None]:
    return call.context.partial if call.context is not None else _show_nobody


def _show_nobody(piece: Any) -> None:
    """Nobody watches this call."""
