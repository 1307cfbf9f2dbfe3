"""Stage five, the only one with effects: runs a tool within its time, and never waits for one that will not stop."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from ferrule.core.context import Cancellation, limit_time
from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.tool import Style
from ferrule.pipeline.eager import callbacks_wait, disown, start_task
from ferrule.pipeline.streaming import Collected, drain, drain_sync
from ferrule.pipeline.threads import Job, Outcome, TooManyStuck, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ferrule.core.call import Invocation
    from ferrule.core.context import ToolContext
    from ferrule.core.tool import Tool
    from ferrule.pipeline.limits import Limits

logger = logging.getLogger("ferrule.calls")

_DONE, _TIME_IS_UP, _CANCELLED = "done", "time is up", "cancelled"
_STOPPED, _RETURNED, _LEFT = "stopped", "returned", "left"
_ASYNC_STREAM, _SYNC, _SYNC_STREAM = Style.ASYNC_STREAM, Style.SYNC, Style.SYNC_STREAM
_A_MOMENT = 0.0001
"""What the loop's thread waits for a sync tool that was quick the last time; a turn of the loop would take as long."""
_TURN_SECONDS = 0.005
"""How long quick sync tools, one after the other, may keep the loop from everything else."""
_SECONDS_TO_BE_HEARD = 0.05
"""For a tool that has no time to stop: the calls that it has made must hear of it all the same, or go on for ever."""
_RETURNED_ANYWAY = "It returned before it could be stopped, so what it was to do may be done."
_LOOK_FIRST = "Look whether it is done before you do it again."


