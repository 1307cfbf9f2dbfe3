"""The form a tool expects, in one line that a model can copy from."""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.problems import show

_SHOWN_FIELDS = 30


def expected_form(schema: dict[str, Any] | bool) -> str:
    """`{"city": string, "days": integer (optional, default 3)}`."""
    if isinstance(schema, bool) or "properties" not in schema:
        return "arguments that fit its schema"
    properties = cast("dict[str, Any]", schema["properties"])
    if not properties:
        return "no arguments: {}"
    required = schema.get("required", ())
    fields = [
        f'"{name}": {_form(prop, schema)}{_optional(prop, name in required)}'
        for name, prop in list(properties.items())[:_SHOWN_FIELDS]
    ]
    if len(properties) > _SHOWN_FIELDS:
        fields.append("…")
    return "{" + ", ".join(fields) + "}"


def _optional(prop: Any, required: bool) -> str:
    if required:
        return ""
    if isinstance(prop, dict) and "default" in prop:
        return f" (optional, default {show(cast('Any', prop['default']))})"
    return " (optional)"


def _form(prop: Any, root: dict[str, Any]) -> str:
    if not isinstance(prop, dict):
        return "any"
    prop = cast("dict[str, Any]", prop)
    if "$ref" in prop:
        prop = root.get("$defs", {}).get(str(prop["$ref"]).rpartition("/")[2], {})
    if "enum" in prop:
        return " | ".join(show(choice) for choice in prop["enum"][:12])
    if "const" in prop:
        return show(prop["const"])
    kind = prop.get("type")
    if kind == "array":
        return f"[{_form(prop.get('items'), root)}, …]"
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        return " | ".join(str(one) for one in cast("list[Any]", kind))
    if "anyOf" in prop:
        return " | ".join(dict.fromkeys(_form(option, root) for option in prop["anyOf"]))
    return "object" if "properties" in prop else "any"
