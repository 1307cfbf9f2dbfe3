"""Finds the part of a JSON Schema that describes one place of a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.problems import PathPart


def schema_at(path: Sequence[PathPart], schema: Any) -> dict[str, Any]:
    """What the schema says of this place, or an empty schema where that is not clear."""
    root = _mapping(schema)
    here = resolve(root, root)
    for part in path:
        if isinstance(part, int):
            first: Any = here.get("prefixItems")
            listed = cast("list[Any]", first) if isinstance(first, list) else []
            below = listed[part] if part < len(listed) else here.get("items")
        else:
            below = _mapping(here.get("properties")).get(part, here.get("additionalProperties"))
        here = resolve(_mapping(below), root)
    return here


def resolve(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Follow `$ref`, and `X or null` to X; a guard stops circles."""
    for _ in range(16):
        if "$ref" in schema:
            schema = referred(str(schema["$ref"]), root)
            continue
        branches: Any = schema.get("anyOf")
        if not isinstance(branches, list):
            return schema
        options = [one for branch in cast("list[Any]", branches) if (one := _mapping(branch)).get("type") != "null"]
        if len(options) != 1:
            return schema
        schema = options[0]
    return {}


def referred(ref: str, root: dict[str, Any]) -> dict[str, Any]:
    """What a local reference (`#/$defs/Item`) leads to; empty for one that leads nowhere or elsewhere."""
    if not ref.startswith("#"):
        return {}
    here = root
    for part in ref[1:].split("/")[1:]:
        here = _mapping(here.get(part.replace("~1", "/").replace("~0", "~")))
    return here


def _mapping(value: Any) -> dict[str, Any]:
    """Schemas come from elsewhere too, and not all of them are sound."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
