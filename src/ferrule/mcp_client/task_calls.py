"""Calls that servers of revision 2025-11-25 only take as tasks: begun, waited for, and cancelled when given up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.client.session import ClientSession
    from mcp.shared.dispatcher import CallOptions, ProgressFnT

_KEPT_MILLISECONDS = 3_600_000
_SECONDS_TO_CANCEL = 2.0


async def call_as_task(
    session: ClientSession, tool: str, arguments: Mapping[str, Any], progress: ProgressFnT | None
) -> types.CallToolResult:
    """The call's result. The server answers the question for it once the task is done."""
    params = {"name": tool, "arguments": dict(arguments), "task": {"ttl": _KEPT_MILLISECONDS}}
    options: CallOptions = {"on_progress": progress} if progress is not None else {}
    # The session itself takes nothing but a tool's result for an answer to `tools/call`.
    raw = await session._dispatcher.send_raw_request("tools/call", params, options)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    task = types.CreateTaskResult.model_validate(raw).task.task_id
    wanted = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task))
    try:
        return await session.send_request(wanted, types.CallToolResult)
    except asyncio.CancelledError:
        given_up = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=task))
        with suppress(MCPError, TimeoutError):  # nobody waits for it any more
            await session.send_request(given_up, types.CancelTaskResult, _SECONDS_TO_CANCEL)
        raise
