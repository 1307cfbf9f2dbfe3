"""Results as the model reads them: bounded, with how much was left out and how to get it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferrule.pipeline.format import head_and_tail

if TYPE_CHECKING:
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool

_PAGES = (("offset", "limit"), ("head_limit",), ("limit",))


def bounded(result: ToolResult, most: int, tool: Tool[Any] | None = None) -> ToolResult:
    """The result as it stands in the conversation. Its typed data is for programs, and would only fill the memory."""
    text = result.llm_content
    if len(text) > most:
        text, left_out = head_and_tail(text, most)
        text += f"\n[{left_out:,} characters were left out, because the result was too long. {_how_to_get_it(tool)}]"
    return replace(result, llm_content=text, data=None, metadata={})


def _how_to_get_it(tool: Tool[Any] | None) -> str:
    if tool is not None and tool.fault is None:
        schema = tool.input_schema
        known: Any = schema.get("properties", {}) if isinstance(schema, dict) else {}
        for names in _PAGES:
            if all(name in known for name in names):
                listed = " and ".join(f"`{name}`" for name in names)
                return f"Call `{tool.name}` again with {listed} for the part you need."
    return "Ask for less at once for the part you need."
