"""A server's tool as one of ours: its schema from elsewhere, its handler a call to the server.

What the server claims of it is not believed: it is of the kind `execute`, so it asks until a rule allows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import phrase
from ferrule.core.raw_tool import RawTool
from ferrule.core.result import ErrorInfo, ToolResult, words_for_attached
from ferrule.core.tool import Description
from ferrule.dialects.mcp import MCP, embedded_text
from ferrule.dialects.payload import DialectError, to_base64
from ferrule.mcp_client.bounds import ATTACHMENTS
from ferrule.mcp_client.definitions import tool_name
from ferrule.mcp_client.failures import malformed_result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.context import ToolContext
    from ferrule.mcp_client.definitions import Definition
    from ferrule.mcp_client.server_config import ServerConfig

_MCP = MCP()
_LONGEST_ERROR = 20_000


class Callee(Protocol):
    """Whoever runs a tool's calls."""

    async def call(self, tool: RemoteTool, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]: ...


class RemoteTool(RawTool):
    """One tool of one server."""

    def __init__(self, config: ServerConfig, definition: Definition, callee: Callee, *, enabled: bool = True) -> None:
        self.definition = definition
        self.server_name = config.name
        self.identity = config.identity
        self._callee = callee
        super().__init__(
            tool_name(config.name, definition.name),
            definition.input_schema,
            self._run,
            output_schema=definition.output_schema,
            description=_described(definition, config.name),
            display_name=definition.title or definition.name,
            kind="execute",
            category="mcp",
            tags=(config.name,),
            idempotent=definition.hints("idempotentHint") or definition.hints("readOnlyHint"),
            timeout=config.timeout,
            enabled=enabled,
            may_block=False,
            # Only for the order of calls: a server that lies can confuse its own results, and gets no leave by it.
            touches=READS_ANYTHING if definition.hints("readOnlyHint") else WRITES_ANYTHING,
            # What a person agrees to: the names that the server is really called by, not the title it chose.
            summary=lambda arguments: f"{config.name}: {definition.name} {self.params.dump(arguments).decode()}",
        )

    async def _run(self, arguments: Any, context: ToolContext) -> ToolResult:
        payload = await self._callee.call(self, arguments, context)
        try:
            result = _MCP.read_result(_with_fewer_blocks(payload), RawCall(self.name, id=context.call_id))
        except DialectError as error:
            raise malformed_result(
                self.server_name, self.definition.name, phrase("the protocol: {error}", error=error)
            ) from None
        if not result.success:
            return _failed(result)
        if embedded := embedded_text(result.attachments):
            result.llm_content = f"{result.llm_content}\n\n{embedded}" if result.llm_content else embedded
        if not result.llm_content:
            result.llm_content = _words(result)
        result.display_content = result.llm_content
        return result


def _with_fewer_blocks(payload: dict[str, Any]) -> dict[str, Any]:
    """The result without attachments that no model would ever look at; what is left out is said in its place."""
    content: Any = payload.get("content")
    if not isinstance(content, list) or len(cast("list[Any]", content)) <= ATTACHMENTS:
        return payload
    kept: list[Any] = []
    attached = 0
    for block in cast("list[Any]", content):
        is_text = isinstance(block, dict) and cast("dict[str, Any]", block).get("type") == "text"
        attached += not is_text
        if is_text or attached <= ATTACHMENTS:
            kept.append(block)
    if attached > ATTACHMENTS:
        kept.append({"type": "text", "text": f"[… {attached - ATTACHMENTS:,} of {attached:,} attachments left out …]"})
    return {**payload, "content": kept}


def _failed(result: ToolResult) -> ToolResult:
    """A failure that the server reports, with a kind where it tells one as we do."""
    found = result.error or ErrorInfo(ErrorKind.EXECUTION, "")
    kind = ErrorKind.EXECUTION if found.kind is ErrorKind.UNKNOWN else found.kind
    message = found.message.strip() or "The tool failed and did not say why."
    if len(message) > _LONGEST_ERROR:
        message = message[: _LONGEST_ERROR - 1] + "…"
    result.error = ErrorInfo(kind, message, found.details, found.suggestion)
    result.llm_content = result.error.words
    result.display_content = message.partition("\n")[0][:200]
    return result


def _words(result: ToolResult) -> str:
    """Words for a result that has none: its data as JSON, or what is attached."""
    if result.data is not None:
        from pydantic_core import to_json

        words = to_json(result.data).decode()
        attached = [one.data for one in result.attachments if one.data]
        if not any(to_base64(data) in words for data in attached):  # a picture once more, which nobody can read
            return words
    if not result.attachments:
        return "Done. There is no output."
    return words_for_attached(result.attachments)


def _described(definition: Definition, server: str) -> Description:
    text = definition.description.strip()
    if not text:
        return Description(f"{definition.title or definition.name}, a tool of the MCP server {server}.")
    short, _, rest = text.partition("\n\n")
    return Description(short, rest.strip()) if "\n" not in short else Description(text)
