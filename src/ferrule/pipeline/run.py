"""The runtime: takes a call through the seven stages and always gives exactly one result.

`Runtime._run` is the path of a call: `_validated` (lookup, validate), then `_carry_out` (authorise, confirm, execute,
format) between hooks if there are any, then the recorders. A `StoppedError` ends a call early, and becomes a result
there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 # pyright: ignore[reportUnusedImport] - too late in a late `run_sync`
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from copy import copy
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, overload

from ferrule.core.call import DEFAULT_LIMITS, Approval, Limits, RawCall
from ferrule.core.context import Session, ToolContext, innermost, keep_by, keeper_of, require_type, try_first
from ferrule.core.errors import DefinitionError, ErrorKind, Stage, StoppedError, out_of_resources
from ferrule.core.events import Done, Pending
from ferrule.core.languages import in_language, require_language
from ferrule.core.loops import sync_caller
from ferrule.core.phrases import phrase
from ferrule.core.tool import Tool
from ferrule.core.turns import Turns
from ferrule.pipeline.additions import Additions
from ferrule.pipeline.authorise import DefaultPolicy, Policy, UsableTools, authorise, decide, undescribed
from ferrule.pipeline.cleaning import ShowCrashes, clean_exception, ends_from_outside, shown_crash, stopped_by
from ferrule.pipeline.confirm import Asker, Asking, CallKeeper, Choice, confirm, confirm_effects
from ferrule.pipeline.execute import Executor, ToolFailed
from ferrule.pipeline.format import (
    ResultCache,
    broken_stop,
    cancelled_stop,
    format_stopped,
    format_value,
    unformattable,
    with_notes,
)
from ferrule.pipeline.hooks import Hook, Hooks
from ferrule.pipeline.record import Emitter, Listeners, Recorder, Recording, Tracer
from ferrule.pipeline.stages import Call, CallRecord, Verdict
from ferrule.pipeline.validate import lookup, validate
from ferrule.registry.registry import Registry, ToolSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Never, Unpack

    from ferrule.core.call import Effects
    from ferrule.core.context import CallPort
    from ferrule.core.events import CallEvent
    from ferrule.core.function_tool import FunctionTool
    from ferrule.core.plugin import Plugin
    from ferrule.core.result import Output, ToolResult
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.execute import RemoteRunner
    from ferrule.pipeline.stages import Decision
    from ferrule.registry.search_tools import ToolSearch

    T = TypeVar("T")
    Gives = FunctionTool[..., T]
    Later = Coroutine[Any, Any, T]
    Running = Later[ToolResult[T]]
    Streamed = AsyncIterator[T] | Iterator[T]
    Wrapped = Output[T] | ToolResult[T] | Later[Output[T]] | Later[ToolResult[T]]
    Args = str | bytes | Mapping[str, Any] | None
    AnyCall = RawCall | Tool[Any] | str | Mapping[str, Any]

    class Options(TypedDict, total=False):
        session: Session | None
        timeout: float | None
        parent: ToolContext | None
        deps: Any


_WAS_GIVEN = phrase("its result was given to the paused turn")
logger = logging.getLogger("ferrule.calls")
crashes = logging.getLogger("ferrule.crashes")

# Looking up a member of an enum takes longer than the lines that use these.
_ALLOW, _AUTHORISE, _EXECUTE, _FORMAT = Verdict.ALLOW, Stage.AUTHORISE, Stage.EXECUTE, Stage.FORMAT


class Runtime:
    """Tools, and everything between a model and running them.

    `tools` is a registry, a view of one, or simply tools. Without a policy, tools that are declared to write or execute
    ask first, and the others run. Without `ask`, calls that would ask are refused.

    `async with` starts the `plugins` (`Plugin`s, or what `load_plugin` takes) and the `mcp_servers`, written as in a
    `.mcp.json`. At the end it removes their tools, and closes them and everything that the calls of its session left
    running. A runtime without plugins, servers, shells and the like doesn't need it. With
    `own_loop`, async tools run on an event loop in another thread, so that one that blocks its loop can be abandoned at
    its time limit. `remote` runs the tools of its pools on other machines. With `repair=False`, arguments that do
    not fit are refused also where only one thing can be meant, such as `5` for `"5"`. `show_crashes` is what results
    say of an exception other than `ToolError`: its cleaned `"message"`, its `"type"` alone, or `"nothing"`. `language`
    is the user's, in which results have their `display_content`: `"en"` or `"zh"`.
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
        repair: bool = True,
        plugins: Iterable[Plugin | Mapping[str, Any] | str | Path] = (),
        mcp_servers: Mapping[str, Any] | None = None,
        own_loop: bool = False,
        remote: RemoteRunner | None = None,
        language: str | None = None,
        show_crashes: ShowCrashes = "message",
    ) -> None:
        self.tools: ToolSource = tools if isinstance(tools, ToolSource) else Registry(tools)
        if policy is not None and not hasattr(policy, "decide"):
            raise TypeError(f'A policy is an object such as RulePolicy(mode="plan"), not {policy!r}.')
        if ask is not None and not callable(ask):
            raise TypeError(f"`ask` is a function that gets a question and gives an answer, not {ask!r}.")
        if mcp_servers is not None and not isinstance(mcp_servers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f'mcp_servers are written by name, {{"clock": {{"command": …}}}}, not {mcp_servers!r}.')
        if tracer is not None and not hasattr(tracer, "span"):
            raise TypeError(f"`tracer` is an object such as SpanTracer(), not {tracer!r}.")
        require_type(Limits, limits=limits)
        require_type(Session, or_none=True, session=session)
        self.policy: Policy = policy if policy is not None else DefaultPolicy()
        if (check_tools := getattr(self.policy, "check_tools", None)) is not None:
            check_tools(self.tools)
        self._restrictions: Any = getattr(self.policy, "restrictions", None)
        if show_crashes not in ("message", "type", "nothing"):
            raise ValueError(f'`show_crashes` is "message", "type" or "nothing", not {show_crashes!r}.')
        self.limits = limits
        self.repair = repair
        self._show_crashes: ShowCrashes = show_crashes
        self.session = session if session is not None else _session_for(self.tools)
        self._restrict(self.session)
        if language is not None:
            self.session.language = require_language(language)
        self.cache = cache if cache is not None else ResultCache()
        self._recording = Recording(recorders)
        self.tracer = tracer
        self._asking = Asking(ask)
        self._executor = Executor(limits, own_loop=own_loop, remote=remote)
        self._listeners = Listeners()
        self._alone = Turns()
        self._whole = self  # of a view made by `with_tools`: the runtime with all tools, for calls that tools make
        self._port: CallPort | None = None
        self._approve: Callable[[Call, Effects], Coroutine[Any, Any, Approval]] | None = None
        self.hooks = Hooks(hooks)
        self._additions = Additions(plugins, mcp_servers, own_loop=own_loop)
        self._deps: Any = None  # of a view for one run of an agent, or one batch
        self.keeper: CallKeeper | None = None  # of a view for the calls of one answer in a turn that can pause
        self.recheck: Callable[[Call], Awaitable[None]] | None = None  # refuses a start that is no longer allowed

    async def __aenter__(self) -> Runtime:
        """Start the plugins and the MCP servers, and add their tools."""
        await self._additions.open(self.tools, folders=self.session.folders, policy=self.policy)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the plugins and servers, and everything that calls in the runtime's own session left running."""
        try:
            await self.session.close()
        finally:
            await self._additions.close()

    def with_tools(
        self,
        tools: ToolSource,
        *,
        ask: Asker | None = None,
        listener: Callable[[CallEvent], None] | None = None,
        deps: Any = None,
        keeper: CallKeeper | None = None,
    ) -> Runtime:
        """The same runtime for a caller that has only these tools, such as an agent with a filter.

        The tools themselves may still call all others. `ask`, `listener` and `deps` apply to this caller's calls and to
        those that their tools make; their questions do not wait for other callers' questions. `keeper` is for this
        caller's own calls alone: those of tools cannot wait.
        """
        view: Runtime = copy(self)
        view.keeper = keeper
        view._deps = deps if deps is not None else self._deps
        if ask is not None or listener is not None:
            whole: Runtime = copy(self._whole)
            asking = Asking(ask) if ask is not None else self._asking
            listeners = self._listeners
            if listener is not None:
                listeners = Listeners(listeners)
                listeners.subscribe(listener)
            view._asking, view._listeners, view._whole = asking, listeners, whole
            whole._asking, whole._listeners, whole._whole = asking, listeners, whole  # at any depth of nested calls
        view.tools = tools
        return view

    def for_remote_call(
        self,
        policy: Policy,
        calls: CallPort,
        approve: Callable[[Call, Effects], Coroutine[Any, Any, Approval]],
        listener: Callable[[CallEvent], None] | None = None,
    ) -> Runtime:
        """The same runtime for one call from another machine. Its tool calls other tools through `calls`, and `approve`
        asks there whether the effects of a tried call may be kept.
        """
        view: Runtime = copy(self)
        view.policy, view._port, view._approve = policy, calls, approve
        view._listeners = Listeners(self._listeners)
        if listener is not None:
            view._listeners.subscribe(listener)
        return view

    def for_session(self, session: Session, *, ask: Asker | None = None, limits: Limits | None = None) -> Runtime:
        """The same tools, policy, recorders and hooks for another session, such as that of a server's client.

        Questions to one client, and tools that run one call at a time, do not hold up the calls of others. If no policy
        was chosen, a tool without a kind counts as `execute`, because it is not the client that provided it.
        """
        own = Runtime(
            self.tools,
            policy=DefaultPolicy(served=True) if isinstance(self.policy, DefaultPolicy) else self.policy,
            ask=ask,
            tracer=self.tracer,
            limits=limits or self.limits,
            session=session,
            repair=self.repair,
            own_loop=self._executor.own_loop,
            remote=self._executor.remote,
            show_crashes=self._show_crashes,
        )
        own._recording, own.hooks, own._listeners = self._recording, self.hooks, Listeners(self._listeners)
        return own

    @property
    def whole(self) -> Runtime:
        """The runtime as the tools that run in this view call it: with all tools."""
        return self._whole

    @property
    def asker(self) -> Asker | None:
        """What asks the user; None if calls that would ask are refused."""
        return self._asking.asker

    def usable_tools(self, session: Session | None = None) -> ToolSource:
        """The tools that a model is worth showing: none that is not for the session's caller, or that the policy denies
        whatever the arguments.
        """
        return UsableTools(self.tools, self.policy, session or self.session)

    def with_search(self, search: ToolSearch | None = None) -> Runtime:
        """The same runtime for a model that searches for tools: of many, `tools` shows those that are pinned, a tool
        `search_tools`, and what was found with it.
        """
        from ferrule.registry.search_tools import DEFAULT_SEARCH, SearchedTools

        return self.with_tools(SearchedTools(self.usable_tools(), search or DEFAULT_SEARCH))

    # One call

    @overload
    def run(self, call: Gives[Never], arguments: Args = None, **more: Unpack[Options]) -> Running[Any]: ...
    @overload
    def run(self, call: Gives[Streamed[str]], arguments: Args = None, **more: Unpack[Options]) -> Running[str]: ...
    @overload
    def run(self, call: Gives[Streamed[Any]], arguments: Args = None, **more: Unpack[Options]) -> Running[Any]: ...
    @overload
    def run(self, call: Gives[Wrapped[T]], arguments: Args = None, **more: Unpack[Options]) -> Running[T]: ...
    @overload
    def run(self, call: Gives[Later[T]], arguments: Args = None, **more: Unpack[Options]) -> Running[T]: ...
    @overload
    def run(self, call: Gives[T], arguments: Args = None, **more: Unpack[Options]) -> Running[T]: ...
    @overload
    def run(self, call: AnyCall, arguments: Args = None, **more: Unpack[Options]) -> Running[Any]: ...
    def run(
        self,
        call: AnyCall,
        arguments: Args = None,
        *,
        session: Session | None = None,
        timeout: float | None = None,
        parent: ToolContext | None = None,
        deps: Any = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run one call and return its result; nothing that a tool or a model does makes this raise.

        `call` may be a tool instead of its name, or a call in a provider's form: `{"type": "tool_use", …}`. With a
        `parent`, the call runs in the parent's session unless another is given. `deps` is what its tool, and those that
        it calls, get as `ToolContext.deps`. Cancelling the task that awaits it stops the tool, records the call, and
        raises `CancelledError`.
        """
        if isinstance(call, Tool):
            call = RawCall(call.name, arguments)
        elif isinstance(call, str):
            call = RawCall(call, arguments)
        elif not isinstance(call, RawCall):
            from ferrule.dialects.dialect import read_call

            if arguments is not None:
                raise TypeError("A call in a provider's form has its arguments already.")
            call = read_call(call)
        if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"A time limit is more than 0 seconds, not {timeout!r}.")
        deps = deps if deps is not None else self._deps
        return self._run(Call(call, session or (parent or self).session, parent, timeout, deps), self._validated)

    async def _run(self, call: Call, first_stages: Callable[[Call], Invocation]) -> ToolResult:
        """Take a call through all stages. The one place where an early exit becomes a result."""
        began = perf_counter()
        raw, session, record = call.raw, call.session, call.record
        record.started = time()  # the coroutine may have been made much earlier
        if self._restrictions is not None:
            self._restrict(session)
        if self._listeners.all:
            self._listeners.emit(Pending(raw.id, raw.name, parent_id=record.parent_id))
        try:
            call.invocation = invocation = first_stages(call)
            record.repairs = invocation.repairs
            invocation.session = session
            call.stage = _AUTHORISE
            if self.hooks.any:
                result = await self._between_hooks(call)
            else:
                result = await self._carry_out(call)
        except StoppedError as stopped:
            if (crash := stopped.crash) is not None:
                trace = None if out_of_resources(crash) else crash  # no code is at fault then
                crashes.error("Tool %s crashed (call %s)", call.record.tool, raw.id, exc_info=trace)
            result = self._stop(call, stopped)
        except DefinitionError as error:
            result = self._stop(call, undescribed(raw.name, error))
        except BaseException as error:
            if ends_from_outside(error):
                if isinstance(error, asyncio.CancelledError):
                    await self._end_cancelled(call, perf_counter() - began)
                raise
            trace = not out_of_resources(error)  # no code is at fault then, and the result says what is missing
            logger.exception("Call %s of %s broke the pipeline", raw.id, raw.name, exc_info=trace)
            result = self._stop(call, broken_stop(call, error))
        if session.language != "en":  # here, so that sessions in other languages share cached results
            result.display_content = in_language(result.display_content, session.language)
        if call.blocked:
            result.metadata["blocked_loop_seconds"] = round(call.blocked, 1)
        duration = perf_counter() - began
        record.duration = _own_time(record, duration) if record.waited or record.queued else duration
        record.result_length = len(result.llm_content)
        recording = self._recording
        try:
            if recording.recorders and (waiting := recording.record(record)):
                failure = await recording.settle(waiting)
                if failure is not None:  # the call has run, and its result must not be lost
                    result.metadata["unrecorded"] = clean_exception(failure, session.workspace)
            if (session.notes or (recording.noting and any(recording.noting))) and call.parent is None:
                result = with_notes(result, [*session.take_notes(), *recording.take_notes()])
        finally:  # even if the caller is cancelled this late
            if self._listeners.all:
                self._listeners.emit(Done(raw.id, raw.name, result))
        return result

    @overload
    def run_sync(self, call: Gives[Never], arguments: Args = None, **more: Unpack[Options]) -> ToolResult[Any]: ...
    @overload
    def run_sync(
        self, call: Gives[Streamed[str]], arguments: Args = None, **more: Unpack[Options]
    ) -> ToolResult[str]: ...
    @overload
    def run_sync(
        self, call: Gives[Streamed[Any]], arguments: Args = None, **more: Unpack[Options]
    ) -> ToolResult[Any]: ...
    @overload
    def run_sync(self, call: Gives[Wrapped[T]], arguments: Args = None, **more: Unpack[Options]) -> ToolResult[T]: ...
    @overload
    def run_sync(self, call: Gives[Later[T]], arguments: Args = None, **more: Unpack[Options]) -> ToolResult[T]: ...
    @overload
    def run_sync(self, call: Gives[T], arguments: Args = None, **more: Unpack[Options]) -> ToolResult[T]: ...
    @overload
    def run_sync(self, call: AnyCall, arguments: Args = None, **more: Unpack[Options]) -> ToolResult[Any]: ...
    def run_sync(
        self,
        call: AnyCall,
        arguments: Args = None,
        *,
        session: Session | None = None,
        timeout: float | None = None,
        parent: ToolContext | None = None,
        deps: Any = None,
    ) -> ToolResult:
        """`run` for code without `await`: a script, a thread, a notebook. Ctrl-C stops the tool and is raised."""
        from ferrule.pipeline.tool_loops import run_and_wait

        def start() -> Coroutine[Any, Any, ToolResult]:
            return self.run(call, arguments, session=session, timeout=timeout, parent=parent, deps=deps)

        return run_and_wait(start, "run_sync" if parent is None else "call_sync", parent)

    def build(self, call: RawCall, tool: Tool[Any] | None = None) -> Invocation:
        """Look a call up and validate it without running it; raises `StoppedError`.

        `tool` is the tool that it names, if the caller has just looked it up.
        """
        return validate(lookup(self.tools, call) if tool is None else tool, call, self.limits, repairs=self.repair)

    async def decide(self, call: RawCall, *, session: Session | None = None) -> Decision:
        """What the policy says about a call that is not run; raises `StoppedError` for one that would end before or
        with that. Hooks are not asked.
        """
        session = session or self.session
        self._restrict(session)
        invocation = self.build(call)
        invocation.session = session
        if invocation.tool.has_ready:
            await invocation.ready(session)
        decision, stopped = decide(self.policy, invocation, session)
        if stopped is not None:
            raise stopped
        return decision

    def execute(
        self,
        invocation: Invocation,
        *,
        call: RawCall | None = None,
        session: Session | None = None,
        timeout: float | None = None,
        parent: ToolContext | None = None,
        decision: Decision | None = None,
    ) -> Coroutine[Any, Any, ToolResult]:
        """Authorise, run, format and record what `build` returned. `call` is what it was built from, for the record.
        `decision` is what this runtime's policy has just decided about it, if it was asked.
        """
        tool = invocation.tool
        if call is None:
            arguments = tool.params.dump(invocation.params)
            call = RawCall(tool.name, arguments, id=invocation.call_id, version=tool.version)
        ready = Call(call, session or (parent or self).session, parent, timeout, self._deps)
        ready.invocation, record = invocation, ready.record
        if decision is not None:
            ready.decided = invocation, decision
        record.tool, record.version, record.kind = tool.name, tool.version, tool.kind
        return self._run(ready, self._built)

    def refuse(
        self, call: RawCall, why: StoppedError, *, session: Session | None = None, parent: ToolContext | None = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """End a call without running it: return its result and record it."""

        def refused(call: Call) -> Invocation:
            self._looked_up(call)
            raise why

        return self._run(Call(call, session or (parent or self).session, parent), refused)

    def _built(self, call: Call) -> Invocation:
        """Stages one and two of a call that `build` has taken through them."""
        if self._recording.watchers and self._recording.is_watched:
            self._recording.tell("looked_up", call.raw, call.session, found=True)
        return call.invocation

    def _validated(self, call: Call) -> Invocation:
        """Stages one and two."""
        return self.build(call.raw, self._looked_up(call))

    def _looked_up(self, call: Call) -> Tool[Any]:
        """Stage one, for the record and the watchers."""
        raw, record = call.raw, call.record
        try:
            tool = lookup(self.tools, raw)
        except StoppedError as stopped:
            self._recording.tell("looked_up", raw, call.session, found=False)
            if why := self._additions.why_absent(str(raw.name)):
                stopped.suggestion = why
            raise
        if self._recording.watchers and self._recording.is_watched:
            self._recording.tell("looked_up", raw, call.session, found=True)
        record.tool, record.version, record.kind = tool.name, tool.version, tool.kind
        return tool

    def _restrict(self, session: Session) -> None:
        """Give a session the policy's restrictions, for its tools that walk folders or run programs."""
        if session.restrictions is None:
            session.restrictions = self._restrictions

    def _stop(self, call: Call, stopped: StoppedError) -> ToolResult:
        """The result of a call that ended early, also noted in its record."""
        raw, record = call.raw, call.record
        if stopped.crash is not None:
            stopped.message = shown_crash(stopped, self._show_crashes)
        if not isinstance(record.tool, str):  # pyright: ignore[reportUnnecessaryIsInstance] - models send anything
            record.tool = str(record.tool)
        name = raw.name if isinstance(raw.name, str) else record.tool  # pyright: ignore[reportUnnecessaryIsInstance]
        result = format_stopped(raw.id, name, stopped, call.session.language)
        record.stage, record.outcome = stopped.stage, stopped.kind
        record.error = result.error.message if result.error is not None else None
        if stopped.details and stopped.details.get("abandoned"):
            record.abandoned = True
        return result

    async def _end_cancelled(self, call: Call, duration: float) -> None:
        """Record and announce a call whose caller was cancelled. A slow recorder gets `Limits.grace` seconds."""
        raw, record, result = call.raw, call.record, self._stop(call, cancelled_stop(call))
        record.duration = _own_time(record, duration)
        try:
            if waiting := self._recording.record(record):
                await self._recording.settle(waiting, self.limits.grace)
        finally:
            if self._listeners.all:
                self._listeners.emit(Done(raw.id, raw.name, result))

    async def _between_hooks(self, call: Call) -> ToolResult:
        """Stages three to six with the hooks around them. The record gets the input that the tool runs with."""
        asked = call.invocation
        words = await self.hooks.before(call, lambda tool, raw: self.build(raw, tool))
        invocation = call.invocation
        if invocation is not asked:
            call.record.arguments = invocation.tool.params.dump(invocation.params)
            call.record.repairs = invocation.repairs
        return await self.hooks.after(call, await self._carry_out(call), words)

    async def _carry_out(self, call: Call) -> ToolResult:
        """Stages three to six."""
        if self.keeper is not None:
            call.stage = _EXECUTE
            is_there, value = self.keeper.given(call)
            if is_there:
                call.record.verdict, call.record.reason = _ALLOW, _WAS_GIVEN
                call.stage = _FORMAT
                return format_value(call.invocation, value, self.limits)
            call.stage = _AUTHORISE
        if call.invocation.tool.has_ready:
            await call.invocation.ready(call.session)
        if authorise(call, self.policy) is not _ALLOW:
            call.stage = Stage.CONFIRM
            await confirm(call, self.policy, self._asking, self._listeners.emit, self.keeper)
        if self.recheck is not None:
            await self.recheck(call)
        invocation, session, record = call.invocation, call.session, call.record
        tool = invocation.tool
        cached = tool.cache and not (tool.wants_context and call.deps is not None)  # what it found may be theirs alone
        if cached:
            key = self.cache.key(invocation, session)
            kept = self.cache.get(key, invocation)
            if kept is not None:
                record.cached, call.stage = True, _FORMAT
                return kept
        context = None
        emitter = Emitter(self._listeners) if self._listeners.all else None
        executor = self._executor
        is_remote = executor.remote is not None and executor.pool_of(tool) is not None
        if call.parent is not None or tool.wants_context or emitter is not None or is_remote:
            context = self._context_for(call, emitter)
        call.context = context
        call.seconds, call.stage = call.timeout or tool.timeout or self.limits.timeout, _EXECUTE
        if self.keeper is not None:
            if not tool.deferred:
                await self.keeper.begin(call)
        elif (kept := keeper_of(call.parent)) is not None and not tool.repeatable:
            keeper, outer = kept
            await keeper.begin_inside(outer, tool.name)
        if self._recording.watchers and self._recording.is_watched:
            self._recording.tell("started", invocation, session)
        try:
            if tool.deferred:
                raise self._deferred(call)
            if self.tracer is None and not tool.takes_turns:
                value = await executor.execute(call)
            else:
                value = await self._execute_apart(call)
            call.stage = _FORMAT
        except ToolFailed as failed:
            raise stopped_by(tool.name, failed.cause, session.workspace, session.folders[1:]) from None
        finally:
            if context is not None:
                record.waited += context.waited
            if emitter is not None:
                emitter.close()
        try:
            result = format_value(invocation, value, self.limits)
        except StoppedError:
            raise
        except Exception as error:
            raise unformattable(tool.name, error) from error
        record.box = result.metadata.get("box")
        if result.error is not None:
            # A call that was tried and then not approved did not fail: it was refused.
            tried = record.effects is not None and result.error.kind is ErrorKind.PERMISSION
            refused = tried and record.verdict != Verdict.ALLOW and record.answer in (None, Choice.NO)
            record.outcome, record.error = result.error.kind, result.error.message
            record.stage = Stage.CONFIRM if refused else Stage.EXECUTE
        if cached:
            self.cache.put(key, result, tool.cache)  # pyright: ignore[reportPossiblyUnboundVariable]
        return result

    def _deferred(self, call: Call) -> StoppedError:
        """The early exit of a call that is run elsewhere: the turn waits for its result, if it can."""
        name, keeper = call.invocation.tool.name, self.keeper
        if keeper is None:
            said = phrase(
                "`{name}` was not run: its result comes from elsewhere, and nothing can wait for it here.", name=name
            )
            what_helps = phrase("An agent that has a TurnStore can wait for it.")
            return StoppedError(_EXECUTE, ErrorKind.DEFERRED, said, what_helps)
        keeper.wait_for(call, None)
        said = phrase("`{name}` has no result yet: it comes from elsewhere.", name=name)
        return StoppedError(_EXECUTE, ErrorKind.DEFERRED, said)

    def _context_for(self, call: Call, emitter: Emitter | None) -> ToolContext:
        """The tool's context, through which it reports and calls other tools."""
        tool, parent = call.invocation.tool, call.parent
        lineage = parent.lineage if parent is not None else ()
        if len(lineage) >= self.limits.nesting:
            raise StoppedError(
                Stage.EXECUTE,
                ErrorKind.EXECUTION,
                phrase("`{name}` was not run: tools called tools {count} deep.", name=tool.name, count=len(lineage)),
                phrase("A tool probably calls itself without end."),
            )
        port = self._port or self._whole
        context = ToolContext(
            call.session, call.invocation.call_id, tool.name, emitter, port, (*lineage, tool.name), parent,
            asyncio.get_running_loop(), call.deps,
        )  # fmt: skip
        context.opened_hosts = call.decision.opens
        keep_by(context, (self.keeper, call.raw.id) if self.keeper is not None else keeper_of(parent))
        if call.decision.tentative or call.decision.tried:

            async def approve(effects: Effects) -> Approval:
                if self._approve is not None:
                    return await self._approve(call, effects)
                emit = self._listeners.emit
                approval = await confirm_effects(call, effects, self.policy, self._asking, emit, self.keeper)
                if approval.approved and self.recheck is not None:  # somebody may have thought about it for long
                    try:
                        await self.recheck(call)
                    except StoppedError as stopped:
                        return Approval(False, stopped.message, stopped.suggestion or "")
                return approval

            try_first(context, approve)
        return context

    async def _execute_apart(self, call: Call) -> Any:
        """Run a tool inside a tracer's span, and one call at a time unless it is concurrency-safe."""
        tool, context, parent, record = call.invocation.tool, call.context, call.parent, call.record
        async with AsyncExitStack() as around:
            if tool.takes_turns:
                # An outer call of the same tool has its turn already. The calls made inside it take turns of their own.
                outer = innermost(tool.name, parent)
                turn = tool.name if outer is None else f"{tool.name} in {outer.call_id}"
                if outer is None and (caller := sync_caller.get()) is not None and tool.name in caller.tools:
                    said = phrase(
                        "`{name}` was not run: it runs one call at a time, and the call that waits for this one is "
                        "inside it.",
                        name=tool.name,
                    )
                    what_helps = phrase("Make the call with `context.call_sync(...)`, which may run inside.")
                    raise StoppedError(_EXECUTE, ErrorKind.EXECUTION, said, what_helps)
                queued, waits = perf_counter(), self._alone.is_taken(turn)
                try:
                    await around.enter_async_context(self._alone.of(turn))
                finally:
                    record.queued += perf_counter() - queued if waits else 0.0
            tracer = self.tracer
            span = around.enter_context(tracer.span(call.invocation, call.session)) if tracer is not None else None
            try:
                value = await self._executor.execute(call)
                call.stage = _FORMAT
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
        calls: Sequence[RawCall | Mapping[str, Any]],
        *,
        session: Session | None = None,
        parent: ToolContext | None = None,
        given: Mapping[str, Any] | None = None,
        concurrency: int | None = None,
        deps: Any = None,
    ) -> list[ToolResult]:
        """Run many calls, in parallel where they are independent, and return their results in the order given.

        Calls may be in a provider's form too. One may use an earlier one's data: `{"$ref": "call_1.path"}`. One failure
        does not stop the others.
        """
        from ferrule.pipeline.batch import run_batch

        runtime = self if deps is None else self.with_tools(self.tools, deps=deps)
        return await run_batch(runtime, calls, session or (parent or self).session, parent, given or {}, concurrency)

    def batch_sync(
        self,
        calls: Sequence[RawCall | Mapping[str, Any]],
        *,
        session: Session | None = None,
        given: Mapping[str, Any] | None = None,
        concurrency: int | None = None,
        deps: Any = None,
    ) -> list[ToolResult]:
        """`batch` for code without `await`."""
        from ferrule.pipeline.tool_loops import run_and_wait

        return run_and_wait(
            lambda: self.batch(calls, session=session, given=given, concurrency=concurrency, deps=deps), "batch_sync"
        )

    def stream(
        self,
        calls: RawCall | Mapping[str, Any] | Sequence[RawCall | Mapping[str, Any]],
        *,
        session: Session | None = None,
        deps: Any = None,
    ) -> AsyncIterator[CallEvent]:
        """Run calls and yield their events as they happen; each call ends with `Done`. Leaving early stops them."""
        from ferrule.pipeline.batch import as_calls
        from ferrule.pipeline.record import stream

        listed = as_calls("stream", [calls] if isinstance(calls, (RawCall, Mapping)) else calls)

        def start(listener: Callable[[CallEvent], None]) -> Awaitable[Any]:
            # Heard by this stream alone: ids are the model's, and calls of others may have the same.
            return self.with_tools(self.tools, listener=listener).batch(listed, session=session, deps=deps)

        return stream({call.id for call in listed}, start)

    def subscribe(self, listener: Callable[[CallEvent], None]) -> Callable[[], None]:
        """Call `listener` with the events of every call, also of those made through `for_session`, `with_tools` and the
        like. Returns a function that ends the subscription.
        """
        return self._listeners.subscribe(listener)

    # While they run

    def cancel(self, call_id: str) -> bool:
        """Stop a running call, whose result is then a `cancelled_error`. False if no such call is running."""
        return self._executor.cancel(call_id)

    @property
    def unwanted(self) -> set[str]:
        """Ids of calls that must not start, such as those of a batch. Remove each one you add."""
        return self._executor.unwanted

    @property
    def abandoned(self) -> int:
        """How many abandoned calls have not ended yet."""
        return self._executor.abandoned


def _own_time(record: CallRecord, whole: float) -> float:
    """A call's time without its waits for the user and for its turn."""
    return max(0.0, whole - record.waited - record.queued)


def _session_for(tools: ToolSource) -> Session:
    """A session in the folder that the tools were made for, or else in the current one."""
    folders = {tool.workspace for tool in tools.tools() if tool.workspace is not None}
    if len(folders) > 1:
        named = " and ".join(sorted(map(str, folders)))
        raise ValueError(
            f"These tools are for several folders: {named}. Give the Runtime a session with the one to use."
        )
    return Session(workspace=folders.pop()) if folders else Session()
