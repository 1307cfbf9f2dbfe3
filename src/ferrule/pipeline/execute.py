"""Stage five, the only one with effects: runs a tool within its time, and never waits for one that will not stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

from ferrule.core.context import Cancellation, limit_time
from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.loops import LateTimer, LateTimers, callbacks_wait, disown, is_busy, loops_for_sync, start_task
from ferrule.core.phrases import joined, phrase
from ferrule.core.tool import Style
from ferrule.pipeline.streaming import Collected, drain, drain_sync, finish, is_iterator, is_unfinished, settled
from ferrule.pipeline.threads import Job, Outcome, TooManyStuck, WorkerPool, outcomes_for
from ferrule.pipeline.tool_loops import NOTED, STALL, inside, watch_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ferrule.core.context import ToolContext
    from ferrule.core.tool import Invocation, Tool
    from ferrule.pipeline.stages import Call, Limits
    from ferrule.pipeline.tool_loops import LoopJob

logger = logging.getLogger("ferrule.calls")

_DONE, _TIME_IS_UP, _CANCELLED, _HELD_UP = "done", "time is up", "cancelled", "held up"
_STOPPED, _RETURNED, _LEFT, _BLOCKED = "stopped", "returned", "left", "blocked"
_ASYNC_STREAM, _SYNC, _SYNC_STREAM = Style.ASYNC_STREAM, Style.SYNC, Style.SYNC_STREAM
_LONGEST_HELD_UP = 30.0
"""Seconds that a call waits at least for a loop which another call blocks, before it is given up as well."""
_A_MOMENT = 0.0001
"""What the loop's thread waits for a sync tool that was quick the last time; a turn of the loop would take as long."""
_LONG = 1.0
"""A time limit that may be watched a little late at first."""
_RELIEF_SECONDS = 0.002
"""How often it is looked whether calls stand behind another that is slow, while any run."""
_TURN_SECONDS = 0.005
"""How long quick sync tools, one after the other, may keep the loop from everything else."""
_SECONDS_TO_BE_HEARD = 0.05
"""For a tool that has no time to stop: the calls that it has made must hear of it all the same, or go on for ever."""
_REMOTE_GRACE = 2.0
"""Seconds longer that a tool on another machine has to stop, for the way there and back."""
_RETURNED_ANYWAY = phrase("It returned before it could be stopped, so it may have done its work.")
_LOOK_FIRST = phrase("Check whether it is done before you do it again.")


_ENDINGS = {
    _LEFT: phrase("It did not stop when told to and was abandoned."),
    _BLOCKED: phrase("It blocked its event loop, so it could not be stopped, and was abandoned."),
}
_LEAST_LEFT = 0.001


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
        """The value of a call that was run there; raises `Stopped` where it failed. Cancelling it stops the tool."""
        ...


