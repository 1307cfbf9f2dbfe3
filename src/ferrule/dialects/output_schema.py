"""What a tool returns, as the object that MCP asks every result to be."""

from __future__ import annotations

from typing import Any, cast

Schema = dict[str, Any]

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
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    wrapped: Schema = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {**wrapped, "$defs": schema["$defs"]} if "$defs" in schema else wrapped


def _kinds(schema: Any, root: Schema, levels: int) -> set[str]:
    """The JSON types that may come; empty when that is not clear."""
    if not isinstance(schema, dict) or not levels:
        return set()
    node = cast("Schema", schema)
    said = node.get("type")
    if isinstance(said, str):
        return {said}
    if isinstance(said, list):
        return set(cast("list[str]", said))
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        return _kinds(cast("Schema", root.get("$defs", {})).get(ref.removeprefix("#/$defs/")), root, levels - 1)
    for keyword in ("anyOf", "oneOf"):
        parts = [_kinds(one, root, levels - 1) for one in cast("list[Any]", node.get(keyword, []))]
        if parts and all(parts):
            return {kind for part in parts for kind in part}
    return set()


def _refers_to_root(schema: Any) -> bool:
    """Whether a reference would point elsewhere once the schema is wrapped."""
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            ref = cast("Schema", one).get("$ref")
            if isinstance(ref, str) and not ref.startswith("#/$defs/"):
                return True
            waiting.extend(cast("Schema", one).values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
    return False
