"""Ferrule's runtime as an MCP server, whatever the transport and the era: lists the tools, and runs what is called."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged
from pydantic import ValidationError

from ferrule._version import __version__
from ferrule.core.context import Session, require_type
from ferrule.core.errors import ErrorKind
from ferrule.core.events import PartialOutput, Progress
from ferrule.core.result import ErrorInfo
from ferrule.mcp_server.asking import LACKING, QUESTION_SECONDS
from ferrule.mcp_server.opening import INSTRUCTIONS, NAME, TITLE, takes_structured
from ferrule.mcp_server.sessions import (
    LONG_RUNNING,
    TASK_AFTER,
    RuntimeSession,
    Sessions,
    Tasks,
    is_stateless,
    lacking,
    wants_progress,
)
from ferrule.mcp_server.shown_tools import PAGE_SIZE, RESULT_CHARS, BadCursor, Definitions, call_result
from ferrule.registry.registry import Registry, ToolSource, View
from ferrule.registry.search_tools import SearchedTools

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.subscriptions import SubscriptionBus

    from ferrule.core.events import CallEvent
    from ferrule.mcp_server.sessions import ClientSession, RunningCall
    from ferrule.pipeline.run import Runtime
    from ferrule.registry.registry import RegistryEvent


# Arguments that an agent writes into every tool's schema for itself, and then sends along with the call.


_ADDED = frozenset({"wait_for_previous"})


def without_added(arguments: Mapping[str, Any] | None, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments that are meant for the tool."""
    if not arguments or _ADDED.isdisjoint(arguments) or schema.get("additionalProperties") is not False:
        return arguments
    known = schema.get("properties", {})
    return {name: value for name, value in arguments.items() if name in known or name not in _ADDED}


# Requests that do not fit the protocol, told what is wrong with them.


_WORDLESS = "Invalid request parameters"
_MOST_PROBLEMS = 3


async def word_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        raise MCPError(types.INVALID_PARAMS, f"`{ctx.method}` was not accepted: {_problems(error)}.") from None
    except MCPError as error:
        if error.code == types.INVALID_PARAMS and error.message == _WORDLESS:
            words = f"`{ctx.method}` was not accepted: this connection has had no `initialize` yet. Send that first."
            raise MCPError(types.INVALID_PARAMS, words) from None
        raise


def _problems(error: ValidationError) -> str:
    told: list[str] = []
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in one["loc"])
        words = f"`{place}`: {one['msg']}" if place else one["msg"]
        if words not in told:
            told.append(words)
    more = f", and {len(told) - _MOST_PROBLEMS} more" if len(told) > _MOST_PROBLEMS else ""
    return "; ".join(told[:_MOST_PROBLEMS]) + more


# Tells clients that the tools changed: once for any number of changes that come together.


logger = logging.getLogger("ferrule.mcp")

_TOGETHER = 0.05


