"""OpenAI Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ferrule.core.call import RawCall
from ferrule.core.result import Attachment
from ferrule.dialects.dialect import Dialect, ForeignDefinition
from ferrule.dialects.openai_chat import OPENAI_ABILITIES, OPENAI_STRICT, read_function, report_ambiguous
from ferrule.dialects.payload import (
    DialectError,
    a_list,
    a_name,
    an_object,
    arguments_as_text,
    plain,
    some_arguments,
    some_text,
)
from ferrule.dialects.wording import (
    IMAGES,
    Blocks,
    data_url,
    from_data_url,
    is_web,
    reads_as_error,
    result_from,
    text_of,
    written_blocks,
)

if TYPE_CHECKING:
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Ledger, Loss

_PDF = "application/pdf"


class OpenAIResponses(Dialect):
    """`{type: function, name, …}`, `function_call` and `function_call_output` items."""

    name = "openai-responses"
    abilities = OPENAI_ABILITIES
    strictness = OPENAI_STRICT
    carries: ClassVar = frozenset({"attachments", "call_id", "error", "llm_content", "success"})

    def _write_definition(
        self,
        tool: Tool[Any],
        name: str,
        description: str,
        schema: dict[str, Any],
        strict: bool,
        ledger: Ledger,
    ) -> dict[str, Any]:
        # `strict` is always written, for here it is on unless said otherwise.
        return {
            "type": "function",
            "name": name,
            "description": description,
            "parameters": schema,
            "strict": strict,
        }

    def read_definition(self, payload: Any) -> ForeignDefinition:
        return read_function(an_object(payload, "definition"), "definition")

    def calls(self, payload: Any) -> list[RawCall]:
        found = plain(payload, "payload")
        items = _items(an_object(found, "payload")) if isinstance(found, dict) else a_list(found, "output")
        read = (_read_call(one, f"output[{at}]") for at, one in enumerate(items))
        return [call for call in read if call is not None]

    def write_call(self, call: RawCall) -> dict[str, Any]:
        arguments = arguments_as_text(call.arguments)
        return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}

    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        losses = [] if losses is None else losses
        text = text_of(result, losses)
        report_ambiguous(result, text, losses)
        parts = written_blocks(self, result, text, losses, text_kind="input_text", name_key="filename")
        output = parts if result.attachments else text
        return {"type": "function_call_output", "call_id": result.call_id, "output": output}

    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        item = an_object(payload, "result")
        output = item.get("output")
        blocks = Blocks()
        if isinstance(output, list):
            for at, one in enumerate(a_list(output, "output")):
                part = an_object(one, f"output[{at}]")
                if part.get("type") == "input_text":
                    blocks.add_text(some_text(part.get("text"), f"output[{at}].text") or "")
                else:
                    blocks.add(_read_attachment(part, f"output[{at}]"))
        else:
            blocks.add_text(some_text(output, "output") or "")
        return result_from(
            blocks.text,
            failed=reads_as_error(blocks.text),
            call=call,
            call_id=a_name(item, "result", "call_id"),
            attachments=blocks.attachments,
        )

    def write_attachment(self, attachment: Attachment) -> dict[str, Any] | None:
        media, data, uri = attachment.media_type, attachment.data, attachment.uri
        if media in IMAGES:
            if data is not None:
                return {"type": "input_image", "image_url": data_url(media, data)}
            return {"type": "input_image", "image_url": uri} if is_web(uri) else None
        if media == _PDF and data is not None:
            return {
                "type": "input_file",
                "filename": attachment.name or "file.pdf",
                "file_data": data_url(media, data),
            }
        if media == _PDF and is_web(uri):
            return {"type": "input_file", "file_url": uri}
        return None


def _items(whole: dict[str, Any]) -> list[Any]:
    """The items of a response; a single item stands for itself."""
    if "output" in whole and whole.get("type") is None:
        return a_list(whole["output"] or [], "output")
    return [whole]


def _read_call(payload: Any, where: str) -> RawCall | None:
    """A call, or None for the reasoning, messages and hosted tools that stand between calls."""
    item = an_object(payload, where)
    if a_name(item, where, "type") != "function_call":
        return None
    return RawCall(
        a_name(item, where),
        some_arguments(item.get("arguments"), f"{where}.arguments"),
        id=some_text(item.get("call_id"), f"{where}.call_id"),
    )


def _read_attachment(part: dict[str, Any], where: str) -> Attachment:
    kind = part.get("type")
    if kind == "input_image":
        url = a_name(part, where, "image_url")
        if url.startswith("data:"):
            media, data = from_data_url(url, f"{where}.image_url")
            return Attachment(media, data)
        return Attachment("image/*", uri=url)
    if kind == "input_file":
        name = some_text(part.get("filename"), f"{where}.filename")
        if part.get("file_url") is not None:
            return Attachment(_PDF, uri=a_name(part, where, "file_url"), name=name)
        media, data = from_data_url(a_name(part, where, "file_data"), f"{where}.file_data")
        return Attachment(media, data, name=name)
    raise DialectError(f"{where}: a part of the type {kind!r}; expected input_text, input_image or input_file.")
