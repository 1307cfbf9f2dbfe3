"""A result as `CallToolResult`: text that fits into a model's context, and structured content that says the same.

Agents show a model the structured content *instead of* the text where both are there. So it is sent only for tools
whose text is that very JSON; a tool with words of its own (or pictures) sends those alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind
from ferrule.core.result import ErrorInfo
from ferrule.core.schema_compile import quick_validator
from ferrule.core.tool import output_schema_of
from ferrule.dialects.block_order import out_of_order
from ferrule.dialects.mcp import MCP
from ferrule.dialects.mcp_blocks import own_words
from ferrule.dialects.output_schema import output_object
from ferrule.pipeline.format import head_and_tail

if TYPE_CHECKING:
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool

RESULT_CHARS = 39_000
"""What no agent cuts once more: Gemini CLI keeps 40,000 characters, opencode 50 kB, and Claude Code shows a model 2 kB
of what is over 50,000. (Codex keeps less of a model that it does not know, and cuts the middle like we do.)"""
STRUCTURED_CHARS = 80_000
"""For JSON, which cannot be cut: about 20,000 tokens. Agents refuse what is over 25,000."""
_PATTERN_STATES = 1_000
_DIALECT = MCP()
_WRAPPED = "ferrule/wrapped"


def shown_output(tool: Tool[Any]) -> dict[str, Any] | None:
    """The output schema that a tool's definition shows; None where its results are words."""
    schema = None if tool.has_render else output_schema_of(tool)
    if schema is None or schema.get("type") == "string":
        return None
    return output_object(schema)


def call_result(result: ToolResult, *, is_data: bool, most: int = RESULT_CHARS) -> dict[str, Any]:
    """The result in the protocol's form; `is_data` for a tool that promises structured content.

    That it fits what the tool promised was seen to when the call was formatted.
    """
    if result.success and result.attachments:  # of a server behind this one: what is attached goes out as what it is
        result = replace(result, llm_content=own_words(result.llm_content, result.attachments))
    if len(result.llm_content) > most:  # then only the two ends of all the words are left
        result = replace(result, attachments=out_of_order(result.attachments))
    answer: dict[str, Any] = {"resultType": "complete", **_DIALECT.write_result(result)}
    answer.get("_meta", {}).pop(_WRAPPED, None)
    structured: Any = answer.pop("structuredContent", None)
    is_data = is_data and not answer["isError"]
    room = STRUCTURED_CHARS if is_data and most == RESULT_CHARS else most  # and nobody chose less
    too_long = _shorten(answer["content"], room) or "characters_left_out" in result.metadata
    if not is_data:
        return answer
    if not too_long and structured is not None:
        answer["structuredContent"] = structured
        return answer
    problem = "it is too long to be sent whole" if too_long else "there is no structured content"
    error = ErrorInfo(
        ErrorKind.EXECUTION,
        f"`{result.tool}` ran, but its result cannot be sent as its output schema promises: {problem}.",
        suggestion="What it did is done; calling it again would do it again. Ask for less where that is possible.",
    )
    kept: list[dict[str, Any]] = answer["content"] if too_long else []
    return {"resultType": "complete", "content": [{"type": "text", "text": error.words}, *kept], "isError": True}


def _shorten(content: list[dict[str, Any]], most: int) -> bool:
    """Cut text that is too long in the middle, saying so, also that of resources; whether any was."""
    cut = False
    for block in content:
        words = block["resource"] if block["type"] == "resource" else block
        if "text" not in words:
            continue
        if len(words["text"]) > most:
            words["text"], _ = head_and_tail(words["text"], most)
            cut = True
        most = max(0, most - len(words["text"]))
    return cut


def is_schema(schema: dict[str, Any]) -> bool:
    """Whether an output schema can be promised. It may be a stranger's, and thousands of them must not take long."""
    return quick_validator("result", schema, _PATTERN_STATES) is not None
