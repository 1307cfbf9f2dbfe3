"""Ferrule's runtime as an MCP server, whatever the transport and the era: lists the tools, and runs what is called."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp import types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from ferrule._version import __version__
from ferrule.core.context import Session
from ferrule.core.errors import ErrorKind
from ferrule.core.result import ErrorInfo
from ferrule.mcp_server.added_arguments import without_added
from ferrule.mcp_server.asking import QUESTION_SECONDS
from ferrule.mcp_server.definitions import PAGE_SIZE, BadCursor, Definitions
from ferrule.mcp_server.introduction import INSTRUCTIONS, NAME, TITLE, takes_structured
from ferrule.mcp_server.list_changes import ListChanges
from ferrule.mcp_server.peer import LACKING
from ferrule.mcp_server.progress import ProgressReports
from ferrule.mcp_server.results import RESULT_CHARS, call_result
from ferrule.mcp_server.sessions import Sessions, is_stateless, wants_progress
from ferrule.mcp_server.tasks import LONG_RUNNING, TASK_AFTER, Tasks, lacking
from ferrule.mcp_server.worded_errors import word_errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions

    from ferrule.mcp_server.running_call import RunningCall
    from ferrule.mcp_server.sessions import ClientSession
    from ferrule.pipeline.run import Runtime

_MOST_PARKED = 256
_MOMENT = 0.1


class McpServer:
    """Serves a runtime's tools. `sdk` is the SDK's own server, to add prompts, resources or other methods to.

    Every client gets a session like the runtime's own; `close` ends what one leaves running. With `portable` off,
    schemas go out whole, which not every agent's provider takes.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        name: str = NAME,
        instructions: str = INSTRUCTIONS,
        portable: bool = True,
        page_size: int = PAGE_SIZE,
        result_chars: int = RESULT_CHARS,
        task_after: float = TASK_AFTER,
        close: Callable[[Session], Awaitable[None]] = Session.close,
    ) -> None:
        self.definitions = Definitions(runtime.tools, portable=portable, page_size=page_size)
        self.sessions = Sessions(runtime, close)
        self.bus = InMemorySubscriptionBus()
        self._tasks = Tasks(self.sessions, self._answer)
        self._changes = ListChanges(runtime.tools, self.definitions, self.sessions, self.bus)
        self._listen = ListenHandler(self.bus)
        self._parked: dict[str, RunningCall] = {}
        self._result_chars = result_chars
        self._task_after = task_after
        self.sdk = _Sdk(
            name,
            version=__version__,
            title=TITLE,
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
        self._changes.watch()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                self._listen.close()
                await self._changes.end()
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
            with anyio.CancelScope(shield=True):  # the client takes it back, or is gone: the work stops
                await running.stop()
            raise
        if running.done:
            return self._answer(running, stateless=is_stateless(context))
        if running.questions:
            return self._park(running)
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
        reports = ProgressReports(session.runtime, running)
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

    # Calls that wait for the person, in the era where the request does not

    def _park(self, running: RunningCall) -> dict[str, Any]:
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

    def _take_up(self, state: str, session: ClientSession) -> RunningCall:
        running = self._parked.get(state)
        if running is None or (running not in session.calls and not running.done):
            raise MCPError(types.INVALID_PARAMS, "This call waits for no answer any more. Make it again.")
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
