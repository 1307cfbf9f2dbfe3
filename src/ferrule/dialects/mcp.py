"""The Model Context Protocol, whose definitions hold any JSON Schema."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import quote, unquote

from ferrule.core.call import RawCall
from ferrule.core.problems import got
from ferrule.core.result import Attachment, words_for_attached
from ferrule.core.schemas import Schema, parts, referred
from ferrule.core.tool import output_schema_of
from ferrule.dialects.dialect import Dialect, ForeignDefinition
from ferrule.dialects.flatten import ROOT, Ledger, Loss
from ferrule.dialects.payload import (
    Blocks,
    DialectError,
    a_list,
    a_name,
    an_object,
    arguments_as_object,
    details_lost,
    field,
    from_base64,
    in_order,
    jsonable,
    plain,
    result_from,
    some_arguments,
    some_text,
    text_of,
    to_base64,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool


# What MCP's blocks of content hold besides the content: words about it, and text that is in another place, too.


_AUDIENCES = ("user", "assistant")


def said_of_block(block: Mapping[str, Any], *, of_link: bool = False) -> dict[str, Any]:
    """Its annotations, and for a link its title, description and size, where they are what they should be."""
    told: dict[str, Any] = {}
    if of_link:
        told = {key: block[key] for key in ("title", "description") if isinstance(block.get(key), str)}
        size = block.get("size")
        if type(size) is int and size >= 0:
            told["size"] = size
    if annotations := _annotations(block.get("annotations")):
        told["annotations"] = annotations
    return told


def _annotations(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        return {}
    found = cast("dict[str, Any]", given)
    told: dict[str, Any] = {}
    audience: Any = found.get("audience")
    if isinstance(audience, list) and all(one in _AUDIENCES for one in cast("list[Any]", audience)):
        told["audience"] = audience
    priority = found.get("priority")
    if type(priority) in (int, float) and 0 <= cast("float", priority) <= 1:
        told["priority"] = priority
    if isinstance(found.get("lastModified"), str):
        told["lastModified"] = found["lastModified"]
    return told


def embedded_text(attachments: Sequence[Attachment]) -> str:
    """The text of embedded resources, in words: few providers show a model what is attached, unless it is an image."""
    return "\n\n".join(
        f"[{one.uri}]\n{data.decode(errors='replace')}" if one.uri else data.decode(errors="replace")
        for one, data in _texts(attachments)
    )


def own_words(text: str, attachments: Sequence[Attachment]) -> str:
    """A text without what was only said of the attachments, for whoever gets those themselves: the embedded text at its
    end, or words that stand for none.
    """
    if text == words_for_attached(attachments):
        return ""
    embedded = embedded_text(attachments)
    if not embedded or not text.endswith(embedded) or not all(_is_utf8(data) for _, data in _texts(attachments)):
        return text
    rest = text[: len(text) - len(embedded)]
    return rest.removesuffix("\n\n") if rest.endswith("\n\n") or not rest else text


def _texts(attachments: Sequence[Attachment]) -> list[tuple[Attachment, bytes]]:
    return [(one, one.data) for one in attachments if one.data is not None and one.media_type.startswith("text/")]


def _is_utf8(data: bytes) -> bool:
    """Whether it travels as text; in another encoding it is base64, which no model can read."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# Words that a server annotated, such as for whom they are: known by their place in a result, and blocks again later.


ANNOTATED = "annotated"
"""The key in a result's metadata."""


