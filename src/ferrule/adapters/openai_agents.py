"""openai-agents: a runtime's tools, whose approvals are interruptions of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents import AgentBase, FunctionTool, RunContextWrapper, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from agents import Tool as AgentTool

from ferrule import StoppedError, Verdict
from ferrule.adapters.bridge import Bridge, approve
from ferrule.dialects import dialect

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.tool_context import ToolContext

    from ferrule import Runtime, Session, Tool, ToolResult


def openai_agents_tools(
    runtime: Runtime, *, session: Session | Callable[[RunContextWrapper[Any]], Session] | None = None
) -> list[AgentTool]:
    """A runtime's tools for openai-agents: `Agent(…, tools=openai_agents_tools(runtime))`.

    Without an asker in the runtime, a call that asks interrupts the run (`result.interruptions`), and `state.approve`
    or `state.reject` answers. `session` is that of all runs, or a function that gives one for a run's context.
    """
    bridge: Bridge[RunContextWrapper[Any]] = Bridge(runtime, session)
    return [_function_tool(bridge, tool, definition) for tool, definition in bridge.definitions()]


def _function_tool(bridge: Bridge[RunContextWrapper[Any]], tool: Tool[Any], definition: dict[str, Any]) -> FunctionTool:
    name = definition["name"]

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        approved = context.is_tool_approved(name, context.tool_call_id)
        call = bridge.read(name, arguments or "{}", context.tool_call_id)
        return _content(await bridge.run(call, bridge.session_of(context), ask=approve if approved else None))

    async def needs_approval(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        if bridge.runtime.asker is not None:
            return False
        try:
            call = bridge.read(name, arguments, call_id)
            decision = await bridge.runtime.decide(call, session=bridge.session_of(context))
        except StoppedError:
            return False  # the call says why
        return decision.verdict == Verdict.ASK

    async def is_enabled(context: RunContextWrapper[Any], _agent: AgentBase[Any]) -> bool:
        return tool.name in bridge.runtime.usable_tools(bridge.session_of(context))

    return FunctionTool(
        name=name,
        description=definition["description"],
        params_json_schema=definition["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=definition["strict"],
        is_enabled=is_enabled,
        needs_approval=needs_approval,
    )


def _content(result: ToolResult) -> Any:
    """What the model reads; the form that openai-agents makes of it is that of Responses."""
    output = dialect("openai-responses").write_result(result)["output"]
    if isinstance(output, str):
        return output
    parts: list[Any] = []
    for part in output:
        if part["type"] == "input_image":
            parts.append(ToolOutputImage(image_url=part["image_url"]))
        elif part["type"] == "input_file":
            parts.append(ToolOutputFileContent(**{key: value for key, value in part.items() if key != "type"}))
        else:
            parts.append(ToolOutputText(text=part["text"]))
    return parts
