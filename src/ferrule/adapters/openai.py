"""OpenAI's SDK: a runtime's tools for its loops with the Responses API."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from openai.lib.responses_tool_runner import AsyncRegisteredFunction, RegisteredFunction

from ferrule.adapters.bridge import Bridge
from ferrule.dialects import dialect

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule import Runtime, Session, Tool, ToolResult

_LOOK_SECONDS = 0.05
"""How often a runner's `cancelled` is asked while a call runs."""


@overload
def openai_functions(
    runtime: Runtime, *, session: Session | None = None, sync: Literal[False] = False
) -> list[AsyncRegisteredFunction]: ...


@overload
def openai_functions(
    runtime: Runtime, *, session: Session | None = None, sync: Literal[True]
) -> list[RegisteredFunction]: ...


def openai_functions(runtime: Runtime, *, session: Session | None = None, sync: bool = False) -> Any:
    """A runtime's tools for `AsyncResponsesToolRunner(functions=openai_functions(runtime))` of OpenAI's SDK.

    With `sync`, they are for `ResponsesToolRunner`. The SDK has no approvals for functions: the runtime's asker asks,
    and without one a call that asks is refused. A runner's `cancelled` stops a call in the middle.
    """
    bridge: Bridge[None] = Bridge(runtime, session)
    made = _sync_function if sync else _async_function
    return [made(bridge, *shown) for shown in bridge.definitions()]


def _async_function(bridge: Bridge[None], tool: Tool[Any], definition: dict[str, Any]) -> AsyncRegisteredFunction:
    async def execute(arguments: dict[str, object], cancelled: Callable[[], bool] | None = None) -> Any:
        call = bridge.read(definition["name"], arguments)

        async def watch(cancelled: Callable[[], bool]) -> None:
            while not (cancelled() and bridge.runtime.cancel(call.id)):  # noqa: ASYNC110 - the SDK has no event
                await asyncio.sleep(_LOOK_SECONDS)

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch(cancelled)) if cancelled is not None else None
            result = await bridge.run(call, bridge.session_of(None))
            if watching is not None:
                watching.cancel()
        return _content(result)

    return AsyncRegisteredFunction(cast("Any", definition), execute, independent=tool.read_only)


def _sync_function(bridge: Bridge[None], tool: Tool[Any], definition: dict[str, Any]) -> RegisteredFunction:
    def execute(arguments: dict[str, object], cancelled: Callable[[], bool] | None = None) -> Any:
        call, ended = bridge.read(definition["name"], arguments), threading.Event()

        def watch(cancelled: Callable[[], bool]) -> None:
            while not ended.wait(_LOOK_SECONDS) and not (cancelled() and bridge.runtime.cancel(call.id)):
                pass

        if cancelled is not None:
            threading.Thread(target=watch, args=(cancelled,), daemon=True).start()
        try:
            return _content(bridge.runtime.run_sync(call, session=bridge.session_of(None)))
        finally:
            ended.set()

    return RegisteredFunction(cast("Any", definition), execute, independent=tool.read_only)


def _content(result: ToolResult) -> Any:
    return dialect("openai-responses").write_result(result)["output"]
