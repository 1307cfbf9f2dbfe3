"""Many calls at once: together where they are independent, in the order asked where they are not (P5)."""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import TYPE_CHECKING, Any

from ferrule.core.access import NOTHING, READS_ANYTHING, WRITES_ANYTHING, Touches
from ferrule.core.call import Invocation, RawCall, new_call_id
from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.phrases import phrase
from ferrule.pipeline.cleaning import clean_exception
from ferrule.pipeline.lookup import lookup
from ferrule.pipeline.references import Reference, ambiguous, check_against_output, find_references, resolve
from ferrule.pipeline.repair import readable
from ferrule.pipeline.schedule import Schedule
from ferrule.pipeline.validate import as_json, validate, validate_around

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.context import Session, ToolContext
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.pipeline.run import Runtime

logger = logging.getLogger("ferrule.calls")


class _Planned:
    """A call of the batch, checked: ready to run, waiting for others' results, or stopped already."""

    __slots__ = ("arguments", "call", "prepared", "references", "tool", "touches")

    def __init__(self, call: RawCall) -> None:
        self.call = call
        self.tool: Tool[Any] | None = None
        self.prepared: Invocation | Stopped | None = None
        self.arguments: Any = None
        self.references: list[Reference] = []
        self.touches: Touches = NOTHING


async def run_batch(
    runtime: Runtime,
    calls: Sequence[RawCall],
    session: Session,
    parent: ToolContext | None,
    given: Mapping[str, Any],
    concurrency: int | None,
) -> list[ToolResult]:
    """Plan every call before anything runs, then run them as their touches and references allow."""
    schedule = Schedule()
    planned: list[_Planned] = []
    waits: list[set[int]] = []
    by_id: dict[str, int] = {}
    doubled: set[str] = set()
    if isinstance(calls, (RawCall, str)):
        raise TypeError("Calls come in a list, also where there is one: write [RawCall(…)].")
    _keep_apart(calls)
    for position, call in enumerate(calls):
        if not isinstance(call, RawCall):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise TypeError(f"A batch takes calls, not {call!r}. Write RawCall(name, arguments).")
        plan = _plan(runtime, call, session, planned, by_id, given)
        planned.append(plan)
        for reference in plan.references:
            if reference.source in doubled:
                plan.prepared, plan.references, plan.touches = ambiguous(reference), [], NOTHING
                break
        waiting = schedule.add(position, plan.touches)
        waiting.update(by_id[reference.source] for reference in plan.references if reference.source in by_id)
        waits.append(waiting)
        if call.id in by_id:
            doubled.add(call.id)
        by_id[call.id] = position
    limit = concurrency or runtime.limits.concurrency
    return await _Run(runtime, planned, waits, by_id, session, parent, given, max(1, limit)).finish()


def _keep_apart(calls: Sequence[RawCall]) -> None:
    """An id that was made up gives way to one that was given, so that a reference means what it says."""
    given = {call.id for call in calls if getattr(call, "has_own_id", False)}
    for call in calls:
        while not getattr(call, "has_own_id", True) and call.id in given:
            call.id = new_call_id()


def _plan(
    runtime: Runtime,
    call: RawCall,
    session: Session,
    earlier: list[_Planned],
    by_id: Mapping[str, int],
    given: Mapping[str, Any],
) -> _Planned:
    plan = _Planned(call)
    try:
        tool = plan.tool = lookup(runtime.tools, call)
        is_text = isinstance(call.arguments, (str, bytes))
        if not _may_refer(call):
            plan.prepared = invocation = validate(tool, call, runtime.limits)
            plan.touches = _touches(invocation, session, runtime)
            return plan
        plan.arguments = readable(call.arguments if is_text else as_json(tool, call.arguments))
        plan.references = find_references(plan.arguments, [*by_id, *given])
        if not plan.references:  # a `$ref` of another sort
            plan.prepared = invocation = validate(tool, call, runtime.limits)
            plan.touches = _touches(invocation, session, runtime)
            return plan
        for reference in plan.references:
            source = earlier[by_id[reference.source]].tool if reference.source in by_id else None
            if source is not None:
                check_against_output(reference, source)
        places = [reference.place for reference in plan.references]
        plan.arguments = validate_around(tool, plan.arguments, places, runtime.limits)
        # What it touches is known only with its arguments; until then it may be anything its kind allows.
        plan.touches = READS_ANYTHING if tool.read_only else WRITES_ANYTHING
        if not tool.concurrency_safe:
            plan.touches = WRITES_ANYTHING
    except Stopped as stopped:
        plan.prepared = stopped
        plan.references = []
        # An earlier call may yet bring the tool, or what its own check asks for; so this one keeps its turn.
        if plan.tool is None:
            plan.touches = READS_ANYTHING
        elif plan.tool.has_check:
            plan.touches = WRITES_ANYTHING
    except Exception:
        # What breaks here breaks again when the call is run, and becomes its result; the others go on.
        logger.exception("Call %s of %s could not be planned", call.id, call.name)
        plan.references = []
        plan.touches = WRITES_ANYTHING
    return plan


def _may_refer(call: RawCall) -> bool:
    """Whether the arguments may hold a reference; a `$` may also be written as an escape."""
    arguments = call.arguments
    if isinstance(arguments, str):
        return "ref" in arguments and ("$" in arguments or "\\u" in arguments)
    if isinstance(arguments, bytes):
        return b"ref" in arguments and (b"$" in arguments or b"\\u" in arguments)
    return "$ref" in repr(arguments) if arguments else False


