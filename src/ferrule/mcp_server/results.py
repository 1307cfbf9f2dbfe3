"""A result as `CallToolResult`: text that fits into a model's context, and structured content that says the same.

Agents show a model the structured content *instead of* the text where both are there. So it is sent only for tools
whose text is that very JSON; a tool with words of its own (or pictures) sends those alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

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
    from collections.abc import Callable

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


def call_result(
    result: ToolResult, fits: Callable[[Any], str | None] | None, most: int = RESULT_CHARS
) -> dict[str, Any]:
    """The result in the protocol's form. `fits` says what is wrong with structured content, for tools that show any."""
    if result.success and result.attachments:  # of a server behind this one: what is attached goes out as what it is
        result = replace(result, llm_content=own_words(result.llm_content, result.attachments))
    if len(result.llm_content) > most:  # then only the two ends of all the words are left
        result = replace(result, attachments=out_of_order(result.attachments))
    answer: dict[str, Any] = {"resultType": "complete", **_DIALECT.write_result(result)}
    answer.get("_meta", {}).pop(_WRAPPED, None)
    structured: Any = answer.pop("structuredContent", None)
    is_data = fits is not None and not answer["isError"] and most == RESULT_CHARS  # and nobody chose less
    room = STRUCTURED_CHARS if is_data else most
    too_long = _shorten(answer["content"], room) or "characters_left_out" in result.metadata
    if fits is None or answer["isError"]:
        return answer
    problem = "it is too long to be sent whole" if too_long else fits(structured)
    if problem is None:
        answer["structuredContent"] = structured
        return answer
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


def output_check(schema: dict[str, Any]) -> Callable[[Any], str | None] | None:
    """What tells whether structured content fits a schema, compiled once for a tool; None for one that is no schema.

    It may be a stranger's: nothing that it refers to is fetched, and thousands of them must not take long.
    """
    validator = quick_validator("result", schema, _PATTERN_STATES)
    if validator is None:
        return None

    def fits(structured: Any) -> str | None:
        if structured is None:
            return "there is no structured content"
        error = next(iter(validator.iter_errors(structured)), None)
        if error is None:
            return None
        where = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in cast("Any", error.instance_path))
        return f"`{where.lstrip('.') or 'result'}`: {error.message[:300]}"

    return fits
