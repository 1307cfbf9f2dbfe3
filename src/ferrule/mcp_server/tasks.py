"""Long calls as tasks (the extension `io.modelcontextprotocol/tasks`): an answer at once, the result when it is there.

A call that takes longer than a while becomes a task, where the client says that it can follow one. Then it is polled
with `tasks/get`, its questions are answered with `tasks/update`, and `tasks/cancel` stops it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp import types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value

from ferrule.mcp_server.opening import TASKS
from ferrule.mcp_server.sessions import is_stateless

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel.server import Server

    from ferrule.mcp_server.sessions import ClientSession, RunningCall, Sessions

    Answer = Callable[[RunningCall], dict[str, Any]]

TASK_AFTER = 10.0
"""Seconds that a call may take before it becomes a task."""
LONG_RUNNING = "long-running"
"""The tag of a tool whose calls are tasks from the start."""
_KEPT_MS = 3_600_000
_POLL_MS = 1_000
_MOST = 256


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
        able = context.session.client_capabilities
        return is_stateless(context) and able is not None and TASKS in (able.extensions or {}) and self._make_room()

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
        await self._find(context, params).running.stop()
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
