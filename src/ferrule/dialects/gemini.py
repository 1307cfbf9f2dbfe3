"""Google Gemini.

Parameters go out as `parametersJsonSchema`. The older `parameters` is a fixed message of Google's own: it
refuses a keyword that it does not know, and cannot close an object or fix the positions of an array. A JSON
Schema is taken as it is, so what a model does not understand is ignored and no error. Both forms are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from ferrule.core.call import RawCall, new_call_id
from ferrule.core.result import Attachment
from ferrule.dialects.dialect import Dialect, ForeignDefinition
from ferrule.dialects.payload import (
    a_list,
    a_name,
    an_object,
    arguments_as_object,
    attachment_lost,
    field,
    from_base64,
    jsonable,
    order_lost,
    plain,
    result_from,
    some_arguments,
    some_text,
    text_of,
    to_base64,
)
from ferrule.dialects.portable import Abilities

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.dialects.flatten import Ledger, Loss

# Gemini often sends no id and then matches results by name and order; an id it never sent must not go back.
_MADE_ID = "made_call_"


class Gemini(Dialect):
    """`functionDeclarations`, and parts with a `functionCall` or a `functionResponse`."""

    name = "gemini"
    # https://ai.google.dev/api/generate-content (the subset given for JSON Schema)
    abilities = Abilities(
        keywords=frozenset({
            "additionalProperties", "anyOf", "description", "enum", "format", "items", "maxItems", "maximum",
            "minItems", "minimum", "prefixItems", "properties", "required", "title", "type",
        }),
        formats=frozenset({"date", "date-time", "duration", "time"}),
        enum_types=frozenset({"integer", "number", "string"}),
    )  # fmt: skip
    carries: ClassVar = frozenset({"attachments", "call_id", "error", "llm_content", "success", "tool"})

    def _write_definition(
        self, tool: Tool[Any], name: str, description: str, schema: dict[str, Any], strict: bool, ledger: Ledger
    ) -> dict[str, Any]:
        return {"name": name, "description": description, "parametersJsonSchema": schema}

    def read_definition(self, payload: Any) -> ForeignDefinition:
        item = an_object(payload, "definition")
        schema = field(item, "parametersJsonSchema", "parameters_json_schema")
        if schema is None:
            older = an_object(item.get("parameters") or {"type": "OBJECT"}, "definition.parameters")
            schema = _from_openapi(older)
        output = field(item, "responseJsonSchema", "response_json_schema")
        return ForeignDefinition(
            name=a_name(item, "definition"),
            description=some_text(item.get("description"), "definition.description") or "",
            schema=an_object(schema, "definition.parametersJsonSchema"),
            output_schema=an_object(output, "definition.responseJsonSchema") if output is not None else None,
        )

    def calls(self, payload: Any) -> list[RawCall]:
        found = plain(payload, "payload")
        if isinstance(found, dict):
            found = _parts(an_object(found, "payload"))
        read = (_read_call(one, f"parts[{at}]") for at, one in enumerate(a_list(found, "parts")))
        return [call for call in read if call is not None]

    def write_call(self, call: RawCall) -> dict[str, Any]:
        arguments = arguments_as_object(call.arguments, call.name)
        return {"functionCall": {**_id(call.id), "name": call.name, "args": arguments}}

    def results(self, results: Iterable[ToolResult], losses: list[Loss] | None = None) -> list[dict[str, Any]]:
        """One user turn with every result."""
        parts = super().results(results, losses)
        return [{"role": "user", "parts": parts}] if parts else []

    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        losses = [] if losses is None else losses
        text = text_of(result, losses)
        parts: list[dict[str, Any]] = []
        for at, attachment in enumerate(result.attachments):
            part = self.write_attachment(attachment)
            order_lost(result, at, losses)
            if part is not None:
                parts.append(part)
            else:
                line = attachment_lost(result, at, losses)
                text = f"{text}\n{line}" if text else line
        answer = {"output": text} if result.success else {"error": text}
        response: dict[str, Any] = {**_id(result.call_id), "name": result.tool, "response": answer}
        return {"functionResponse": {**response, "parts": parts} if parts else response}

    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        from pydantic_core import to_json

        item = an_object(payload, "result")
        item = an_object(field(item, "functionResponse", "function_response") or item, "functionResponse")
        response = an_object(item.get("response") or {}, "functionResponse.response")
        failed = "error" in response
        # Without either key the whole response is the output.
        said = response["error"] if failed else response.get("output", response)
        text = said if isinstance(said, str) else to_json(jsonable(said)).decode()
        attachments = [
            _read_attachment(an_object(part, f"parts[{at}]"), f"parts[{at}]")
            for at, part in enumerate(a_list(item.get("parts") or [], "functionResponse.parts"))
        ]
        return result_from(
            text,
            failed=failed,
            call=call,
            call_id=some_text(item.get("id"), "functionResponse.id") or "",
            tool=a_name(item, "functionResponse"),
            data=None if isinstance(said, str) else said,
            attachments=attachments,
        )

    def write_attachment(self, attachment: Attachment) -> dict[str, Any] | None:
        named = {"displayName": attachment.name} if attachment.name else {}
        if attachment.data is not None:
            return {"inlineData": {"mimeType": attachment.media_type, "data": to_base64(attachment.data), **named}}
        if attachment.uri and attachment.uri.startswith(("gs://", "https://")):
            return {"fileData": {"mimeType": attachment.media_type, "fileUri": attachment.uri, **named}}
        return None


def _id(call_id: str) -> dict[str, str]:
    return {} if call_id.startswith(_MADE_ID) else {"id": call_id}


def _parts(whole: dict[str, Any]) -> list[Any]:
    """The parts of a response, a candidate or a turn; a single part or call stands for itself."""
    if "candidates" in whole:
        candidates = a_list(whole["candidates"] or [], "candidates")
        if not candidates:
            return []
        whole = an_object(candidates[0], "candidates[0]")
    if "content" in whole:
        whole = an_object(whole["content"] or {"parts": []}, "content")
    if "parts" in whole:
        return a_list(whole["parts"] or [], "parts")
    return [whole]


def _read_call(payload: Any, where: str) -> RawCall | None:
    part = an_object(payload, where)
    item = field(part, "functionCall", "function_call")
    if item is None:
        if "name" not in part:
            return None
        item = part
    else:
        where = f"{where}.functionCall"
    item = an_object(item, where)
    return RawCall(
        a_name(item, where),
        some_arguments(item.get("args"), f"{where}.args"),
        id=some_text(item.get("id"), f"{where}.id") or "made_" + new_call_id(),
    )


def _read_attachment(part: dict[str, Any], where: str) -> Attachment:
    inline = field(part, "inlineData", "inline_data")
    item = an_object(inline or field(part, "fileData", "file_data"), where)
    media = field(item, "mimeType", "mime_type")
    name = some_text(field(item, "displayName", "display_name"), f"{where}.displayName")
    media = some_text(media, f"{where}.mimeType") or "application/octet-stream"
    if inline is not None:
        return Attachment(media, from_base64(item.get("data"), f"{where}.data"), name=name)
    return Attachment(media, uri=some_text(field(item, "fileUri", "file_uri"), f"{where}.fileUri"), name=name)


def _from_openapi(schema: dict[str, Any]) -> dict[str, Any]:
    """Google's own schema message as JSON Schema: types in small letters, `nullable` as a type."""
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            out[key] = value.lower()
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = _from_openapi(cast("dict[str, Any]", value))
        elif key == "anyOf" and isinstance(value, list):
            out[key] = [_from_openapi(one) for one in cast("list[dict[str, Any]]", value)]
        elif key == "properties" and isinstance(value, dict):
            out[key] = {name: _from_openapi(one) for name, one in cast("dict[str, dict[str, Any]]", value).items()}
        elif key in ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"):
            # 64-bit numbers travel as text in Google's JSON.
            out[key] = int(value) if isinstance(value, str) and value.isdecimal() else value
        elif key not in ("nullable", "propertyOrdering", "example"):
            out[key] = value
    if schema.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out
