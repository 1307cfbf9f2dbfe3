"""Anthropic's SDK: a runtime's tools for its tool runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast, overload

from anthropic.lib.tools import (
    BetaAsyncBuiltinFunctionTool,
    BetaBuiltinFunctionTool,
    BetaFunctionToolResultType,
    ToolError,
)

from ferrule.adapters.bridge import Bridge
from ferrule.dialects import dialect

if TYPE_CHECKING:
    from anthropic.types.beta import BetaToolUnionParam

    from ferrule import Runtime, Session, ToolResult


class _AsyncTool(BetaAsyncBuiltinFunctionTool):
    def __init__(self, bridge: Bridge[None], definition: dict[str, Any]) -> None:
        self._bridge, self._definition = bridge, definition

    def to_dict(self) -> BetaToolUnionParam:
        return cast("BetaToolUnionParam", self._definition)

    async def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002 - the SDK's word
        call = self._bridge.read(self._definition["name"], input)
        return _content(await self._bridge.run(call, self._bridge.session_of(None)))


class _SyncTool(BetaBuiltinFunctionTool):
    def __init__(self, bridge: Bridge[None], definition: dict[str, Any]) -> None:
        self._bridge, self._definition = bridge, definition

    def to_dict(self) -> BetaToolUnionParam:
        return cast("BetaToolUnionParam", self._definition)

    def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002 - the SDK's word
        call = self._bridge.read(self._definition["name"], input)
        return _content(self._bridge.runtime.run_sync(call, session=self._bridge.session_of(None)))


def _content(result: ToolResult) -> BetaFunctionToolResultType:
    content = dialect("anthropic").write_result(result)["content"]
    if not result.success:
        raise ToolError(content)  # which the SDK marks as an error
    return content


@overload
def anthropic_tools(
    runtime: Runtime, *, session: Session | None = None, sync: Literal[False] = False
) -> list[BetaAsyncBuiltinFunctionTool]: ...


@overload
def anthropic_tools(
    runtime: Runtime, *, session: Session | None = None, sync: Literal[True]
) -> list[BetaBuiltinFunctionTool]: ...


def anthropic_tools(runtime: Runtime, *, session: Session | None = None, sync: bool = False) -> Any:
    """A runtime's tools for `client.beta.messages.tool_runner(tools=anthropic_tools(runtime))` of `AsyncAnthropic`.

    With `sync`, they are for `Anthropic`. The SDK has no approvals: the runtime's asker asks, and without one a call
    that asks is refused. Cancelling the task that awaits the runner stops its calls.
    """
    bridge: Bridge[None] = Bridge(runtime, session, "anthropic")
    made = _SyncTool if sync else _AsyncTool
    return [made(bridge, definition) for _, definition in bridge.definitions()]
