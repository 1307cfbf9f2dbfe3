"""Anthropic Messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from ferrule.core.result import Attachment
from ferrule.dialects.dialect import Dialect, ForeignDefinition, Strictness
from ferrule.dialects.payload import (
    IMAGES,
    Blocks,
    DialectError,
    a_list,
    a_name,
    an_object,
    arguments_as_object,
    call_among,
    from_base64,
    is_web,
    plain,
    result_from,
    some_text,
    text_of,
    to_base64,
    written_blocks,
)
from ferrule.dialects.portable import Abilities, StrictRules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.call import RawCall
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Ledger, Loss

_PDF = "application/pdf"
_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class Anthropic(Dialect):
    """`{name, description, input_schema, input_examples}`, `tool_use` and `tool_result` blocks."""

    name = "anthropic"
    examples_field = "input_examples"
    abilities = Abilities(property_name=_PROPERTY_NAME)
    # https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations
    strictness = Strictness(
        Abilities(
            keywords=frozenset({
                "additionalProperties", "anyOf", "const", "default", "description", "enum", "format", "items",
                "minItems", "pattern", "properties", "required", "title", "type",
            }),
            formats=frozenset({
                "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid",
            }),
            enum_types=frozenset({"boolean", "integer", "null", "number", "string"}),
            property_name=_PROPERTY_NAME,
            simple_patterns=True,
            max_min_items=1,
        ),
        StrictRules(
            optional_is_nullable=False, max_depth=48, max_properties=5000, max_enum_values=5000,
            max_optional=24,
        ),
    )  # fmt: skip
    carries: ClassVar = frozenset({"attachments", "call_id", "error", "llm_content", "success"})

    def _write_definition(
        self, tool: Tool[Any], name: str, description: str, schema: dict[str, Any], strict: bool, ledger: Ledger
    ) -> dict[str, Any]:
        definition: dict[str, Any] = {"name": name, "description": description, "input_schema": schema}
        # Left out unless on: it needs a recent model, and older servers refuse a field they do not know.
        return {**definition, "strict": True} if strict else definition

    def read_definition(self, payload: Any) -> ForeignDefinition:
        item = an_object(payload, "definition")
        if item.get("type") not in (None, "custom"):
            raise DialectError(f"definition: {item['type']!r} is one of Anthropic's own tools, which has no schema.")
        strict = item.get("strict")
        return ForeignDefinition(
            name=a_name(item, "definition"),
            description=some_text(item.get("description"), "definition.description") or "",
            schema=an_object(item.get("input_schema"), "definition.input_schema"),
            strict=strict if isinstance(strict, bool) else None,
        )

    searches = True

    def write_found(self, call_id: str, definitions: list[dict[str, Any]]) -> dict[str, Any]:
        names = [{"type": "tool_reference", "tool_name": one["name"]} for one in definitions]
        return {"type": "tool_result", "tool_use_id": call_id, "content": names}

    def calls(self, payload: Any) -> list[RawCall]:
        found = plain(payload, "payload")
        items = _blocks(an_object(found, "payload")) if isinstance(found, dict) else a_list(found, "content")
        read = (call_among(one, f"content[{at}]", "tool_use", "input", "id") for at, one in enumerate(items))
        return [call for call in read if call is not None]

    def write_call(self, call: RawCall) -> dict[str, Any]:
        arguments = arguments_as_object(call.arguments, call.name)
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}

    def results(self, results: Iterable[ToolResult], losses: list[Loss] | None = None) -> list[dict[str, Any]]:
        """One user message with every result: Anthropic wants them all in the turn after the calls."""
        blocks = super().results(results, losses)
        return [{"role": "user", "content": blocks}] if blocks else []

    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        losses = [] if losses is None else losses
        text = text_of(result, losses)
        # An empty text block is refused, an empty string is not.
        parts = written_blocks(self.write_attachment, result, text, losses, text_kind="text", name_key="title")
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
        block["content"] = parts if result.attachments else text
        return block if result.success else {**block, "is_error": True}

    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        item = an_object(payload, "result")
        blocks = Blocks.read(item.get("content"), "content", "text", _read_attachment)
        return result_from(
            blocks.text,
            failed=item.get("is_error") is True,
            call=call,
            call_id=a_name(item, "result", "tool_use_id"),
            attachments=blocks.attachments,
        )

    def write_attachment(self, attachment: Attachment) -> dict[str, Any] | None:
        media, data, uri = attachment.media_type, attachment.data, attachment.uri
        if media not in IMAGES and media != _PDF:
            return None
        if data is not None:
            source = {"type": "base64", "media_type": media, "data": to_base64(data)}
        elif is_web(uri):
            source = {"type": "url", "url": uri}
        else:
            return None
        if media == _PDF:
            title = {"title": attachment.name} if attachment.name else {}
            return {"type": "document", "source": source, **title}
        return {"type": "image", "source": source}


def _blocks(whole: dict[str, Any]) -> list[Any]:
    """The blocks of a response or a message; a single block stands for itself."""
    if "content" not in whole or whole.get("type") not in (None, "message"):
        return [whole]
    return [] if isinstance(whole["content"], str) else a_list(whole["content"] or [], "content")


def _read_attachment(block: dict[str, Any], where: str) -> Attachment:
    kind = block.get("type")
    if kind not in ("image", "document"):
        raise DialectError(f"{where}: a block of the type {kind!r}; expected text, image or document.")
    source = an_object(block.get("source"), f"{where}.source")
    title = some_text(block.get("title"), f"{where}.title")
    if source.get("type") == "url":
        media = _PDF if kind == "document" else "image/*"
        return Attachment(media, uri=a_name(source, f"{where}.source", "url"), name=title)
    media = a_name(source, f"{where}.source", "media_type")
    raw = source.get("data")
    if source.get("type") == "text":
        return Attachment(media, str(raw).encode(), name=title)
    return Attachment(media, from_base64(raw, f"{where}.source.data"), name=title)
