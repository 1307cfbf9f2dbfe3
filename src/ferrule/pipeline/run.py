"""The runtime: takes a call through the seven stages, one way, and always gives exactly one result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, nullcontext
from copy import copy
from dataclasses import replace
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from ferrule.core.call import Invocation, RawCall
from ferrule.core.context import RESTRICTIONS, Session, ToolContext, try_first
from ferrule.core.effects import Approval
from ferrule.core.errors import DefinitionError, ErrorKind, Stage, Stopped
from ferrule.core.events import Done, Pending
from ferrule.core.loops import sync_caller
from ferrule.core.phrases import joined, phrase
from ferrule.core.tool import Tool
from ferrule.pipeline.authorise import Decision, DefaultPolicy, JudgesEffects, Policy, Verdict, require_context
from ferrule.pipeline.cache import ResultCache
from ferrule.pipeline.cleaning import clean_exception
from ferrule.pipeline.confirm import Asker, Choice, Confirm, refused
from ferrule.pipeline.execute import Executor, ToolFailed
from ferrule.pipeline.format import format_stopped, format_value, stopped_by, unformattable, with_notes
from ferrule.pipeline.hooks import Hook, Hooks
from ferrule.pipeline.limits import DEFAULT_LIMITS, Limits
from ferrule.pipeline.listeners import Emitter, Listeners
from ferrule.pipeline.lookup import lookup
from ferrule.pipeline.record import CallRecord, Recorder, Recording, Tracer
from ferrule.pipeline.turns import Turns
from ferrule.pipeline.validate import validate
from ferrule.registry.registry import Registry
from ferrule.registry.source import ToolSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence

    from ferrule.core.effects import Effects
    from ferrule.core.events import CallEvent
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.confirm import Answer

logger = logging.getLogger("ferrule.calls")

_ALLOW = Verdict.ALLOW  # an enum's member takes longer to look up than all the rest of that line


class Runtime:
    """Tools, and everything that stands between a model and running them.

    `tools` is a registry, a view of one, or simply tools. Without a policy, a tool that says it writes or executes
    asks first, and the others run; without `ask`, what would ask is refused.

    `async with` starts the `mcp_servers`, written as in a `.mcp.json`, and in the end closes them and whatever the
    calls of its session left running. A runtime without servers, shells and the like can be used without it. With
    `own_loop`, async tools run on an event loop of their own in another thread, where one that blocks its loop can be
    given up at its time limit.
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
        mcp_servers: Mapping[str, Any] | None = None,
        own_loop: bool = False,
    ) -> None:
        self.tools: ToolSource = tools if isinstance(tools, ToolSource) else Registry(tools)
        if policy is not None and not hasattr(policy, "decide"):
            raise TypeError(f'A policy is an object such as RulePolicy(mode="plan"), not {policy!r}.')
        if ask is not None and not callable(ask):
            raise TypeError(f"`ask` is a function that gets a question and gives an answer, not {ask!r}.")
        if mcp_servers is not None and not isinstance(mcp_servers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f'mcp_servers are written by name, {{"clock": {{"command": …}}}}, not {mcp_servers!r}.')
        self.policy: Policy = policy if policy is not None else DefaultPolicy()
        self._restrictions: Any = getattr(self.policy, "restrictions", None)
        self.limits = limits
        self.session = session if session is not None else _session_for(self.tools)
        if self._restrictions is not None:
            self.session.state.setdefault(RESTRICTIONS, self._restrictions)
        self.cache = cache if cache is not None else ResultCache()
        self._recording = Recording(recorders)
        self._tracer = tracer
        self._confirm = Confirm(ask)
        self._executor = Executor(limits, own_loop=own_loop)
        self._listeners = Listeners()
        self._alone = Turns()
        self._whole = self
        self.hooks = Hooks(hooks)
        self._mcp_servers = dict(mcp_servers or {})
        self._closers: list[Callable[[], Awaitable[None]]] = []

    async def __aenter__(self) -> Runtime:
        """Start the MCP servers, whose tools are there from then on."""
        if self._mcp_servers:
            from ferrule.mcp import open_servers

            opened = await open_servers(self, self._mcp_servers)
            self._closers.append(opened.close)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the servers, and all that calls in the runtime's own session left running."""
        try:
            await self.session.close()
        finally:
            while self._closers:
                await self._closers.pop()()

    def seeing(
        self, tools: ToolSource, *, ask: Asker | None = None, listener: Callable[[CallEvent], None] | None = None
    ) -> Runtime:
        """The same runtime for a caller with other tools, as an agent's filter leaves them; others do not exist for it.

        What those tools themselves call they find where they always do. `ask` and `listener` are for the calls of this
        caller alone, and for those that their tools make: their questions do not wait for anyone else's.
        """
        view: Runtime = copy(self)
        if ask is not None or listener is not None:
            whole: Runtime = copy(self._whole)
            confirm = Confirm(ask) if ask is not None else self._confirm
            listeners = self._listeners
            if listener is not None:
                listeners = Listeners()
                listeners.subscribe(listener)
            view._confirm, view._listeners, view._whole = confirm, listeners, whole
            whole._confirm, whole._listeners = confirm, listeners
        view.tools = tools
        return view

    def for_session(self, session: Session, *, ask: Asker | None = None, limits: Limits | None = None) -> Runtime:
        """The same tools, policy, records and hooks for a session of its own, as a server gives every client.

        A question to one of them, or a tool that runs alone, holds up nobody else's calls. Where no policy was chosen,
        a tool without a kind counts as `execute`: a client is not the program that brought it.
        """
        own = Runtime(
            self.tools,
            policy=DefaultPolicy(served=True) if isinstance(self.policy, DefaultPolicy) else self.policy,
            ask=ask,
            tracer=self._tracer,
            limits=limits or self.limits,
            session=session,
            own_loop=self._executor.own_loop,
        )
        own._recording, own.hooks = self._recording, self.hooks
        return own

    # One call

    def run(
        self,
        call: RawCall | Tool[Any] | str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        *,
        session: Session | None = None,
        timeout: float | None = None,
        parent: ToolContext | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run one call and give its result; nothing a tool or a model does makes this raise.

        A tool may be given in place of its name. Cancelling the task that awaits it stops the tool, records the call,
        and raises `CancelledError` as ever.
        """
        if not isinstance(call, RawCall):
            call = RawCall(call.name if isinstance(call, Tool) else call, arguments)
        if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
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
        if self._restrictions is not None:
            session.state.setdefault(RESTRICTIONS, self._restrictions)  # a session that only this call was given
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
        except DefinitionError as error:
            logger.warning("Tool %s cannot describe its call %s: %s", call.name, call.id, error)
            result = _stop(call, _undescribed(call, error), record)
        except Exception as error:
            logger.exception("Call %s of %s broke the pipeline", call.id, call.name)
            result = _stop(call, _broken(call, error, session), record)
        if self._executor.blocked and (seconds := self._executor.blocked.pop(call.id, None)):
            result.metadata["blocked_loop_seconds"] = round(seconds, 1)
        record.duration = _own_time(perf_counter() - began, record)
        record.result_length = len(result.llm_content)
        try:
            if waiting := self._recording.record(record):
                failure = await self._recording.settle(waiting)
                if failure is not None:  # the call has happened; losing its result would not undo it
                    result.metadata["unrecorded"] = clean_exception(failure, session.workspace)
            if (session.notes or self._recording.has_notes) and parent is None:
                result = with_notes(result, [*session.take_notes(), *self._recording.take_notes()])
        finally:  # whoever watches must know how it ended, even when the caller is cancelled this late
            if self._listeners.all:
                self._listeners.emit(Done(call.id, call.name, result))
        return result

    def run_sync(
        self,
        call: RawCall | Tool[Any] | str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        *,
        session: Session | None = None,
        timeout: float | None = None,
        parent: ToolContext | None = None,
    ) -> ToolResult:
        """`run` for code without `await`: a script, a thread, a notebook. Ctrl-C stops the tool and is raised."""
        from ferrule.pipeline.tool_loops import run_and_wait

        def start() -> Coroutine[Any, Any, ToolResult]:
            return self.run(call, arguments, session=session, timeout=timeout, parent=parent)

        return run_and_wait(start, "run_sync" if parent is None else "call_sync", parent)

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
            except Stopped as stopped:
                self._recording.tell("looked_up", call, session, found=False)
                if self._mcp_servers and not self._closers:
                    stopped.suggestion = "The MCP servers of this Runtime run inside `async with` only; enter it first."
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
        stopped = Stopped(
            Stage.EXECUTE,
            ErrorKind.CANCELLED,
            joined(" ", [phrase("`{name}` did not finish.", name=call.name), phrase("It was cancelled.")]),
        )
        result = _stop(call, stopped, record)
        self._executor.blocked.pop(call.id, None)
        record.duration = _own_time(duration, record)
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
        tentative = decision.tentative
        if tentative and not (invocation.info.tentative and tool.wants_context):
            decision = replace(decision, verdict=Verdict.ASK, tentative=(tentative := False))  # it cannot be tried
        record.verdict, record.reason, record.rule = decision.verdict, decision.reason, decision.rule
        if decision.verdict is not _ALLOW and (verdict := Verdict(decision.verdict)) is not _ALLOW:
            if verdict is Verdict.DENY:
                raise Stopped(
                    Stage.AUTHORISE,
                    ErrorKind.PERMISSION,
                    phrase("`{name}` was not run: {reason}.", name=tool.name, reason=decision.reason),
                    phrase("Do not try the same call again; try another approach, or ask the person."),
                )
            if (problem := invocation.info.refusal) is not None:
                said = stopped_by(tool.name, problem, session.workspace, session.folders[1:])  # as if it had run
                raise Stopped(Stage.AUTHORISE, said.kind, said.message, said.suggestion, said.details)
            answer = await self._ask(invocation, decision, session, parent, record)
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
            if tentative:
                try_first(context, self._approver(invocation, session, context, record))
        if self._recording.watchers:
            self._recording.tell("started", invocation, session)
        seconds = timeout or tool.timeout or self.limits.timeout
        try:
            if self._tracer is None and tool.concurrency_safe:
                value = await self._executor.execute(invocation, context, seconds)
            else:
                value = await self._execute_apart(invocation, session, context, seconds, parent, record)
        except ToolFailed as failed:
            logger.info("Tool %s raised (call %s)", tool.name, invocation.call_id, exc_info=failed.cause)
            raise stopped_by(tool.name, failed.cause, session.workspace, session.folders[1:]) from None
        finally:
            if context is not None:
                record.waited += context.waited
            if emitter is not None:
                emitter.close()
        try:
            result = format_value(invocation, value, self.limits)
        except Exception as error:
            if isinstance(error, Stopped):
                raise
            raise unformattable(tool.name, error) from error
        record.box = result.metadata.get("box")
        if result.error is not None:
            record.outcome, record.stage, record.error = result.error.kind, Stage.EXECUTE, result.error.message
        if tool.cache:
            self.cache.put(key, result, tool.cache)  # pyright: ignore[reportPossiblyUnboundVariable]
        return result

    async def _ask(
        self,
        invocation: Invocation,
        decision: Decision,
        session: Session,
        parent: ToolContext | None,
        record: CallRecord,
    ) -> Answer:
        """Stage four. What the user takes to answer is not the call's time, nor that of the tool that made the call."""
        if not self._confirm.asks:
            return await self._confirm(invocation, decision, self.policy, session)
        began = perf_counter()
        try:
            with parent.asking_person() if parent is not None else nullcontext():
                return await self._confirm(invocation, decision, self.policy, session)
        finally:
            record.waited += perf_counter() - began

    def _approver(
        self, invocation: Invocation, session: Session, context: ToolContext, record: CallRecord
    ) -> Callable[[Effects], Coroutine[Any, Any, Approval]]:
        """What decides about the effects of a call that is tried first."""

        async def approve(effects: Effects) -> Approval:
            policy = self.policy
            record.effects = effects.as_data()
            decision = (
                policy.decide_effects(invocation, effects, session)
                if isinstance(policy, JudgesEffects)
                else Decision(Verdict.ASK, effects.reason)
            )
            record.verdict, record.reason, record.rule = decision.verdict, decision.reason, decision.rule
            if decision.verdict == Verdict.ALLOW:
                return Approval(True, decision.reason)
            if decision.verdict == Verdict.DENY:
                return Approval(False, decision.reason, refused=not decision.tentative)
            with context.asking_person():
                approval = await self._confirm.effects(invocation, decision, effects, policy, session)
            if self._confirm.asks:
                record.answer = approval.reason if approval.approved else Choice.NO.value
            return approval

        return approve

    def _context_for(
        self, tool: Tool[Any], call_id: str, session: Session, parent: ToolContext | None, emitter: Emitter | None
    ) -> ToolContext:
        """What the tool will know, and through which it reports."""
        lineage = parent.lineage if parent is not None else ()
        if len(lineage) >= self.limits.nesting:
            raise Stopped(
                Stage.EXECUTE,
                ErrorKind.EXECUTION,
                phrase("`{name}` was not run: tools called tools {count} deep.", name=tool.name, count=len(lineage)),
                phrase("A tool probably calls itself without end."),
            )
        loop = asyncio.get_running_loop()
        return ToolContext(session, call_id, tool.name, emitter, self._whole, (*lineage, tool.name), parent, loop)

    async def _execute_apart(
        self,
        invocation: Invocation,
        session: Session,
        context: ToolContext | None,
        seconds: float,
        parent: ToolContext | None,
        record: CallRecord,
    ) -> Any:
        """Run a tool inside a span, and one that is not concurrency-safe with no other call of it."""
        tool = invocation.tool
        async with AsyncExitStack() as around:
            # A tool further up that waits for this very call holds the lock already.
            if not tool.concurrency_safe and (parent is None or tool.name not in parent.lineage):
                if (caller := sync_caller.get()) is not None and tool.name in caller.tools:
                    raise _inside_itself(tool)
                queued = perf_counter() if (turn := self._alone.of(tool.name)).is_taken else None
                try:
                    await around.enter_async_context(turn)
                finally:
                    record.queued += perf_counter() - queued if queued is not None else 0.0
            span = around.enter_context(self._tracer.span(invocation, session)) if self._tracer is not None else None
            try:
                value = await self._executor.execute(invocation, context, seconds)
            finally:
                waited = record.waited + (context.waited if context is not None else 0.0)
                if span is not None and (waited or record.queued):
                    span.waited(waited, record.queued)
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

    def batch_sync(
        self,
        calls: Sequence[RawCall],
        *,
        session: Session | None = None,
        given: Mapping[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> list[ToolResult]:
        """`batch` for code without `await`."""
        from ferrule.pipeline.tool_loops import run_and_wait

        return run_and_wait(
            lambda: self.batch(calls, session=session, given=given, concurrency=concurrency), "batch_sync"
        )

    def stream(self, calls: RawCall | Sequence[RawCall], *, session: Session | None = None) -> AsyncIterator[CallEvent]:
        """Run calls and give their events as they happen; each call ends with `Done`. Leaving early stops them."""
        from ferrule.pipeline.listeners import stream

        listed = [calls] if isinstance(calls, RawCall) else list(calls)
        for call in listed:
            if not isinstance(call, RawCall):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
                raise TypeError(f"A stream takes calls, not {call!r}. Write RawCall(name, arguments).")
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


def _own_time(whole: float, record: CallRecord) -> float:
    if not record.waited and not record.queued:
        return whole
    return max(0.0, whole - record.waited - record.queued)


def _stop(call: RawCall, stopped: Stopped, record: CallRecord) -> ToolResult:
    """The result of a call that ended early, and what the record says of it."""
    if not isinstance(record.tool, str):  # pyright: ignore[reportUnnecessaryIsInstance] - models send anything
        record.tool = str(record.tool)
    result = format_stopped(call.id, call.name if isinstance(call.name, str) else record.tool, stopped)  # pyright: ignore[reportUnnecessaryIsInstance]
    record.stage, record.outcome, record.error = stopped.stage, stopped.kind, stopped.message
    if stopped.details and stopped.details.get("abandoned"):
        record.abandoned = True
    return result


def _session_for(tools: ToolSource) -> Session:
    """A session in the folder that the tools were made for; where they were made for none, in the current one."""
    folders = {tool.workspace for tool in tools.tools() if tool.workspace is not None}
    if len(folders) > 1:
        named = " and ".join(sorted(map(str, folders)))
        raise ValueError(
            f"These tools are for several folders: {named}. Give the Runtime a session with the one to use."
        )
    return Session(workspace=folders.pop()) if folders else Session()


def _undescribed(call: RawCall, error: DefinitionError) -> Stopped:
    return Stopped(
        Stage.AUTHORISE,
        ErrorKind.EXECUTION,
        phrase("The tool `{name}` cannot say what this call would do, so it was not run.", name=call.name),
        phrase("Use another tool; its author has to mend this one."),
        {"reason": str(error)},
    )


def _inside_itself(tool: Tool[Any]) -> Stopped:
    return Stopped(
        Stage.EXECUTE,
        ErrorKind.EXECUTION,
        phrase(
            "`{name}` was not run: it runs one call at a time, and the call that waits for this one is inside it.",
            name=tool.name,
        ),
        phrase("Make the call with `context.call_sync(...)`, which may run inside."),
    )


def _broken(call: RawCall, error: Exception, session: Session) -> Stopped:
    return Stopped(
        Stage.AUTHORISE,
        ErrorKind.UNKNOWN,
        phrase(
            "`{name}` was stopped: the program around it failed. {error}",
            name=call.name,
            error=clean_exception(error, session.workspace),
        ),
        phrase("This is not about the arguments; the same call may work later."),
    )