class ListChanges:
    """Watches a registry while the server runs."""

    def __init__(self, tools: ToolSource, definitions: Definitions, sessions: Sessions, bus: SubscriptionBus) -> None:
        self._tools = tools
        self._registry = _registry_below(tools)
        self._definitions = definitions
        self._sessions = sessions
        self._bus = bus
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._told: list[object] = []

    def watch(self) -> None:
        if self._registry is not None:
            self._loop = asyncio.get_running_loop()
            self._told = list(self._definitions.all())
            self._unsubscribe = self._registry.subscribe(self._note)
            for view in _views(self._tools):
                if isinstance(view, SearchedTools):
                    view.heard = self._note

    async def end(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait((self._telling,))

    def look(self) -> None:
        """What clients may see could be another by now, for other reasons than a change of the registry."""
        if self._unsubscribe is not None:
            self._start_telling()

    def _note(self, _event: RegistryEvent | None = None) -> None:
        if self._loop is not None and not self._loop.is_closed():  # a tool may be registered by any thread
            self._loop.call_soon_threadsafe(self._start_telling)

    def _start_telling(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        revision = -1
        while revision != self._tools.revision:
            revision = self._tools.revision
            await asyncio.sleep(_TOGETHER)
        shown = self._definitions.all()
        if shown == self._told:  # what changed is not among the tools that clients see
            return
        self._told = list(shown)
        await self._bus.publish(ToolsListChanged())
        for connection in list(self._sessions.connections):
            try:
                await connection.send_tool_list_changed()
            except Exception:
                logger.exception("A client could not be notified that the tools changed")


def _views(tools: ToolSource) -> Iterator[ToolSource]:
    """The tools, what they are a view of, and so on."""
    yield tools
    while isinstance(tools, View):
        tools = tools.source
        yield tools


def _registry_below(tools: ToolSource) -> Registry | None:
    *_, lowest = _views(tools)
    return lowest if isinstance(lowest, Registry) else None


# What a call reports while it runs, as the protocol's progress: numbers that only grow, and never a flood.


_PAUSE = 0.02
_MOST_WORDS = 1000


class ProgressReports:
    """Passes one call's reports to the request that attends it. Between two of them the newest stands for all.

    A tool that counts is followed in its own numbers. One that only shows pieces of output has them counted, and the
    end of what came since the last report is the message.
    """

    def __init__(self, session: ClientSession, running: RunningCall) -> None:
        self._running = running
        self._last = -1.0
        self._waiting: Progress | None = None
        self._pieces = 0
        self._words = ""
        self._counts = False
        self._sender: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = session.subscribe(self._note)

    def _note(self, event: CallEvent) -> None:
        if event.call_id != self._running.call.id:
            return
        if isinstance(event, Progress):
            self._counts = True
            self._waiting = event
        elif isinstance(event, PartialOutput):
            self._pieces += 1
            self._words = (self._words + _words(event.content))[-_MOST_WORDS:]
        else:
            return
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while (report := self._next()) is not None:
            attending = self._running.attended_by
            if attending is not None:
                await attending.session.report_progress(*report)
            await asyncio.sleep(_PAUSE)
        self._sender = None

    def _next(self) -> tuple[float, float | None, str | None] | None:
        if self._counts:
            event, self._waiting = self._waiting, None
            if event is None or not isfinite(event.done) or event.done <= self._last:
                return None
            self._last = event.done
            return event.done, event.total, event.message or None
        if self._pieces <= self._last:
            return None
        self._last = self._pieces
        words, self._words = self._words, ""
        return self._pieces, None, words or None

    async def finish(self) -> None:
        """Everything reported so far is sent; nothing is after this."""
        self._unsubscribe()
        if self._sender is not None:
            await asyncio.wait((self._sender,))

    def drop(self) -> None:
        self._unsubscribe()
        if self._sender is not None:
            self._sender.cancel()


def _words(content: Any) -> str:
    return content if isinstance(content, str) else f"{content}\n"


_MOST_PARKED = 256
_MOMENT = 0.1


class McpServer:
    """Serves a runtime's tools. `sdk` is the SDK's own server, to add prompts, resources or other methods to.

    Every client gets a session like the runtime's own; `close` ends what one leaves running. With `portable` off,
    schemas go out whole, which not every agent's provider takes. Where calls run elsewhere than in a runtime,
    `open_session` makes the sessions that run them, and tools are given in place of the runtime.
    """

    def __init__(
        self,
        runtime: Runtime | ToolSource,
        *,
        name: str = NAME,
        instructions: str = INSTRUCTIONS,
        portable: bool = True,
        page_size: int = PAGE_SIZE,
        result_chars: int = RESULT_CHARS,
        task_after: float = TASK_AFTER,
        close: Callable[[Session], Awaitable[None]] = Session.close,
        open_session: Callable[[], ClientSession] | None = None,
    ) -> None:
        if isinstance(runtime, ToolSource):
            tools = runtime
            if open_session is None:
                raise TypeError("Tools alone cannot be called. Give a Runtime with them, or `open_session`.")
        else:
            from ferrule.pipeline.run import Runtime

            require_type(Runtime, runtime=runtime)
            tools = runtime.usable_tools()  # what is always denied can still be called, and says why it is
            open_session = open_session or partial(RuntimeSession, runtime, close)
        self.definitions = Definitions(tools, portable=portable, page_size=page_size)
        self.sessions = Sessions(open_session)
        self.bus = InMemorySubscriptionBus()
        self._tasks = Tasks(self.sessions, self._answer)
        self.changes = ListChanges(tools, self.definitions, self.sessions, self.bus)
        self._listen = ListenHandler(self.bus)
        self._parked: dict[str, RunningCall] = {}
        self._result_chars = result_chars
        self._task_after = task_after
        self.sdk = _Sdk(
            name,
            version=__version__,
            title=TITLE if name == NAME else name,
            instructions=instructions,
            lifespan=self._running,
            cache_hints={"tools/list": CacheHint(), "server/discover": CacheHint()},
            get_tool_input_schema=self._input_schema,
            on_subscriptions_listen=self._listen,
        )
        self.sdk.middleware.append(word_errors)
        self.sdk.middleware.append(
            RequestStateBoundary(RequestStateSecurity.ephemeral(ttl=QUESTION_SECONDS), default_audience=name)
        )
        self.sdk.add_request_handler("tools/list", types.PaginatedRequestParams, self._list_tools)
        self.sdk.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        self._tasks.serve(self.sdk)

    @asynccontextmanager
    async def _running(self, _server: Server[Any]) -> AsyncGenerator[None]:
        """While it serves: watch the tools. In the end nothing that a client began goes on."""
        self.changes.watch()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                self._listen.close()
                await self.changes.end()
                await self.sessions.close()

    # Listing

    async def _list_tools(
        self, context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams
    ) -> dict[str, Any]:
        if not is_stateless(context):
            self.sessions.greet(context)
        try:
            page = self.definitions.page(params.cursor, structured=takes_structured(_client(context)))
        except BadCursor as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        answer: dict[str, Any] = {"resultType": "complete", "tools": page.tools}
        return {**answer, "nextCursor": page.next} if page.next else answer

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        shown = self.definitions.get(name)
        return shown.definition["inputSchema"] if shown is not None else None

    # Calling

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> dict[str, Any]:
        session = self.sessions.of(context)
        if is_stateless(context) and params.request_state is not None:
            running = self._take_up(params.request_state, session)
            running.answer(params.input_responses or {})
        else:
            name = self.definitions.own_name(params.name)
            shown = self.definitions.get(params.name)
            arguments = params.arguments
            if shown is not None:
                arguments = without_added(arguments, shown.definition["inputSchema"])
            running = session.begin(context, name, arguments, params.input_responses)
            running.fits = shown.fits if shown is not None and takes_structured(_client(context)) else None
        patience = self._patience(context, params.name)
        try:
            await self._attend(running, session, context, patience)
        except asyncio.CancelledError:
            running.taken_back = not session.closed
            with anyio.CancelScope(shield=True):  # the client takes it back, or is gone: the work stops
                await running.stop()
            raise
        if running.done:
            return self._answer(running, stateless=is_stateless(context))
        if running.questions:
            if len(self._parked) >= _MOST_PARKED:
                for key, one in list(self._parked.items()):
                    if one.done:
                        del self._parked[key]
            if len(self._parked) >= _MOST_PARKED:
                running.give_up_after(0)
                raise MCPError(
                    types.INTERNAL_ERROR, f"{_MOST_PARKED} calls wait for an answer already; answer those first."
                )
            self._parked[running.id] = running
            running.give_up_after(QUESTION_SECONDS)
            requests = {key: question.request for key, question in running.questions.items()}
            return {"resultType": "input_required", "inputRequests": requests, "requestState": running.id}
        return self._tasks.adopt(running, session)

    def _patience(self, context: ServerRequestContext[Any, Any], name: str) -> float | None:
        if not self._tasks.can_follow(context):
            return None
        shown = self.definitions.get(name)
        # What it asks first is asked before there is a task.
        return _MOMENT if shown is not None and LONG_RUNNING in shown.tool.tags else self._task_after

    async def _attend(
        self,
        running: RunningCall,
        session: ClientSession,
        context: ServerRequestContext[Any, Any],
        patience: float | None,
    ) -> None:
        """Stay with a call until there is something to say to this request."""
        if not wants_progress(context):
            await running.wait(patience)
            return
        running.attended_by = context
        reports = ProgressReports(session, running)
        try:
            await running.wait(patience)
            await reports.finish()
        finally:
            reports.drop()
            running.attended_by = None

    def _answer(self, running: RunningCall, *, stateless: bool = True) -> dict[str, Any]:
        """The result of a call that is done, or the protocol's own error where it has one for it."""
        result = running.result
        error = result.error if result is not None else None
        if result is not None and error is not None:
            if error.kind is ErrorKind.NOT_FOUND and result.metadata.get("stage") == "lookup":
                raise MCPError(types.INVALID_PARAMS, result.llm_content)
            if stateless and error.details and LACKING in error.details:
                raise lacking(error.details[LACKING])
        if result is None:
            stopped = ErrorInfo(ErrorKind.CANCELLED, f"`{running.call.name}` did not finish. It was cancelled.")
            return {"resultType": "complete", "content": [{"type": "text", "text": stopped.words}], "isError": True}
        return call_result(result, running.fits, self._result_chars)

    # Calls that wait for the user, in the era where the request does not

    def _take_up(self, state: str, session: ClientSession) -> RunningCall:
        running = self._parked.get(state)
        if running is None or (running not in session.calls and not running.done):
            raise MCPError(types.INVALID_PARAMS, "This call is no longer waiting for an answer. Make the call again.")
        del self._parked[state]
        running.keep()
        return running


def _client(context: ServerRequestContext[Any, Any]) -> str:
    """The name of the program at the other end; empty where it does not tell."""
    told = context.session.client_params
    return told.client_info.name if told is not None else ""


class _Sdk(Server[None]):
    """The SDK's server, which says at the handshake that it tells of changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(tools_changed=True)
        # Tasks are of the stateless era alone; a client with a handshake is not offered them.
        return super().create_initialization_options(told, experimental_capabilities, extensions or {})
