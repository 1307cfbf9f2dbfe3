"""Many calls at once: together where they are independent, in the order asked where they are not (P5)."""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import TYPE_CHECKING, Any

from ferrule.core.access import NOTHING, READS_ANYTHING, WRITES_ANYTHING, Touches
from ferrule.core.call import Invocation, RawCall
from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.pipeline.cleaning import clean_exception
from ferrule.pipeline.lookup import lookup
from ferrule.pipeline.references import Reference, check_against_output, find_references, resolve
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
    for position, call in enumerate(calls):
        plan = _plan(runtime, call, session, planned, by_id, given)
        planned.append(plan)
        waiting = schedule.add(position, plan.touches)
        waiting.update(by_id[reference.source] for reference in plan.references if reference.source in by_id)
        waits.append(waiting)
        by_id[call.id] = position
    limit = concurrency or runtime.limits.concurrency
    return await _Run(runtime, planned, waits, by_id, session, parent, given, max(1, limit)).finish()


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
        if not _may_refer(call):
            plan.prepared = invocation = validate(tool, call, runtime.limits)
            plan.touches = _touches(invocation, session)
            return plan
        plan.arguments = _parsed(tool, call)
        plan.references = find_references(plan.arguments, [*by_id, *given])
        if not plan.references:  # a `$ref` of another sort
            plan.prepared = invocation = validate(tool, call, runtime.limits)
            plan.touches = _touches(invocation, session)
            return plan
        for reference in plan.references:
            source = earlier[by_id[reference.source]].tool if reference.source in by_id else None
            if source is not None:
                check_against_output(reference, source)
        validate_around(tool, call, [reference.place for reference in plan.references], runtime.limits)
        # What it touches is known only with its arguments; until then it may be anything its kind allows.
        plan.touches = READS_ANYTHING if tool.read_only else WRITES_ANYTHING
        if not tool.concurrency_safe:
            plan.touches = WRITES_ANYTHING
    except Stopped as stopped:
        plan.prepared = stopped
        plan.references = []
    except Exception:
        # What breaks here breaks again when the call is run, and becomes its result; the others go on.
        logger.exception("Call %s of %s could not be planned", call.id, call.name)
        plan.references = []
        plan.touches = WRITES_ANYTHING
    return plan


def _may_refer(call: RawCall) -> bool:
    arguments = call.arguments
    if isinstance(arguments, str):
        return '"$ref"' in arguments
    if isinstance(arguments, bytes):
        return b'"$ref"' in arguments
    return "'$ref'" in repr(arguments) if arguments else False


def _parsed(tool: Tool[Any], call: RawCall) -> Any:
    from pydantic_core import from_json

    text = call.arguments if isinstance(call.arguments, (str, bytes)) else as_json(tool, call.arguments)
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None  # validation says what is wrong with it


def _touches(invocation: Invocation, session: Session) -> Touches:
    invocation.session = session
    if not invocation.tool.concurrency_safe:
        return WRITES_ANYTHING
    try:
        return invocation.touches
    except Exception:
        logger.exception("Tool %s could not say what it touches", invocation.tool.name)
        return WRITES_ANYTHING


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
        prepared = plan.prepared
        if plan.references:
            prepared = self._resolved(plan)
        self._results[position] = await self._runtime.run_prepared(
            plan.call, prepared, session=self._session, parent=self._parent
        )

    def _resolved(self, plan: _Planned) -> Invocation | Stopped:
        """A chained call once the results it uses are there."""
        values = dict(self._given)
        for reference in plan.references:
            if reference.source not in self._by_id:
                continue
            result = self._results[self._by_id[reference.source]]
            if result is None or not result.success:
                return Stopped(
                    Stage.VALIDATE,
                    ErrorKind.VALIDATION,
                    f"`{plan.call.name}` was not run: it uses the result of `{reference.source}`, which failed.",
                    "Mend that call first, then make both again.",
                )
            values[reference.source] = result.data
        try:
            arguments = resolve(plan.arguments, plan.references, values)
            call = RawCall(plan.call.name, arguments, id=plan.call.id, version=plan.call.version)
            return validate(lookup(self._runtime.tools, call), call, self._runtime.limits)
        except Stopped as stopped:
            return stopped
        except Exception as error:
            logger.exception("Call %s of %s could not be given its arguments", plan.call.id, plan.call.name)
            return Stopped(
                Stage.VALIDATE,
                ErrorKind.VALIDATION,
                f"`{plan.call.name}` was not run: a result it uses cannot be an argument. {clean_exception(error)}",
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
        if running:
            await asyncio.wait(running)
        for position in range(len(self._planned)):
            if position in self._begun:
                continue
            call = self._planned[position].call
            never = Stopped(Stage.LOOKUP, ErrorKind.CANCELLED, f"`{call.name}` was cancelled before it ran.")
            await self._runtime.run_prepared(call, never, session=self._session, parent=self._parent)