class _Timer:
    """A call's time. It stands still while the person is asked, and while the loop does through no fault of the call:
    `excused` says for how long that was.
    """

    __slots__ = ("_began", "_end", "_excused", "_granted", "_handle", "_left", "_loop", "_over", "_thread")

    def __init__(
        self, seconds: float, end: Callable[[], None], loop: asyncio.AbstractEventLoop, excused: Callable[[], float]
    ) -> None:
        self._left, self._end, self._loop, self._excused = seconds, end, loop, excused
        self._began, self._granted, self._over = loop.time(), 0.0, False
        self._thread = threading.get_ident()
        self._handle: asyncio.TimerHandle | None = loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._count()
        if self._left > _LEAST_LEFT:
            self._handle = self._loop.call_later(self._left, self._look)
        else:
            self._handle = None
            self._end()

    def _count(self) -> None:
        """Take off what has been used up since the last look."""
        now, excused = self._loop.time(), self._excused()
        self._left -= max(0.0, now - self._began - (excused - self._granted))
        self._began, self._granted = now, excused

    def pause(self) -> None:
        self._in_loop(self._pause)

    def resume(self) -> None:
        self._in_loop(self._resume)

    def _in_loop(self, then: Callable[[], None]) -> None:
        """A tool may run in another thread than its clock."""
        if threading.get_ident() == self._thread:
            then()
        else:
            self._loop.call_soon_threadsafe(then)

    def _pause(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._count()

    def _resume(self) -> None:
        if self._over or self._handle is not None:
            return
        self._began, self._granted = self._loop.time(), self._excused()
        self._handle = self._loop.call_later(max(0.0, self._left), self._look)

    def cancel(self) -> None:
        self._over = True
        if self._handle is not None:
            self._handle.cancel()


class _LoopNotes:
    """What an executor keeps about an event loop whose calls it runs."""

    __slots__ = ("quick", "relieving", "timers", "turn_due")

    def __init__(self) -> None:
        self.quick: list[Job] = []
        """Jobs that are about to be handed to a thread."""
        self.timers = LateTimers()
        self.turn_due = 0.0
        self.relieving = False


class Executor:
    """Runs tools: async ones in a task, sync ones in a thread, each within a time limit.

    With `own_loop`, async tools run on a loop apart from the caller's, unless they say that they never block it.
    """

    def __init__(self, limits: Limits, *, own_loop: bool = False, remote: RemoteRunner | None = None) -> None:
        self._limits = limits
        self.own_loop = own_loop
        self.remote = remote
        self._pool = WorkerPool(limits.threads, limits.stuck_threads)
        self._stubborn: set[object] = set()
        self._waiters: dict[str, asyncio.Future[str]] = {}
        self._slow: set[str] = set()
        self._quick: set[str] = set()
        """Tools whose calls are over at once, going by the last of them."""
        self.unwanted: set[str] = set()
        """Calls that were cancelled before they began."""
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopNotes] = WeakKeyDictionary()
        self._last_loop: tuple[Callable[[], object], _LoopNotes] = (lambda: None), _LoopNotes()
        self.blocked: dict[str, float] = {}
        """Seconds that calls blocked their event loop for, by id, until somebody takes them from here."""

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

    def execute(self, call: Call) -> Coroutine[Any, Any, Any]:
        """The tool's value. Raises `ToolFailed` with what the tool raised, or `Stopped` when it was cut short."""
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

    async def _on_this_loop(self, call: Call, loop: asyncio.AbstractEventLoop) -> Any:
        body = self._begin(call)
        began = monotonic()
        task = start_task(_guard(body, call), loop)
        spent = monotonic() - began
        if spent < STALL and task.done() and not task.cancelled():  # it never waited, as most do: nothing to watch over
            value = _value(task.result())
            if not is_unfinished(value):
                return value
            return await self._finish(call, value, loop)
        return await self._in_task(call, task, body, spent, loop)

    def pool_of(self, tool: Tool[Any]) -> str | None:
        """The workers that a tool runs on; None for here."""
        if self.remote is not None:
            return self.remote.pool_of(tool)
        return tool.remote or None

    async def _remotely(self, call: Call, pool: str, loop: asyncio.AbstractEventLoop) -> Any:
        """Have a call run on another machine, and wait for it here."""
        tool = call.invocation.tool
        if self.remote is None:
            raise _not_connected(tool, pool)
        body = self.remote.perform(call, pool)
        task = start_task(_guard(body, call), loop)
        try:
            if not task.done():
                await self._wait(call, task, body, call.seconds + self.remote.longest_wait, loop)
            if task.cancelled():
                raise _cancelled(tool, phrase("It was cancelled from inside."))
            return _value(task.result())
        except ToolFailed as failed:
            if isinstance(failed.cause, Stopped):
                raise failed.cause from None
            raise

    async def _in_task(
        self,
        call: Call,
        task: asyncio.Task[Any],
        body: Coroutine[Any, Any, Any],
        spent: float,
        loop: asyncio.AbstractEventLoop,
    ) -> Any:
        """Wait for a task whose first step took so long."""
        invocation = call.invocation
        if spent >= STALL:
            self._note_blocked(invocation, watch_of(loop).blame(invocation, monotonic() - spent))
        if not task.done():
            await self._wait(call, task, body, max(0.0, call.seconds - spent), loop)
        if task.cancelled():
            raise _cancelled(invocation.tool, phrase("It was cancelled from inside."))
        value = _value(task.result())
        return await self._finish(call, value, loop) if is_unfinished(value) else value

    async def _finish(self, call: Call, value: Any, loop: asyncio.AbstractEventLoop) -> Any:
        """The result of what a function handed on instead of one, as decorators do: a coroutine or a generator."""
        body = finish(value, _shower(call), self._collect(call))
        if (self.own_loop or loop in loops_for_sync) and call.invocation.tool.may_block:
            return await self._on_tools_loop(call, loop, body)
        task = start_task(_guard(body, call), loop)
        return await self._in_task(call, task, body, 0.0, loop)

    def _begin(self, call: Call) -> Coroutine[Any, Any, Any]:
        """A tool's coroutine; making it may fail already, as when a wrapper refuses its arguments."""
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

    def _note_blocked(self, invocation: Invocation, seconds: float, least: float = NOTED) -> None:
        if seconds >= least:
            self.blocked[invocation.call_id] = self.blocked.get(invocation.call_id, 0.0) + seconds

    def _grace(self, call: Call) -> float:
        tool = call.invocation.tool
        own = self._limits.grace if tool.grace is None else tool.grace
        return own if self.remote is None or self.pool_of(tool) is None else own + _REMOTE_GRACE

    def _collect(self, call: Call) -> Collected:
        tool = call.invocation.tool
        return Collected(self._limits, tool.max_result, tool.nothing_yielded)

    async def _wait(
        self,
        call: Call,
        task: asyncio.Task[Any],
        body: Coroutine[Any, Any, Any],
        left: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Wait for a task; on time-out or cancelling, stop it and raise."""
        invocation = call.invocation
        waiter: asyncio.Future[str] = loop.create_future()
        task.add_done_callback(lambda _: _settle(waiter, _DONE))

        async def stop() -> str:
            task.cancel()
            try:
                ended = await _ends_in_time(task, self._grace(call), call.context, loop)
            finally:  # also when the caller was cancelled again meanwhile
                if not task.done():
                    self._give_up_on(task, body, invocation)
            if not ended:
                return _LEFT
            return _RETURNED if not task.cancelled() and task.result()[0] else _STOPPED

        watch = watch_of(loop)
        watch.enter(invocation)
        mark = watch.mark()
        timer = _Timer(
            left,
            lambda: _settle(waiter, _TIME_IS_UP),
            loop,
            lambda: watch.excused(invocation, mark, call.seconds),
        )
        try:
            await self._await(call, waiter, stop, timer)
        finally:
            self._note_blocked(invocation, watch.leave(invocation))

    async def _on_tools_loop(
        self, call: Call, loop: asyncio.AbstractEventLoop, begun: Coroutine[Any, Any, Any] | None = None
    ) -> Any:
        """Run an async tool on the tools' own loop, and wait for it here; `begun` is its coroutine, where there is one.

        Its loop may stand still. Where that is its own doing it is given up at its time; where it is another's, the
        time is not counted.
        """
        from ferrule.pipeline.tool_loops import LoopJob, tool_loops

        invocation, context, timeout = call.invocation, call.context, call.seconds
        tool = invocation.tool
        waiter: asyncio.Future[str] = loop.create_future()
        ended: asyncio.Future[None] = loop.create_future()
        outcomes: list[Outcome | None] = []
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
            except KeyboardInterrupt as error:  # the tool's own: the person's reaches the main thread alone
                outcome = False, error
            return outcome

        def settle(outcome: Outcome | None) -> None:
            outcomes.append(outcome)
            _settle(waiter, _DONE)
            _settle(ended, None)

        def deliver(outcome: Outcome | None) -> None:
            self._stubborn.discard(job)
            try:
                loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        def excused() -> float:
            if job.standing > max(timeout, _LONGEST_HELD_UP):
                return granted[0]
            granted[0] = job.excused(timeout)
            return granted[0]

        def time_is_up() -> None:
            _settle(waiter, _HELD_UP if job.standing and not job.is_blocking else _TIME_IS_UP)

        async def stop() -> str:
            job.cancel()
            left = False
            try:
                if not outcomes:
                    await _ends_in_time(ended, self._grace(call), context, loop, lambda: job.standing > 0)
            finally:  # also when the caller was cancelled again meanwhile
                if not outcomes:
                    self._stubborn.add(job)
                    left = job.give_up(lambda task: self._put_down(task, bodies[0], invocation))
                    if not left or job.over:
                        self._stubborn.discard(job)
                    if not left and begun is not None:
                        begun.close()
            if left:
                return _BLOCKED if job.blocked else _LEFT
            return _RETURNED if outcomes and outcomes[0] is not None and outcomes[0][0] else _STOPPED

        granted = [0.0]
        job = LoopJob(invocation, work, deliver)
        try:
            tool_loops.submit(job)
        except TooManyStuck as error:
            raise _too_many(tool, error) from None
        timer = _Timer(timeout, time_is_up, loop, excused)
        try:
            await self._await(call, waiter, stop, timer, job)
        finally:
            self._note_blocked(invocation, job.blocked, NOTED if job.over else STALL)
        if outcomes[0] is None:
            raise _cancelled(tool, "It was cancelled from inside.")
        return _value(outcomes[0])

    async def _in_thread(self, call: Call, loop: asyncio.AbstractEventLoop) -> Any:
        invocation, context, timeout = call.invocation, call.context, call.seconds
        tool, params = invocation.tool, invocation.params
        waiter: asyncio.Future[str] = loop.create_future()
        outcomes: list[Outcome] = []

        def work() -> Any:
            inside.set((invocation, context))
            value = tool.start(params, context)
            if tool.style is not _SYNC_STREAM and not is_iterator(value):
                return settled(value)
            return drain_sync(value, _shower(call), self._collect(call), waiter.done)

        def settle(outcome: Outcome) -> None:
            outcomes.append(outcome)
            _settle(waiter, _DONE)
            if ended is not None:
                _settle(ended, None)

        ended: asyncio.Future[None] | None = None
        notes = self._notes_of(loop)
        soon = tool.name not in self._slow and not is_busy(loop)  # a busy loop has better to do than to wait
        job = Job(work, loop, settle, soon=soon, silent=context is None)

        async def stop() -> str:
            # The cooperative way first (the context says «cancelled»), then by force.
            nonlocal ended
            ended = loop.create_future()
            left = False
            try:
                if not outcomes:
                    await _ends_in_time(ended, self._grace(call) if context is not None else 0.0, context, loop)
            finally:  # also when the caller was cancelled again meanwhile
                left = not outcomes and self._pool.abandon(job)
            if left:
                return _LEFT
            return _RETURNED if outcomes and outcomes[0][0] else _STOPPED

        self._waiters[invocation.call_id] = waiter  # it can be cancelled from the moment it runs
        try:
            if soon or tool.name not in self._quick:
                self._pool.submit(job)
            else:
                self._pool.check_room()
                if not notes.quick:  # with those that others make in this turn of the loop: one thread is woken for all
                    loop.call_soon(self._submit_quick, loop, notes)
                notes.quick.append(job)
        except TooManyStuck as error:
            self._let_go(invocation.call_id, waiter)
            raise _too_many(tool, error) from None
        outcome = job.wait(min(_A_MOMENT, timeout)) if soon else None
        if outcome is not None:
            outcomes.append(outcome)
            # Callbacks that wait may be the tool's own and come before its end: a report, or that it is cancelled.
            if callbacks_wait(loop) or loop.time() > notes.turn_due:
                notes.turn_due = loop.time() + _TURN_SECONDS
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    self._let_go(invocation.call_id, waiter)
                    raise
        if outcome is not None and not waiter.done():
            self._let_go(invocation.call_id, waiter)
        else:
            self._slow.add(tool.name)  # nobody waits for another call of it before this one has told how long it took
            timer = self._clock(call, loop, notes.timers, lambda: _settle(waiter, _TIME_IS_UP))
            await self._await(call, waiter, stop, timer)
            if job.seconds < _A_MOMENT:
                self._slow.discard(tool.name)
        (self._quick.add if job.seconds < _A_MOMENT else self._quick.discard)(tool.name)
        value = _value(outcomes[0])
        return await self._finish(call, value, loop) if is_unfinished(value) else value

    def _clock(
        self, call: Call, loop: asyncio.AbstractEventLoop, timers: LateTimers, end: Callable[[], None]
    ) -> _Timer | LateTimer:
        """The time of a call in a thread; one that knows no context never stops it, and most are over at once."""
        if call.context is not None or call.seconds < _LONG:
            return _Timer(call.seconds, end, loop, _never_excused)
        return timers.start(call.seconds, end)

    def _notes_of(self, loop: asyncio.AbstractEventLoop) -> _LoopNotes:
        last, notes = self._last_loop
        if last() is not loop:
            found = self._loops.get(loop)
            notes = found if found is not None else self._loops.setdefault(loop, _LoopNotes())
            self._last_loop = ref(loop), notes
        return notes

    def _submit_quick(self, loop: asyncio.AbstractEventLoop, notes: _LoopNotes) -> None:
        jobs, notes.quick = notes.quick, []
        self._pool.submit_quick(jobs)
        if not notes.relieving:
            notes.relieving = True
            loop.call_later(_RELIEF_SECONDS, self._relieve, loop, notes)

    def _relieve(self, loop: asyncio.AbstractEventLoop, notes: _LoopNotes) -> None:
        """See that no call stands long behind another that is not quick after all, nor its outcome."""
        notes.relieving = self._pool.relieve()
        outcomes_for(loop).tell()
        if notes.relieving:
            loop.call_later(_RELIEF_SECONDS, self._relieve, loop, notes)

    async def _await(
        self,
        call: Call,
        waiter: asyncio.Future[str],
        stop: Callable[[], Awaitable[str]],
        timer: _Timer | LateTimer,
        job: LoopJob | None = None,
    ) -> None:
        """Return when the work is done; otherwise stop it, and raise what cut it short."""
        invocation, context = call.invocation, call.context
        if context is not None and isinstance(timer, _Timer):
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
            held_up = _held_up(invocation.tool, job) if reason is _HELD_UP and job is not None else None
            end = await _stopping(context, stop)  # only once: one who is cancelled meanwhile waits for its end as well
        finally:
            timer.cancel()
            self._let_go(invocation.call_id, waiter)
        if held_up is not None:
            raise held_up
        own_words = context.stopped_words if context is not None else ""
        raise _cut_short(invocation.tool, reason, end, call.seconds, own_words)

    def _give_up_on(self, task: asyncio.Task[Any], body: Coroutine[Any, Any, Any], invocation: Invocation) -> None:
        """Leave a task that ignores cancelling behind, after one last try to end it from outside."""
        self._stubborn.add(task)
        task.add_done_callback(self._forget)
        self._put_down(task, body, invocation)

    def _put_down(self, task: asyncio.Task[Any], body: Coroutine[Any, Any, Any], invocation: Invocation) -> None:
        logger.warning("Tool %s ignored being cancelled (call %s)", invocation.tool.name, invocation.call_id)
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


async def _guard(body: Awaitable[Any], call: Call) -> Outcome:
    """Turn whatever a tool raises into an outcome; only cancelling and the user's Ctrl-C go through."""
    inside.set((call.invocation, call.context))
    try:
        return True, settled(await body)
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
        return False, error


async def _stopping(context: ToolContext | None, stop: Callable[[], Awaitable[str]]) -> str:
    if context is not None:
        context.cancellation.request()
    return await stop()


async def _ends_in_time(
    future: asyncio.Future[Any],
    grace: float,
    context: ToolContext | None,
    loop: asyncio.AbstractEventLoop,
    in_vain: Callable[[], bool] | None = None,
) -> bool:
    """Whether it ends within its grace, or that of the calls it has made, which are told to stop with it. It is waited
    for no longer than that is any use.

    A caller that is cancelled again and again, as anyio's scopes do it, waits all the same: cleaning up is under way.
    """
    cancellation = context.cancellation if context is not None else Cancellation()
    cancellation.allow(loop.time() + (grace if context is None else max(grace, _SECONDS_TO_BE_HEARD)))
    again: asyncio.CancelledError | None = None
    while not future.done() and (left := cancellation.until - loop.time()) > 0 and not (in_vain and in_vain()):
        try:
            await asyncio.wait({future}, timeout=min(left, STALL) if in_vain else left)
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
    name, limit = tool.name, f"{timeout:g}"
    ending = _ENDINGS.get(end, "")
    details = {"abandoned": True} if ending else None
    too_long = phrase("`{name}` ran longer than its time limit of {seconds} s.", name=name, seconds=limit)
    kind = ErrorKind.CANCELLED if reason is _CANCELLED else ErrorKind.TIMEOUT
    if end is _RETURNED and not tool.read_only:
        said = phrase("`{name}` was cancelled.", name=name) if reason is _CANCELLED else too_long
        return Stopped(Stage.EXECUTE, kind, joined(" ", [said, _RETURNED_ANYWAY]), _LOOK_FIRST)
    if reason is _CANCELLED:
        return _cancelled(tool, joined(" ", [phrase("It was cancelled."), ending]), details)
    less = phrase("Ask for less at once, or for a longer time limit.")
    if end is not _BLOCKED:
        too_long = phrase(
            "`{name}` ran longer than its time limit of {seconds} s and was stopped.", name=name, seconds=limit
        )
    return Stopped(Stage.EXECUTE, kind, joined(" ", [too_long, ending, own_words]), less, details)


def _held_up(tool: Tool[Any], job: LoopJob) -> Stopped:
    """What a call came to that another one kept from going on."""
    culprit = job.blocked_by
    return Stopped(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase(
            "`{name}` could not go on: {who} has blocked the event loop of the tools for {seconds} s.",
            name=tool.name,
            who=f"`{culprit.tool.name}`" if culprit is not None else phrase("something"),
            seconds=f"{job.standing:.0f}",
        ),
        phrase("Try again.") if tool.read_only or not job.begun else _LOOK_FIRST,
        {"abandoned": True} if job.begun else None,
    )


def _too_many(tool: Tool[Any], error: TooManyStuck) -> Stopped:
    return Stopped(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase("`{name}` was not run: {error}.", name=tool.name, error=error.args[0]),
        phrase("Try again later."),
    )


def _not_connected(tool: Tool[Any], pool: str) -> Stopped:
    return Stopped(
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


def _never_excused() -> float:
    """A thread goes on whether the loop does or not."""
    return 0.0


def _cancelled(tool: Tool[Any], why: str, details: dict[str, Any] | None = None) -> Stopped:
    message = joined(" ", [phrase("`{name}` did not finish.", name=tool.name), why])
    return Stopped(Stage.EXECUTE, ErrorKind.CANCELLED, message, None, details)


def _shower(call: Call) -> Callable[[Any], None]:
    return call.context.partial if call.context is not None else _show_nobody


def _show_nobody(piece: Any) -> None:
    """Nobody watches this call."""
