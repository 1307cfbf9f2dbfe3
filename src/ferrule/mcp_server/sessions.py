"""Who is served: each client with a session of its own, whose shells and memory end with it.

A connection with a handshake is a client. In the stateless era a request says nothing of the ones before, so all of
them on one server (one stdio pipe, or everybody who holds the one token) share a session.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp import types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ferrule.core.call import RawCall
from ferrule.core.elicitation import set_elicitor
from ferrule.mcp_server.asking import HandshakePeer, RunningCall, StatelessPeer, ask_through_client, set_peer
from ferrule.mcp_server.opening import TASKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server

    from ferrule.core.context import Session
    from ferrule.core.events import CallEvent
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime

    Answer = Callable[[RunningCall], dict[str, Any]]

logger = logging.getLogger("ferrule.mcp")

_KEY = "ferrule.session"


def is_stateless(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the request is of the era without sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(context: ServerRequestContext[Any, Any]) -> Connection:
    """The connection that a request came on, which the SDK has no public way to."""
    return context.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def wants_progress(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client wants to be told how far a request is."""
    return context.meta is not None and context.meta.get("progress_token") is not None


class ClientSession(ABC):
    """One client, and the calls that it has running."""

    def __init__(self) -> None:
        self.calls: set[RunningCall] = set()
        self.closed = False

    @abstractmethod
    async def run(self, running: RunningCall) -> ToolResult:
        """Take a call to its result."""

    @abstractmethod
    def subscribe(self, listener: Callable[[CallEvent], None]) -> Callable[[], None]:
        """Hear what its calls report while they run."""

    @abstractmethod
    async def end(self) -> None:
        """Close whatever its calls left running."""

    def begin(
        self,
        context: ServerRequestContext[Any, Any],
        name: str,
        arguments: Mapping[str, Any] | None,
        answers: Mapping[str, Any] | None = None,
    ) -> RunningCall:
        """Start a call; the client can be asked while it runs, and be told of its progress where it wants to."""
        running = RunningCall(RawCall(name, arguments or {}), answers)
        peer = StatelessPeer(context, running) if is_stateless(context) else HandshakePeer(context)

        async def work() -> ToolResult:
            set_peer(peer)
            if peer.can_elicit:
                set_elicitor(peer)
            return await self.run(running)

        self.calls.add(running)
        running.start(work(), self.calls.discard, at_once=not wants_progress(context))
        return running

    async def close(self) -> None:
        """Stop its calls, then whatever they left running."""
        self.closed = True
        await asyncio.gather(*(running.stop() for running in list(self.calls)))
        try:
            await self.end()
        except Exception:
            logger.exception("A session could not be closed")


class RuntimeSession(ClientSession):
    """A client with a runtime of its own, which asks through the client."""

    def __init__(self, template: Runtime, close: Callable[[Session], Awaitable[None]]) -> None:
        super().__init__()
        own = replace(template.session, id=uuid.uuid4().hex, state={})
        self._runtime = template.for_session(own, ask=ask_through_client)
        self._close = close

    async def run(self, running: RunningCall) -> ToolResult:
        return await self._runtime.run(running.call)

    def subscribe(self, listener: Callable[[CallEvent], None]) -> Callable[[], None]:
        return self._runtime.subscribe(listener)

    async def end(self) -> None:
        await self._close(self._runtime.session)