def place_of(text: str, start: int, block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Where a block's words stand and what is said of them; None where nothing is."""
    told = said_of_block(block)
    return {"start": start, "characters": len(text), "digest": _digest(text), **told} if told and text else None


def annotated_blocks(text: str, pieces: Iterable[str | int], places: Any) -> Iterator[str | int | dict[str, Any]]:
    """The pieces of a text, each annotated place in it as a block of its own."""
    marked = [one for one in _places(places) if _is_there(text, one)]
    end = -1  # of the piece before, where a line end stands
    for piece in pieces:
        if isinstance(piece, int):
            yield piece
            continue
        start, end = end + 1, end + 1 + len(piece)
        for one in marked:
            begins, stops = one["start"], one["start"] + one["characters"]
            if begins < start or stops > end:
                continue
            if before := text[start : max(start, begins - 1)]:
                yield before
            yield {"type": "text", "text": text[begins:stops], **said_of_block(one)}
            start = stops + 1
        if start < end:
            yield text[start:end]


def _is_there(text: str, place: Mapping[str, Any]) -> bool:
    start, end = place["start"], place["start"] + place["characters"]
    stands_alone = (start == 0 or text[start - 1 : start] == "\n") and text[end : end + 1] in ("", "\n")
    return stands_alone and _digest(text[start:end]) == place.get("digest")


def _places(given: Any) -> list[dict[str, Any]]:
    """Metadata is anybody's: whatever is no place is left out."""
    found = cast("list[Any]", given) if isinstance(given, list) else []
    places = [cast("dict[str, Any]", one) for one in found if isinstance(one, dict)]
    numbers = ("start", "characters")
    known = [one for one in places if all(type(one.get(key)) is int and one[key] >= 0 for key in numbers)]
    return sorted((one for one in known if one["characters"]), key=lambda one: one["start"])


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# What a tool returns, as the object that MCP asks every result to be.


_SIMPLE = frozenset({"array", "boolean", "integer", "number", "string"})


def output_object(schema: Schema) -> Schema | None:
    """An object's schema as it is, another's wrapped in `result`; None where a result may be either.

    A result is written without its schema at hand: objects plain, all else wrapped, null not at all. So only
    a schema that allows one of these alone can be promised.
    """
    kinds = _kinds(schema, schema, 8)
    if kinds == {"object"}:
        return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    if not kinds or not kinds <= _SIMPLE or _refers_to_root(schema):
        return None
    # An address inside would give the references inside another root.
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$id", "$schema")}
    outer = {key: schema[key] for key in ("$schema", "$defs") if key in schema}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **outer}


def _kinds(schema: Any, root: Schema, levels: int) -> set[str]:
    """The JSON types that may come; empty when that is not clear."""
    if not isinstance(schema, dict) or not levels:
        return set()
    node = cast("Schema", schema)
    said = node.get("type")
    if isinstance(said, str):
        return {said}
    if isinstance(said, list):
        listed = cast("list[Any]", said)
        return set(listed) if all(isinstance(one, str) for one in listed) else set()
    if (target := referred(node.get("$ref"), root)) is not None:
        return _kinds(target, root, levels - 1)
    for keyword in ("anyOf", "oneOf"):
        forms = node.get(keyword)
        parts = [_kinds(one, root, levels - 1) for one in cast("list[Any]", forms)] if isinstance(forms, list) else []
        if parts and all(parts):
            return {kind for part in parts for kind in part}
    return set()


def _refers_to_root(schema: Any) -> bool:
    """Whether a reference would point elsewhere once the schema is wrapped."""
    refs = [part.get(one) for part in parts(schema) for one in ("$ref", "$dynamicRef", "$recursiveRef")]
    return any(isinstance(ref, str) and not ref.startswith("#/$defs/") for ref in refs)


_WRAPPED = "ferrule/wrapped"
_OWN_URI = "attachment:"