class ToolFailed(Exception):  # noqa: N818 - carries what a tool raised to the stage that words it
    """A tool raised; `cause` is what."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class _Timer:
    """A call's time. It stands still while the person is asked."""

    __slots__ = ("_began", "_end", "_handle", "_left", "_loop", "_over")

    def __init__(self, seconds: float, end: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._left, self._end, self._loop = seconds, end, loop
        self._began, self._over = loop.time(), False
        self._handle: asyncio.TimerHandle | None = loop.call_later(seconds, end)

    def pause(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._left -= self._loop.time() - self._began

    def resume(self) -> None:
        if self._over or self._handle is not None:
            return
        self._began = self._loop.time()
        self._handle = self._loop.call_later(max(0.0, self._left), self._end)

    def cancel(self) -> None:
        self._over = True
        if self._handle is not None:
            self._handle.cancel()


class Executor:
    """Runs tools: async ones in a task, sync ones in a thread, each within a time limit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = WorkerPool(limits.threads, limits.stuck_threads)
        self._stubborn: set[asyncio.Task[Any]] = set()
        self._waiters: dict[str, asyncio.Future[str]] = {}
        self._slow: set[str] = set()
        self._turn_due = 0.0

    @property
    def abandoned(self) -> int:
        """How many given-up calls have not ended yet."""
        return len(self._stubborn) + self._pool.stuck

    def cancel(self, call_id: str) -> bool:
        """Stop a running call, whose result will say so. False when no such call is running."""
        waiter = self._waiters.get(call_id)
        if waiter is None:
            return False
        waiter.get_loop().call_soon_threadsafe(_settle, waiter, _CANCELLED)
        return True

    def _let_go(self, call_id: str, waiter: asyncio.Future[str]) -> None:
        if self._waiters.get(call_id) is waiter:  # the id is the caller's, who may use it twice
            del self._waiters[call_id]

    async def execute(self, invocation: Invocation, context: ToolContext | None, timeout: float) -> Any:
        """The tool's value. Raises `ToolFailed` with what the tool raised, or `Stopped` when it was cut short."""
        style = invocation.tool.style
        loop = asyncio.get_running_loop()
        if style is _SYNC or style is _SYNC_STREAM:
            return await self._in_thread(invocation, context, timeout, loop)
        body = self._begin(invocation, context)
        task = start_task(_guard(body), loop)
        if task.done() and not task.cancelled():  # it never waited, as most do: nothing more to watch over
            return _value(task.result())
        return await self._in_task(task, body, invocation, context, timeout, loop)

    async def _in_task(
        self,
        task: asyncio.Task[Any],
        body: Coroutine[Any, Any, Any],
        invocation: Invocation,
        context: ToolContext | None,
        timeout: float,
        loop: asyncio.AbstractEventLoop,
    ) -> Any:
        if not task.done():
            await self._wait(task, body, invocation, context, timeout, loop)
        if task.cancelled():
            raise _cancelled(invocation.tool, "It was cancelled from inside.")
        return _value(task.result())

    def _begin(self, invocation: Invocation, context: ToolContext | None) -> Coroutine[Any, Any, Any]:
        """A tool's coroutine; making it may fail already, as when a wrapper refuses its arguments."""
        try:
            body = invocation.tool.start(invocation.params, context)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            raise ToolFailed(error) from None
        if invocation.tool.style is _ASYNC_STREAM:
            return drain(body, _shower(context), self._collect(invocation))
        return body

    def _grace(self, invocation: Invocation) -> float:
        own = invocation.tool.grace
        return self._limits.grace if own is None else own

    def _collect(self, invocation: Invocation) -> Collected:
        return Collected(self._limits, invocation.tool.max_result)

    async def _wait(
        self,
        task: asyncio.Task[Any],
        body: Coroutine[Any, Any, Any],
        invocation: Invocation,
        context: ToolContext | None,
        timeout: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Wait for a task; on time-out or cancelling, stop it and raise."""
        waiter: asyncio.Future[str] = loop.create_future()
        task.add_done_callback(lambda _: _settle(waiter, _DONE))

        async def stop() -> str:
            task.cancel()
            try:
                ended = await _ends_in_time(task, self._grace(invocation), context, loop)
            finally:  # also when the caller was cancelled again meanwhile
                if not task.done():
                    self._give_up_on(task, body, invocation)
            if not ended:
                return _LEFT
            return _RETURNED if not task.cancelled() and task.result()[0] else _STOPPED

        await self._await(waiter, stop, invocation, context, timeout, loop)

    async def _in_thread(
        self,
        invocation: Invocation,
        context: ToolContext | None,
        timeout: float,
        loop: asyncio.AbstractEventLoop,
    ) -> Any:
        tool, params = invocation.tool, invocation.params
        waiter: asyncio.Future[str] = loop.create_future()
        outcomes: list[Outcome] = []

        def drained() -> Any:
            return drain_sync(tool.start(params, context), _shower(context), self._collect(invocation))

        def settle(outcome: Outcome) -> None:
            outcomes.append(outcome)
            _settle(waiter, _DONE)
            if ended is not None:
                _settle(ended, None)

        ended: asyncio.Future[None] | None = None
        work = drained if tool.style is _SYNC_STREAM else partial(tool.start, params, context)
        soon = tool.name not in self._slow
        job = Job(work, loop, settle, soon=soon)

        async def stop() -> str:
            # The cooperative way first (the context says «cancelled»), then by force.
            nonlocal ended
            ended = loop.create_future()
            left = False
            try:
                if not outcomes:
                    await _ends_in_time(ended, self._grace(invocation) if context is not None else 0.0, context, loop)
            finally:  # also when the caller was cancelled again meanwhile
                left = not outcomes and self._pool.abandon(job)
            if left:
                return _LEFT
            return _RETURNED if outcomes and outcomes[0][0] else _STOPPED

        self._waiters[invocation.call_id] = waiter  # it can be cancelled from the moment it runs
        try:
            self._pool.submit(job)
        except TooManyStuck as error:
            self._let_go(invocation.call_id, waiter)
            raise Stopped(
                Stage.EXECUTE, ErrorKind.EXECUTION, f"`{tool.name}` was not run: {error}.", "Try again later."
            ) from None
        outcome = job.wait(min(_A_MOMENT, timeout)) if soon else None
        if outcome is not None:
            outcomes.append(outcome)
            # Callbacks that wait may be the tool's own and come before its end: a report, or that it is cancelled.
            if callbacks_wait(loop) or loop.time() > self._turn_due:
                self._turn_due = loop.time() + _TURN_SECONDS
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    self._let_go(invocation.call_id, waiter)
                    raise
        if outcome is not None and not waiter.done():
            self._let_go(invocation.call_id, waiter)
        else:
            self._slow.add(tool.name)  # nobody waits for another call of it before this one has told how long it took
            await self._await(waiter, stop, invocation, context, timeout, loop)
            if job.seconds < _A_MOMENT:
                self._slow.discard(tool.name)
        value = _value(outcomes[0])
        if type(value) is not str and asyncio.iscoroutine(value):  # around an async function, as decorators make them
            return await self._in_task(start_task(_guard(value), loop), value, invocation, context, timeout, loop)
        return value

    async def _await(
        self,
        waiter: asyncio.Future[str],
        stop: Callable[[], Awaitable[str]],
        invocation: Invocation,
        context: ToolContext | None,
        timeout: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Return when the work is done; otherwise stop it, and raise what cut it short."""
        timer = _Timer(timeout, lambda: _settle(waiter, _TIME_IS_UP), loop)
        if context is not None:
            limit_time(context, timer)
        self._waiters[invocation.call_id] = waiter
        try:
            try:
                reason = await waiter
            except asyncio.CancelledError:
                # The caller was cancelled: the work must not outlive it, and the caller's wish goes on up.
                await _stopping(context, stop)
                raise
            if reason is _DONE:
                return
            end = await _stopping(context, stop)  # only once: one who is cancelled meanwhile waits for its end as well
        finally:
            timer.cancel()
            self._let_go(invocation.call_id, waiter)
        own_words = context.stopped_words if context is not None else ""
        raise _cut_short(invocation.tool, reason, end, timeout, own_words)

    def _give_up_on(self, task: asyncio.Task[Any], body: Coroutine[Any, Any, Any], invocation: Invocation) -> None:
        """Leave a task that ignores cancelling behind, after one last try to end it from outside."""
        logger.warning("Tool %s ignored being cancelled (call %s)", invocation.tool.name, invocation.call_id)
        self._stubborn.add(task)
        task.add_done_callback(self._forget)
        try:
            body.close()  # what swallows CancelledError seldom swallows GeneratorExit
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the tool's own, while it was put down
            logger.warning("Tool %s could not be ended: %s", invocation.tool.name, type(error).__name__)
            disown(task)
        task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._stubborn.discard(task)
        if not task.cancelled():
            task.exception()  # seen, so that asyncio does not report it as lost


async def _guard(body: Awaitable[Any]) -> Outcome:
    """Turn whatever a tool raises into an outcome; only cancelling and the person's Ctrl-C go through."""
    try:
        return True, await body
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
        return False, error


async def _stopping(context: ToolContext | None, stop: Callable[[], Awaitable[str]]) -> str:
    if context is not None:
        context.cancellation.request()
    return await stop()


async def _ends_in_time(
    future: asyncio.Future[Any], grace: float, context: ToolContext | None, loop: asyncio.AbstractEventLoop
) -> bool:
    """Whether it ends within its grace, or that of the calls it has made, which are told to stop with it.

    A caller that is cancelled again and again, as anyio's scopes do it, waits all the same: cleaning up is under way.
    """
    cancellation = context.cancellation if context is not None else Cancellation()
    cancellation.allow(loop.time() + (grace if context is None else max(grace, _SECONDS_TO_BE_HEARD)))
    again: asyncio.CancelledError | None = None
    while not future.done() and (left := cancellation.until - loop.time()) > 0:
        try:
            await asyncio.wait({future}, timeout=left)
        except asyncio.CancelledError as error:
            again = error
    if again is not None:
        raise again
    return future.done()


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _value(outcome: Outcome) -> Any:
    succeeded, value = outcome
    if succeeded:
        return value
    raise ToolFailed(value)


def _cut_short(tool: Tool[Any], reason: str, end: str, timeout: float, own_words: str) -> Stopped:
    """What a call came to that was cancelled or took too long, by how its tool ended and what it says of that."""
    ending = " It did not stop when told to and was abandoned." if end is _LEFT else ""
    details = {"abandoned": True} if end is _LEFT else None
    too_long = f"`{tool.name}` ran longer than its time limit of {timeout:g} s"
    kind = ErrorKind.CANCELLED if reason is _CANCELLED else ErrorKind.TIMEOUT
    if end is _RETURNED and not tool.read_only:
        said = f"`{tool.name}` was cancelled" if reason is _CANCELLED else too_long
        return Stopped(Stage.EXECUTE, kind, f"{said}. {_RETURNED_ANYWAY}", _LOOK_FIRST)
    if reason is _CANCELLED:
        return _cancelled(tool, f"It was cancelled.{ending}", details)
    less = "Ask for less at once, or for a longer time limit."
    own = f" {own_words}" if own_words else ""
    return Stopped(Stage.EXECUTE, kind, f"{too_long} and was stopped.{ending}{own}", less, details)


def _cancelled(tool: Tool[Any], why: str, details: dict[str, Any] | None = None) -> Stopped:
    return Stopped(Stage.EXECUTE, ErrorKind.CANCELLED, f"`{tool.name}` did not finish. {why}", None, details)


def _shower(context: ToolContext | None) -> Callable[[Any], None]:
    return context.partial if context is not None else _show_nobody


def _show_nobody(piece: Any) -> None:
    """Nobody watches this call."""
