"""Finds the part of a JSON Schema that describes one place of a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.problems import PathPart


def schema_at(path: Sequence[PathPart], schema: Any) -> dict[str, Any]:
    """What the schema says of this place, or an empty schema where that is not clear."""
    if not isinstance(schema, dict):
        return {}
    root = cast("dict[str, Any]", schema)
    here: Any = resolve(root, root)
    for part in path:
        if isinstance(part, int):
            here = here.get("items")
        else:
            here = here.get("properties", {}).get(part, here.get("additionalProperties"))
        if not isinstance(here, dict):
            return {}
        here = resolve(cast("dict[str, Any]", here), root)
    return here


def resolve(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Follow `$ref` into `$defs`, and `X or null` to X; a guard stops circles."""
    for _ in range(16):
        if "$ref" in schema:
            schema = root.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2], {})
            continue
        if "anyOf" not in schema:
            return schema
        options = [one for one in schema["anyOf"] if isinstance(one, dict) and one.get("type") != "null"]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if len(options) != 1:  # pyright: ignore[reportUnknownArgumentType]
            return schema
        schema = options[0]  # pyright: ignore[reportUnknownVariableType]
    return {}
