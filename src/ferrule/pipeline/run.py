"""The runtime: takes a call through the seven stages, one way, and always gives exactly one result."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from copy import copy
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from ferrule.core.call import Invocation, RawCall
from ferrule.core.context import Session, ToolContext
from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.events import Done, Pending
from ferrule.pipeline.authorise import KindPolicy, Policy, Verdict, require_context
from ferrule.pipeline.cache import ResultCache
from ferrule.pipeline.cleaning import clean_exception
from ferrule.pipeline.confirm import Asker, Choice, Confirm, refused
from ferrule.pipeline.execute import Executor, ToolFailed
from ferrule.pipeline.format import format_stopped, format_value, stopped_by, unformattable
from ferrule.pipeline.hooks import Hook, Hooks
from ferrule.pipeline.limits import DEFAULT_LIMITS, Limits
from ferrule.pipeline.listeners import Emitter, Listeners
from ferrule.pipeline.lookup import lookup
from ferrule.pipeline.record import CallRecord, Recorder, Tracer
from ferrule.pipeline.recording import Recording
from ferrule.pipeline.turns import Turns
from ferrule.pipeline.validate import validate
from ferrule.registry.registry import Registry
from ferrule.registry.source import ToolSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence

    from ferrule.core.events import CallEvent
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool

logger = logging.getLogger("ferrule.calls")

_ALLOW = Verdict.ALLOW  # an enum's member takes longer to look up than all the rest of that line


class Runtime:
    """Tools, and everything that stands between a model and running them.

    `tools` is a registry, a view of one, or simply tools. Without a policy, read-only tools run and the others
    ask; without `ask` there is nobody to ask, and what would ask is refused.
    """

    def __init__(
        self,
        tools: ToolSource | Iterable[Tool[Any]] = (),
        *,
        policy: Policy | None = None,
        ask: Asker | None = None,
        recorders: Iterable[Recorder] = (),
        tracer: Tracer | None = None,
        limits: Limits = DEFAULT_LIMITS,
        session: Session | None = None,
        cache: ResultCache | None = None,
        hooks: Iterable[Hook] = (),
    ) -> None:
        self.tools: ToolSource = tools if isinstance(tools, ToolSource) else Registry(tools)
        self.policy: Policy = policy if policy is not None else KindPolicy()
        self.limits = limits
        self.session = session if session is not None else Session()
        self.cache = cache if cache is not None else ResultCache()
        self._recording = Recording(recorders)
        self._tracer = tracer
        self._confirm = Confirm(ask)
        self._executor = Executor(limits)
        self._listeners = Listeners()
        self._alone = Turns()
        self._whole = self
        self.hooks = Hooks(hooks)

    def seeing(self, tools: ToolSource) -> Runtime:
        """The same runtime for a caller with other tools, as an agent's filter leaves them; others do not exist for it.

        What those tools themselves call they find where they always do.
        """
        view = copy(self)
        view.tools = tools
        return view

    def for_session(self, session: Session, *, ask: Asker | None = None, limits: Limits | None = None) -> Runtime:
        """The same tools, policy, records and hooks for a session of its own.

        Whoever serves several clients gives each one of these: a question to one of them, or a tool that runs alone,
        holds up nobody else's calls.
        """
        own = Runtime(
            self.tools,
            policy=self.policy,
            ask=ask,
            tracer=self._tracer,
            limits=limits or self.limits,
            session=session,
        )
        own._recording, own.hooks = self._recording, self.hooks
        return own

    # One call

    def run(
        self,
        call: RawCall | str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        *,
        session: Session | None = None,
        timeout: float | None = None,
        parent: ToolContext | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run one call and give its result; nothing a tool or a model does makes this raise.

        Cancelling the task that awaits it stops the tool, records the call, and raises `CancelledError` as ever.
        """
        if not isinstance(call, RawCall):
            call = RawCall(call, arguments)
        if timeout is not None and not timeout > 0:
            raise ValueError(f"A time limit is more than 0 seconds, not {timeout!r}.")
        return self.run_prepared(call, None, session=session, timeout=timeout, parent=parent)

    async def run_prepared(
        self,
        call: RawCall,
        prepared: Invocation | Stopped | None,
        *,
        session: Session | None = None,
        timeout: float | None = None,
        parent: ToolContext | None = None,
    ) -> ToolResult:
        """Run a call whose first stages were gone through already, if `prepared` says how they ended."""
        session = session or self.session
        began = perf_counter()
        record = CallRecord(
            call.id, parent.call_id if parent is not None else None, session.id, session.caller,
            call.name, "", "", call.arguments, time(),
        )  # fmt: skip
        if self._listeners.all:
            self._listeners.emit(Pending(call.id, call.name, parent_id=record.parent_id))
        try:
            invocation = self._prepare(call, prepared, session, record)
            if self.hooks:
                result = await self._between_hooks(invocation, session, timeout, parent, record)
            else:
                result = await self._carry_out(invocation, session, timeout, parent, record)
        except Stopped as stopped:
            result = _stop(call, stopped, record)
        except asyncio.CancelledError:
            await self._end_cancelled(call, record, perf_counter() - began)
            raise
        except Exception as error:
            logger.exception("Call %s of %s broke the pipeline", call.id, call.name)
            result = _stop(call, _broken(call, error, session), record)
        record.duration = perf_counter() - began
        record.result_length = len(result.llm_content)
        try:
            if waiting := self._recording.record(record):
                failure = await self._recording.settle(waiting)
                if failure is not None:  # the call has happened; losing its result would not undo it
                    result.metadata["unrecorded"] = clean_exception(failure, session.workspace)
        finally:  # whoever watches must know how it ended, even when the caller is cancelled this late
            if self._listeners.all:
                self._listeners.emit(Done(call.id, call.name, result))
        return result

    def build(self, call: RawCall) -> Invocation:
        """Look a call up and validate it without running it; raises `Stopped`."""
        return validate(lookup(self.tools, call), call, self.limits)

    async def execute(self, invocation: Invocation, *, session: Session | None = None) -> ToolResult:
        """Authorise, run, format and record what `build` gave."""
        tool = invocation.tool
        arguments = tool.params.dump(invocation.params)
        call = RawCall(tool.name, arguments, id=invocation.call_id, version=tool.version)
        return await self.run_prepared(call, invocation, session=session)

    def _prepare(
        self, call: RawCall, prepared: Invocation | Stopped | None, session: Session, record: CallRecord
    ) -> Invocation:
        """Stages one and two."""
        if isinstance(prepared, Invocation):
            tool, invocation = prepared.tool, prepared
            if self._recording.watchers:
                self._recording.tell("looked_up", call, session, found=True)
            record.tool, record.version, record.kind = tool.name, tool.version, tool.kind
        else:
            try:
                tool = lookup(self.tools, call)
            except Stopped:
                self._recording.tell("looked_up", call, session, found=False)
                raise
            if self._recording.watchers:
                self._recording.tell("looked_up", call, session, found=True)
            record.tool, record.version, record.kind = tool.name, tool.version, tool.kind
            if prepared is not None:
                raise prepared
            invocation = validate(tool, call, self.limits)
        record.repairs = invocation.repairs
        invocation.session = session
        return invocation

    async def _end_cancelled(self, call: RawCall, record: CallRecord, duration: float) -> None:
        """Record and announce a call whose caller was cancelled; a slow recorder gets a short while."""
        stopped = Stopped(Stage.EXECUTE, ErrorKind.CANCELLED, f"`{call.name}` did not finish. It was cancelled.")
        result = _stop(call, stopped, record)
        record.duration = duration
        try:
            if waiting := self._recording.record(record):
                await self._recording.settle(waiting, self.limits.grace)
        finally:
            if self._listeners.all:
                self._listeners.emit(Done(call.id, call.name, result))

    async def _between_hooks(
        self,
        invocation: Invocation,
        session: Session,
        timeout: float | None,
        parent: ToolContext | None,
        record: CallRecord,
    ) -> ToolResult:
        """Stages three to six of the call as the hooks leave it; what the record says of the input is what ran."""
        asked = invocation
        invocation, words = await self.hooks.before(invocation, session, self.limits)
        if invocation is not asked:
            record.arguments = invocation.tool.params.dump(invocation.params)
        result = await self._carry_out(invocation, session, timeout, parent, record)
        return await self.hooks.after(invocation, result, session, words)

    async def _carry_out(
        self,
        invocation: Invocation,
        session: Session,
        timeout: float | None,
        parent: ToolContext | None,
        record: CallRecord,
    ) -> ToolResult:
        """Stages three to six."""
        tool = invocation.tool
        if tool.roles or tool.needs:
            require_context(tool, session)
        decision = self.policy.decide(invocation, session)
        record.verdict, record.reason, record.rule = decision.verdict, decision.reason, decision.rule
        if decision.verdict is not _ALLOW and (verdict := Verdict(decision.verdict)) is not _ALLOW:
            if verdict is Verdict.DENY:
                raise Stopped(
                    Stage.AUTHORISE,
                    ErrorKind.PERMISSION,
                    f"`{tool.name}` was not run: {decision.reason}.",
                    "Do not try the same call again; go on another way, or ask the person.",
                )
            if (problem := tool.refusal_in(invocation.params, session)) is not None:
                said = stopped_by(tool.name, problem, session.workspace, session.folders[1:])  # as if it had run
                raise Stopped(Stage.AUTHORISE, said.kind, said.message, said.suggestion, said.details)
            answer = await self._confirm(invocation, decision, self.policy, session)
            record.answer = answer.choice.value
            if answer.choice is Choice.NO:
                raise refused(invocation, answer)
        if tool.cache:
            key = self.cache.key(invocation, session)
            kept = self.cache.get(key, invocation)
            if kept is not None:
                record.cached = True
                return kept
        context = None
        emitter = self._listeners.emitter() if self._listeners.all else None
        if parent is not None or tool.wants_context or emitter is not None:
            context = self._context_for(tool, invocation.call_id, session, parent, emitter)
        if self._recording.watchers:
            self._recording.tell("started", invocation, session)
        seconds = timeout or tool.timeout or self.limits.timeout
        try:
            if self._tracer is None and tool.concurrency_safe:
                value = await self._executor.execute(invocation, context, seconds)
            else:
                value = await self._execute_apart(invocation, session, context, seconds, parent)
        except ToolFailed as failed:
            logger.info("Tool %s raised (call %s)", tool.name, invocation.call_id, exc_info=failed.cause)
            raise stopped_by(tool.name, failed.cause, session.workspace, session.folders[1:]) from None
        finally:
            if emitter is not None:
                emitter.close()
        try:
            result = format_value(invocation, value, self.limits)
        except Exception as error:
            if isinstance(error, Stopped):
                raise
            raise unformattable(tool.name, error) from error
        if result.error is not None:
            record.outcome, record.stage, record.error = result.error.kind, Stage.EXECUTE, result.error.message
        if tool.cache:
            self.cache.put(key, result, tool.cache)  # pyright: ignore[reportPossiblyUnboundVariable]
        return result

    def _context_for(
        self, tool: Tool[Any], call_id: str, session: Session, parent: ToolContext | None, emitter: Emitter | None
    ) -> ToolContext:
        """What the tool will know, and through which it reports."""
        lineage = parent.lineage if parent is not None else ()
        if len(lineage) >= self.limits.nesting:
            raise Stopped(
                Stage.EXECUTE,
                ErrorKind.EXECUTION,
                f"`{tool.name}` was not run: tools called tools {len(lineage)} deep.",
                "A tool probably calls itself without end.",
            )
        above = parent.cancellation if parent is not None else None
        return ToolContext(session, call_id, tool.name, emitter, self._whole, (*lineage, tool.name), above)

    async def _execute_apart(
        self,
        invocation: Invocation,
        session: Session,
        context: ToolContext | None,
        seconds: float,
        parent: ToolContext | None,
    ) -> Any:
        """Run a tool inside a span, and one that is not concurrency-safe with no other call of it."""
        tool = invocation.tool
        async with AsyncExitStack() as around:
            # A tool further up that waits for this very call holds the lock already.
            if not tool.concurrency_safe and (parent is None or tool.name not in parent.lineage):
                await around.enter_async_context(self._alone.of(tool.name))
            span = around.enter_context(self._tracer.span(invocation, session)) if self._tracer is not None else None
            value = await self._executor.execute(invocation, context, seconds)
            if span is not None:
                span.result(value)
            return value

    # Many calls

    async def batch(
        self,
        calls: Sequence[RawCall],
        *,
        session: Session | None = None,
        parent: ToolContext | None = None,
        given: Mapping[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> list[ToolResult]:
        """Run many calls, together where they are independent; results come in the order asked.

        A call may use an earlier one's data: `{"$ref": "call_1.path"}`. One failure does not stop the others.
        """
        from ferrule.pipeline.batch import run_batch

        return await run_batch(self, calls, session or self.session, parent, given or {}, concurrency)

    def stream(self, calls: RawCall | Sequence[RawCall], *, session: Session | None = None) -> AsyncIterator[CallEvent]:
        """Run calls and give their events as they happen; each call ends with `Done`. Leaving early stops them."""
        from ferrule.pipeline.listeners import stream

        listed = [calls] if isinstance(calls, RawCall) else list(calls)
        return stream(self._listeners, {call.id for call in listed}, lambda: self.batch(listed, session=session))

    def subscribe(self, listener: Callable[[CallEvent], None]) -> Callable[[], None]:
        """Hear of every call's events; returns what ends the subscription."""
        return self._listeners.subscribe(listener)

    # While they run

    def cancel(self, call_id: str) -> bool:
        """Stop a running call; whoever waits for it gets a `cancelled_error`. False when no such call runs."""
        return self._executor.cancel(call_id)

    @property
    def abandoned(self) -> int:
        """How many calls were given up on and have not ended yet."""
        return self._executor.abandoned


def _stop(call: RawCall, stopped: Stopped, record: CallRecord) -> ToolResult:
    """The result of a call that ended early, and what the record says of it."""
    if not isinstance(record.tool, str):  # pyright: ignore[reportUnnecessaryIsInstance] - models send anything
        record.tool = str(record.tool)
    result = format_stopped(call.id, call.name if isinstance(call.name, str) else record.tool, stopped)  # pyright: ignore[reportUnnecessaryIsInstance]
    record.stage, record.outcome, record.error = stopped.stage, stopped.kind, stopped.message
    if stopped.details and stopped.details.get("abandoned"):
        record.abandoned = True
    return result


def _broken(call: RawCall, error: Exception, session: Session) -> Stopped:
    return Stopped(
        Stage.AUTHORISE,
        ErrorKind.UNKNOWN,
        f"`{call.name}` was stopped: the program around it failed. {clean_exception(error, session.workspace)}",
        "This is not about the arguments; the same call may work later.",
    )