def _touches(invocation: Invocation, session: Session, runtime: Runtime) -> Touches:
    invocation.session = session
    try:
        if invocation.runs_alone:
            return WRITES_ANYTHING
        if runtime.hooks and runtime.hooks.may_change(invocation.tool.name):
            return READS_ANYTHING if invocation.tool.read_only else WRITES_ANYTHING
        touches = invocation.touches
    except Exception:
        logger.exception("Tool %s could not say what it touches", invocation.tool.name)
        touches = WRITES_ANYTHING
    return touches


class _Run:
    """A batch while it runs."""

    def __init__(
        self,
        runtime: Runtime,
        planned: list[_Planned],
        waits: list[set[int]],
        by_id: Mapping[str, int],
        session: Session,
        parent: ToolContext | None,
        given: Mapping[str, Any],
        limit: int,
    ) -> None:
        self._runtime = runtime
        self._planned = planned
        self._by_id = by_id
        self._session = session
        self._parent = parent
        self._given = given
        self._limit = limit
        self._results: list[ToolResult | None] = [None] * len(planned)
        self._missing = [len(waiting) for waiting in waits]
        self._waited = [bool(waiting) for waiting in waits]
        self._followers: list[list[int]] = [[] for _ in planned]
        for position, waiting in enumerate(waits):
            for other in waiting:
                self._followers[other].append(position)
        self._ready = [position for position, count in enumerate(self._missing) if not count]
        self._running: dict[asyncio.Task[None], int] = {}
        self._begun = set[int]()
        self._left = len(planned)
        self._failure: BaseException | None = None
        self._all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def finish(self) -> list[ToolResult]:
        if not self._planned:
            return []
        self._start_ready()
        for position in self._ready:  # kept back by the limit alone
            self._waited[position] = True
        try:
            await self._all_done
        except asyncio.CancelledError:
            await self._cancel()
            raise
        if self._failure is not None:
            raise self._failure
        return [result for result in self._results if result is not None]

    def _start_ready(self) -> None:
        loop = asyncio.get_running_loop()
        while self._ready and len(self._running) < self._limit:
            position = heapq.heappop(self._ready)
            task = loop.create_task(self._one(position))
            self._running[task] = position
            task.add_done_callback(self._ended)

    async def _one(self, position: int) -> None:
        self._begun.add(position)
        plan = self._planned[position]
        call, prepared = self._resolved(plan) if plan.references else (plan.call, plan.prepared)
        if self._waited[position] and not plan.references:
            prepared = None  # what ran before may have changed what there is to call: look again, as in turn
        self._results[position] = await self._runtime.run_prepared(
            call, prepared, session=self._session, parent=self._parent
        )

    def _resolved(self, plan: _Planned) -> tuple[RawCall, Invocation | Stopped]:
        """A chained call once the results it uses are there, with the arguments it really runs with."""
        values = dict(self._given)
        for reference in plan.references:
            if reference.source not in self._by_id:
                continue
            result = self._results[self._by_id[reference.source]]
            if result is None or not result.success:
                return plan.call, Stopped(
                    Stage.VALIDATE,
                    ErrorKind.VALIDATION,
                    phrase(
                        "`{name}` was not run: it uses the result of `{source}`, which failed.",
                        name=plan.call.name,
                        source=reference.source,
                    ),
                    phrase("Mend that call first, then make both again."),
                )
            values[reference.source] = result.data
        call = plan.call
        try:
            arguments = resolve(plan.arguments, plan.references, values)
            call = RawCall(plan.call.name, arguments, id=plan.call.id, version=plan.call.version)
            return call, validate(lookup(self._runtime.tools, call), call, self._runtime.limits)
        except Stopped as stopped:
            return call, stopped
        except Exception as error:
            logger.exception("Call %s of %s could not be given its arguments", plan.call.id, plan.call.name)
            return call, Stopped(
                Stage.VALIDATE,
                ErrorKind.VALIDATION,
                phrase(
                    "`{name}` was not run: a result it uses cannot be an argument. {error}",
                    name=plan.call.name,
                    error=clean_exception(error),
                ),
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        position = self._running.pop(task)
        if task.cancelled():
            self._failure = self._failure or asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            self._failure = self._failure or error
        self._left -= 1
        for follower in self._followers[position]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                heapq.heappush(self._ready, follower)
        if self._left == 0:
            if not self._all_done.done():
                self._all_done.set_result(None)
        elif not self._all_done.done():
            self._start_ready()

    async def _cancel(self) -> None:
        """Stop what runs, and record what never started: every call leaves its record."""
        running = list(self._running)
        for task in running:
            task.cancel()
        # First those that never began, in one step: a second cancelling must not lose them.
        never_began = [
            asyncio.ensure_future(self._never(plan.call))
            for position, plan in enumerate(self._planned)
            if position not in self._begun
        ]
        waiting = [*running, *never_began]
        while pending := [task for task in waiting if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError:
                continue  # cancelled already; each call ends within its grace, and leaves its record

    async def _never(self, call: RawCall) -> None:
        never = Stopped(
            Stage.LOOKUP, ErrorKind.CANCELLED, phrase("`{name}` was cancelled before it ran.", name=call.name)
        )
        await self._runtime.run_prepared(call, never, session=self._session, parent=self._parent)
