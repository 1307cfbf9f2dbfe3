"""OpenAI: Chat Completions, which most other servers speak too, and Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ferrule.core.call import SEARCH_TOOLS, RawCall
from ferrule.core.result import Attachment
from ferrule.dialects.dialect import Dialect, ForeignDefinition, Strictness
from ferrule.dialects.flatten import Loss
from ferrule.dialects.payload import (
    IMAGES,
    Blocks,
    DialectError,
    a_list,
    a_name,
    an_item,
    an_object,
    arguments_as_text,
    attachment_lost,
    call_among,
    data_url,
    from_data_url,
    is_web,
    plain,
    reads_as_error,
    result_from,
    some_arguments,
    some_text,
    text_of,
    written_blocks,
)
from ferrule.dialects.portable import Abilities, StrictRules

if TYPE_CHECKING:
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Ledger


OPENAI_ABILITIES = Abilities(array_needs_items=True)
# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
OPENAI_STRICT = Strictness(
    Abilities(
        keywords=frozenset({
            "additionalProperties", "anyOf", "description", "enum", "exclusiveMaximum", "exclusiveMinimum",
            "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern",
            "properties", "required", "title", "type",
        }),
        formats=frozenset({
            "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid",
        }),
        enum_types=frozenset({"boolean", "integer", "null", "number", "string"}),
    ),
    StrictRules(
        optional_is_nullable=True, max_depth=10, max_properties=5000, max_enum_values=1000, max_optional=5000
    ),
)  # fmt: skip


class OpenAIChat(Dialect):
    """`{type: function, function: {…}}`, `tool_calls`, and messages of the role `tool`."""

    name = "openai"
    abilities = OPENAI_ABILITIES
    strictness = OPENAI_STRICT
    carries: ClassVar = frozenset({"call_id", "error", "llm_content", "success"})

    def _write_definition(
        self, tool: Tool[Any], name: str, description: str, schema: dict[str, Any], strict: bool, ledger: Ledger
    ) -> dict[str, Any]:
        function = {"name": name, "description": description, "parameters": schema, "strict": strict}
        return {"type": "function", "function": function}

    def read_definition(self, payload: Any) -> ForeignDefinition:
        item = an_object(payload, "definition")
        return read_function(an_object(item.get("function"), "definition.function"), "definition.function")

    def calls(self, payload: Any) -> list[RawCall]:
        found = plain(payload, "payload")
        if isinstance(found, dict):
            found = _call_items(an_object(found, "payload"))
        return [_read_call(one, f"tool_calls[{at}]") for at, one in enumerate(a_list(found, "tool_calls"))]

    def write_call(self, call: RawCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": arguments_as_text(call.arguments)}
        return {"id": call.id, "type": "function", "function": function}

    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        losses = [] if losses is None else losses
        text = text_of(result, losses)
        report_ambiguous(result, text, losses)
        lines = [attachment_lost(result, at, losses) for at in range(len(result.attachments))]
        content = "\n".join([text, *lines] if text else lines)
        return {"role": "tool", "tool_call_id": result.call_id, "content": content}

    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        item = an_object(payload, "result")
        content = item.get("content")
        if isinstance(content, list):
            parts = [an_object(part, f"content[{at}]") for at, part in enumerate(a_list(content, "content"))]
            text = "\n".join(some_text(part.get("text"), f"content[{at}].text") or "" for at, part in enumerate(parts))
        else:
            text = some_text(content, "content") or ""
        call_id = a_name(item, "result", "tool_call_id")
        return result_from(text, failed=reads_as_error(text), call=call, call_id=call_id)

    def write_attachment(self, attachment: Attachment) -> dict[str, Any] | None:
        media, data = attachment.media_type, attachment.data
        if media in IMAGES and (data is not None or is_web(attachment.uri)):
            url = attachment.uri if data is None else data_url(media, data)
            return {"type": "image_url", "image_url": {"url": url}}
        if media == "application/pdf" and data is not None:
            named = {"filename": attachment.name or "file.pdf", "file_data": data_url(media, data)}
            return {"type": "file", "file": named}
        return None


def read_function(item: dict[str, Any], where: str) -> ForeignDefinition:
    """The parts of an OpenAI function, which both of its interfaces write alike."""
    strict = item.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise DialectError(f"{where}.strict: expected true or false.")
    return ForeignDefinition(
        name=a_name(item, where),
        description=some_text(item.get("description"), f"{where}.description") or "",
        schema=an_object(item.get("parameters") or {"type": "object", "properties": {}}, f"{where}.parameters"),
        strict=strict,
    )


def report_ambiguous(result: ToolResult, text: str, losses: list[Loss]) -> None:
    """OpenAI has no field for failure, so a success whose text begins like one cannot be told apart."""
    if result.success and reads_as_error(text):
        losses.append(Loss(result.tool, "success", "success", "the text reads like an error, and nothing else tells"))


def _call_items(message: dict[str, Any]) -> list[Any]:
    """The call items of a response, a choice or a message; a single item stands for itself."""
    if "choices" in message:
        choices = a_list(message["choices"], "choices")
        if not choices:
            return []
        message = an_object(choices[0], "choices[0]")
    if "message" in message:
        message = an_object(message["message"], "message")
    if "tool_calls" in message or "role" in message:
        return a_list(message.get("tool_calls") or [], "tool_calls")
    return [message]


def _read_call(payload: Any, where: str) -> RawCall:
    item = an_object(payload, where)
    if item.get("type") not in (None, "function"):
        raise DialectError(f"{where}: a call of the type {item['type']!r}; only functions were offered.")
    if item.get("function") is None:
        raise DialectError(f"{where}: `function` is missing.")
    function = an_object(item["function"], f"{where}.function")
    return RawCall(
        a_name(function, f"{where}.function"),
        some_arguments(function.get("arguments"), f"{where}.function.arguments"),
        id=some_text(item.get("id"), f"{where}.id"),
    )


# OpenAI Responses.


_PDF = "application/pdf"


class OpenAIResponses(Dialect):
    """`{type: function, name, …}`, `function_call` and `function_call_output` items."""

    name = "openai-responses"
    abilities = OPENAI_ABILITIES
    strictness = OPENAI_STRICT
    carries: ClassVar = frozenset({"attachments", "call_id", "error", "llm_content", "success"})

    def _write_definition(
        self, tool: Tool[Any], name: str, description: str, schema: dict[str, Any], strict: bool, ledger: Ledger
    ) -> dict[str, Any]:
        # `strict` is always written, for here it is on unless said otherwise.
        return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": strict}

    def read_definition(self, payload: Any) -> ForeignDefinition:
        return read_function(an_object(payload, "definition"), "definition")

    searches = True

    def write_search(self, definition: dict[str, Any]) -> dict[str, Any]:
        own = {key: definition[key] for key in ("description", "parameters")}
        return {"type": "tool_search", "execution": "client", **own}

    def write_found(self, call_id: str, definitions: list[dict[str, Any]]) -> dict[str, Any]:
        tools = [{**one, "defer_loading": True} for one in definitions]
        found = {"type": "tool_search_output", "call_id": call_id, "execution": "client", "status": "completed"}
        return {**found, "tools": tools}

    def calls(self, payload: Any) -> list[RawCall]:
        found = plain(payload, "payload")
        items = a_list(found, "output") if isinstance(found, list) else [found]
        whole = an_item(found)
        if "output" in whole and whole.get("type") is None:  # a response
            items = a_list(whole["output"] or [], "output")
        read = (_read_item(one, f"output[{at}]") for at, one in enumerate(items))
        return [call for call in read if call is not None]

    def write_call(self, call: RawCall) -> dict[str, Any]:
        arguments = arguments_as_text(call.arguments)
        return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}

    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        losses = [] if losses is None else losses
        text = text_of(result, losses)
        report_ambiguous(result, text, losses)
        parts = written_blocks(self.write_attachment, result, text, losses, text_kind="input_text", name_key="filename")
        output = parts if result.attachments else text
        return {"type": "function_call_output", "call_id": result.call_id, "output": output}

    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        item = an_object(payload, "result")
        blocks = Blocks.read(item.get("output"), "output", "input_text", _read_attachment)
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
            return {"type": "input_file", "filename": attachment.name or "file.pdf", "file_data": data_url(media, data)}
        if media == _PDF and is_web(uri):
            return {"type": "input_file", "file_url": uri}
        return None


def _read_item(payload: Any, where: str) -> RawCall | None:
    """A call, or None for what stands between calls. A search that the client has to make is one of `search_tools`."""
    item = an_object(payload, where)
    if item.get("type") == "tool_search_call" and item.get("execution") == "client":
        item = {**item, "type": "function_call", "name": SEARCH_TOOLS}
    return call_among(item, where, "function_call", "arguments", "call_id")


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