class MCP(Dialect):
    """`Tool`, the params of `tools/call`, and `CallToolResult`."""

    name = "mcp"
    carries: ClassVar = frozenset({"attachments", "data", "error", "llm_content", "success"})
    writes_output: ClassVar = True
    """Whether definitions hold the output schema; making it takes as long as making the input's."""

    def _schema(self, tool: Tool[Any], wanted: bool) -> tuple[dict[str, Any], bool, Ledger]:
        schema, ledger = tool.input_schema, Ledger(tool.name)
        if wanted:
            ledger.lose(ROOT, "strict", "this provider has no strict mode")
        # The protocol asks for this one word; arguments are an object anyway.
        return schema if schema.get("type") == "object" else {**schema, "type": "object"}, False, ledger

    def _write_definition(
        self, tool: Tool[Any], name: str, description: str, schema: dict[str, Any], strict: bool, ledger: Ledger
    ) -> dict[str, Any]:
        definition: dict[str, Any] = {
            "name": name,
            "title": tool.display_name,
            "description": description,
            "inputSchema": schema,
        }
        if self.writes_output and (schema_of_results := output_schema_of(tool)) is not None:
            output = output_object(schema_of_results)
            if output is None:
                ledger.lose(ROOT, "outputSchema", "a result may be an object or something else; left out")
            else:
                definition["outputSchema"] = output
        definition["annotations"] = {
            "readOnlyHint": tool.read_only,
            # Whether a write only adds, or a tool stays on this machine, is not known here; these are the
            # protocol's own cautious defaults.
            "destructiveHint": not tool.read_only,
            "idempotentHint": tool.idempotent or tool.read_only,
            "openWorldHint": True,
        }
        return definition

    def read_definition(self, payload: Any) -> ForeignDefinition:
        item = an_object(payload, "tool")
        output = field(item, "outputSchema", "output_schema")
        annotations = item.get("annotations")
        hints = an_object(annotations, "tool.annotations") if annotations is not None else None
        title = some_text(item.get("title"), "tool.title") or (hints or {}).get("title")
        return ForeignDefinition(
            name=a_name(item, "tool"),
            description=some_text(item.get("description"), "tool.description") or "",
            schema=an_object(field(item, "inputSchema", "input_schema"), "tool.inputSchema"),
            title=some_text(title, "tool.annotations.title"),
            output_schema=an_object(output, "tool.outputSchema") if output is not None else None,
            annotations=hints,
        )

    def calls(self, payload: Any) -> list[RawCall]:
        found = plain(payload, "payload")
        items = a_list(found, "payload") if isinstance(found, list) else [found]
        return [_read_call(one, f"calls[{at}]") for at, one in enumerate(items)]

    def write_call(self, call: RawCall) -> dict[str, Any]:
        return {"name": call.name, "arguments": arguments_as_object(call.arguments, call.name)}

    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        losses = [] if losses is None else losses
        text = text_of(result, losses)
        pieces: Iterable[str | int | dict[str, Any]] = in_order(text, result.attachments)
        if ANNOTATED in result.metadata:
            pieces = annotated_blocks(text, in_order(text, result.attachments), result.metadata[ANNOTATED])
        content = [self._block(result, one, losses) for one in pieces]
        answer: dict[str, Any] = {"content": content, "isError": not result.success}
        if result.data is not None:
            try:
                data = jsonable(result.data)
            except ValueError:
                losses.append(Loss(result.tool, "data", "structuredContent", "has no JSON form; left out"))
                return answer
            if data != result.data:
                losses.append(
                    Loss(result.tool, "data", "structuredContent", "not plain JSON; written as it best can be")
                )
            if isinstance(data, dict):
                answer["structuredContent"] = data
            else:
                answer["structuredContent"] = {"result": data}
                answer["_meta"] = {_WRAPPED: True}
        return answer

    def _block(self, result: ToolResult, one: str | int | dict[str, Any], losses: list[Loss]) -> dict[str, Any]:
        if isinstance(one, dict):
            return one
        if isinstance(one, str):
            return {"type": "text", "text": one}
        block = _write_attachment(result.attachments[one])
        if block["type"] in ("image", "audio"):
            details_lost(result, one, losses)
        return block

    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        item = an_object(payload, "result")
        blocks = Blocks()
        places: list[dict[str, Any]] = []
        for at, one in enumerate(a_list(item.get("content") or [], "content")):
            block = an_object(one, f"content[{at}]")
            if block.get("type") == "text":
                text = some_text(block.get("text"), f"content[{at}].text") or ""
                if (place := place_of(text, blocks.add_text(text), block)) is not None:
                    places.append(place)
            else:
                blocks.add(_read_attachment(block, f"content[{at}]"))
        data = field(item, "structuredContent", "structured_content")
        meta = field(item, "_meta", "meta")
        if isinstance(meta, dict) and _WRAPPED in meta and isinstance(data, dict):
            data = cast("dict[str, Any]", data).get("result")
        failed = field(item, "isError", "is_error")
        if failed is not None and not isinstance(failed, bool):  # a failure must not pass for a success
            raise DialectError(f"isError: expected true or false, got {got(failed)}.")
        result = result_from(blocks.text, failed=failed is True, call=call, data=data, attachments=blocks.attachments)
        if places:
            result.metadata[ANNOTATED] = places
        return result


