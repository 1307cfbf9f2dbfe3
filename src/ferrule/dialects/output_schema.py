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
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        defined = root.get("$defs")
        found = cast("Schema", defined).get(ref.removeprefix("#/$defs/")) if isinstance(defined, dict) else None
        return _kinds(found, root, levels - 1)
    for keyword in ("anyOf", "oneOf"):
        forms = node.get(keyword)
        parts = [_kinds(one, root, levels - 1) for one in cast("list[Any]", forms)] if isinstance(forms, list) else []
        if parts and all(parts):
            return {kind for part in parts for kind in part}
    return set()


def _refers_to_root(schema: Any) -> bool:
    """Whether a reference would point elsewhere once the schema is wrapped."""
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            node = cast("Schema", one)
            refs = [node.get(keyword) for keyword in ("$ref", "$dynamicRef", "$recursiveRef")]
            if any(isinstance(ref, str) and not ref.startswith("#/$defs/") for ref in refs):
                return True
            waiting.extend(node.values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
    return False