class Sessions:
    """Finds the session of a request, and closes each with its connection."""

    def __init__(self, open_session: Callable[[], ClientSession]) -> None:
        self._open = open_session
        self._shared: ClientSession | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.idle_seconds: float | None = None
        """How long the shared session may be unused before it is closed; None for as long as the server runs."""
        self.connections: set[Connection] = set()
        """Those with a handshake, which can be told of changes."""

    def of(self, context: ServerRequestContext[Any, Any]) -> ClientSession:
        if is_stateless(context):
            return self._the_shared()
        connection = self.greet(context)
        session: ClientSession | None = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = self._open()
            connection.exit_stack.push_async_callback(session.close)
        return session

    def greet(self, context: ServerRequestContext[Any, Any]) -> Connection:
        """Remember a connection for as long as it lasts."""
        connection = connection_of(context)
        if connection not in self.connections:
            self.connections.add(connection)
            connection.exit_stack.callback(self.connections.discard, connection)
        return connection

    async def close(self) -> None:
        """End the shared session; the others have ended with their connections."""
        if self._idle is not None:
            self._idle.cancel()
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.close()
        await asyncio.gather(*self._closing)

    def _the_shared(self) -> ClientSession:
        if self._shared is None:
            self._shared = self._open()
        if self.idle_seconds is not None:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(self.idle_seconds, self._close_unused)
        return self._shared

    def _close_unused(self) -> None:
        shared = self._shared
        if shared is None:
            return
        if shared.calls:
            self._the_shared()  # still at work: look again later
            return
        self._shared = None
        closing = asyncio.get_running_loop().create_task(shared.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


# Long calls as tasks (the extension `io.modelcontextprotocol/tasks`): an answer at once, the result when it is there.


TASK_AFTER = 10.0
"""Seconds that a call may take before it becomes a task."""
LONG_RUNNING = "long-running"
"""The tag of a tool whose calls are tasks from the start."""
_KEPT_MS = 3_600_000
_POLL_MS = 1_000
_MOST = 256


def follows_tasks(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can be answered with a task."""
    able = context.session.client_capabilities
    return is_stateless(context) and able is not None and TASKS in (able.extensions or {})


class TaskRequest(types.RequestParams):
    task_id: str


class TaskUpdateParams(TaskRequest):
    input_responses: dict[str, Any]


class Task:
    """A call that is followed by its id."""

    def __init__(self, running: RunningCall, session: ClientSession, answer: Answer) -> None:
        self.running = running
        self.session = session
        self._answer = answer
        self._created = self._updated = _now()
        self._status = "working"

    @property
    def ended(self) -> bool:
        return self.running.done

    def document(self) -> dict[str, Any]:
        """The task as `tasks/get` shows it now."""
        status, more = self._now()
        if status != self._status:
            self._status, self._updated = status, _now()
        shown: dict[str, Any] = {
            "taskId": self.running.id,
            "status": status,
            "createdAt": self._created,
            "lastUpdatedAt": self._updated,
            "ttlMs": _KEPT_MS,
            "pollIntervalMs": _POLL_MS,
        }
        return {**shown, **more}

    def _now(self) -> tuple[str, dict[str, Any]]:
        """The status, and what a task has to show in it."""
        running = self.running
        if running.done and running.result is None:
            return "cancelled", {}
        if running.done:
            try:
                return "completed", {"result": self._answer(running)}
            except MCPError as error:
                return "failed", {"error": error.error.model_dump(exclude_none=True)}
        if running.questions:
            return "input_required", {"inputRequests": {key: one.request for key, one in running.questions.items()}}
        return "working", {}


class Tasks:
    """The tasks of a server, each for the session that began it. The oldest that ended give way to new ones."""

    def __init__(self, sessions: Sessions, answer: Answer) -> None:
        self._sessions = sessions
        self._answer = answer
        self._tasks: dict[str, Task] = {}

    def serve(self, server: Server[Any]) -> None:
        """Offer the extension."""
        server.extensions[TASKS] = {}
        server.add_request_handler("tasks/get", TaskRequest, self._get)
        server.add_request_handler("tasks/update", TaskUpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskRequest, self._cancel)

    def can_follow(self, context: ServerRequestContext[Any, Any]) -> bool:
        """Whether this request may be answered with a task."""
        return follows_tasks(context) and self._make_room()

    def adopt(self, running: RunningCall, session: ClientSession) -> dict[str, Any]:
        """Let a call go on as a task; what to answer instead of its result."""
        task = self._tasks[running.id] = Task(running, session, self._answer)
        running.give_up_after(_KEPT_MS / 1000)
        seed = {key: value for key, value in task.document().items() if key not in ("result", "error", "inputRequests")}
        return {"resultType": "task", **seed}

    def _make_room(self) -> bool:
        if len(self._tasks) < _MOST:
            return True
        for key, task in self._tasks.items():
            if task.ended:
                del self._tasks[key]
                return True
        return False

    async def _get(self, context: ServerRequestContext[Any, Any], params: TaskRequest) -> dict[str, Any]:
        return self._find(context, params).document()

    async def _update(self, context: ServerRequestContext[Any, Any], params: TaskUpdateParams) -> dict[str, Any]:
        self._find(context, params).running.answer(params.input_responses)
        return {}

    async def _cancel(self, context: ServerRequestContext[Any, Any], params: TaskRequest) -> dict[str, Any]:
        running = self._find(context, params).running
        running.taken_back = True
        await running.stop()
        return {}

    def _find(self, context: ServerRequestContext[Any, Any], params: TaskRequest) -> Task:
        if not is_stateless(context):
            raise MCPError(types.METHOD_NOT_FOUND, "Tasks are followed with revision 2026-07-28.")
        able = context.session.client_capabilities
        if able is None or TASKS not in (able.extensions or {}):
            raise lacking({"extensions": {TASKS: {}}})
        headers: Mapping[str, str] = getattr(context.request, "headers", {})
        if decode_header_value(headers.get(MCP_NAME_HEADER, params.task_id)) != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, "The header `Mcp-Name` must be the `taskId` of the body.")
        task = self._tasks.get(params.task_id)
        if task is None or task.session is not self._sessions.of(context):
            raise MCPError(types.INVALID_PARAMS, f"There is no task {params.task_id[:100]!r}; it may have expired.")
        return task


def lacking(capabilities: dict[str, Any]) -> MCPError:
    """The error for a client that would have to be able to do more."""
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        "The client does not declare a capability that this request needs.",
        {"requiredCapabilities": capabilities},
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