def _read_call(payload: Any, where: str) -> RawCall:
    """A whole JSON-RPC request, whose id is the call's, or its params alone."""
    item = an_object(payload, where)
    call_id: str | None = None
    if "method" in item:
        if item["method"] != "tools/call":
            raise DialectError(f"{where}.method: expected tools/call, got {item['method']!r}.")
        call_id = str(item["id"]) if isinstance(item.get("id"), (int, str)) else None
        where += ".params"
        item = an_object(item.get("params"), where)
    return RawCall(a_name(item, where), some_arguments(item.get("arguments"), f"{where}.arguments"), id=call_id)


def _write_attachment(attachment: Attachment) -> dict[str, Any]:
    media, data = attachment.media_type, attachment.data
    if data is None:
        name = attachment.name or (attachment.uri or "").rsplit("/", 1)[-1] or "attachment"
        told = said_of_block(attachment.details or {}, of_link=True)
        return {"type": "resource_link", "uri": attachment.uri or "", "name": name, "mimeType": media, **told}
    told = said_of_block(attachment.details or {})
    if media.startswith(("image/", "audio/")):
        return {"type": media.split("/", 1)[0], "data": to_base64(data), "mimeType": media, **told}
    own = _OWN_URI + quote(attachment.name or "", safe="", errors="replace")
    content = {"uri": attachment.uri or own, "mimeType": media, **_contents(media, data)}
    return {"type": "resource", "resource": content, **told}


def _contents(media: str, data: bytes) -> dict[str, str]:
    """Text as text, which a model can read; anything else in base64."""
    if media.startswith("text/") or media in ("application/json", "application/xml"):
        with suppress(UnicodeDecodeError):
            return {"text": data.decode()}
    return {"blob": to_base64(data)}


def _read_attachment(block: dict[str, Any], where: str) -> Attachment:
    kind = block.get("type")
    media = some_text(field(block, "mimeType", "mime_type"), f"{where}.mimeType") or "application/octet-stream"
    told = said_of_block(block, of_link=kind == "resource_link") or None
    if kind in ("image", "audio"):
        return Attachment(media, from_base64(block.get("data"), f"{where}.data"), details=told)
    if kind == "resource_link":
        name = some_text(block.get("name"), f"{where}.name")
        uri = a_name({"uri": str(block.get("uri") or "")}, where, "uri")
        return Attachment(media, uri=uri, name=name, details=told)
    if kind == "resource":
        found = _read_resource(an_object(block.get("resource"), f"{where}.resource"), f"{where}.resource")
        return replace(found, details=told)
    raise DialectError(
        f"{where}: a block of the type {kind!r}; expected text, image, audio, resource or resource_link."
    )


def _read_resource(item: dict[str, Any], where: str) -> Attachment:
    uri = str(item.get("uri") or "")
    own = uri.startswith(_OWN_URI)
    name = unquote(uri.removeprefix(_OWN_URI)) or None if own else None
    text = some_text(item.get("text"), f"{where}.text")
    media = some_text(field(item, "mimeType", "mime_type"), f"{where}.mimeType")
    if text is not None:
        address = None if own else uri or None
        return Attachment(media or "text/plain", text.encode("utf-8", "replace"), uri=address, name=name)
    data = from_base64(item.get("blob"), f"{where}.blob")
    return Attachment(media or "application/octet-stream", data, uri=None if own else uri or None, name=name)
