"""One tool in full, for a person: what it does and what it takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from ferrule.cli.output import write
from ferrule.cli.words import _
from ferrule.core.tool import description_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.tool import Tool


def print_details(tool: Tool[Any]) -> None:
    """Kind, version, description, and each parameter with its type, default and description."""
    write(f"{tool.name} {tool.version} ({tool.kind.value})")
    write(f"\n{description_of(tool).text}\n")
    if (fault := tool.fault) is not None:
        write(fault)
        return
    schema = _as_mapping(tool.input_schema)
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        write(_("It takes no parameters."))
        return
    write(_("Parameters:"))
    for name, property_schema in properties.items():
        described = _as_mapping(property_schema)
        if name in schema.get("required", ()):
            need = _("required")
        elif "default" in described:
            need = _("default {value}").format(value=json.dumps(described["default"], ensure_ascii=False))
        else:
            need = _("optional")
        write(f"  {name}: {type_of(described, schema)}, {need}")
        for line in str(described.get("description", "")).splitlines():
            write(f"      {line}")


def _as_mapping(schema: Any) -> Mapping[str, Any]:
    """A schema may also be a plain `true`, which says nothing."""
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}


def type_of(described: Any, schema: Mapping[str, Any]) -> str:
    """A schema's type in a few words."""
    described = _as_mapping(described)
    if reference := described.get("$ref"):
        name = str(reference).rpartition("/")[2]
        target = schema.get("$defs", {}).get(name)
        return name if target is None or target.get("properties") else type_of(target, schema)
    if "enum" in described:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in described["enum"])
    if "const" in described:
        return json.dumps(described["const"], ensure_ascii=False)
    for key in ("anyOf", "oneOf"):
        if key in described:
            return " | ".join(dict.fromkeys(type_of(one, schema) for one in described[key]))
    kind: Any = described.get("type", _("anything"))
    if isinstance(kind, list):
        return " | ".join(str(one) for one in cast("list[Any]", kind))
    if kind == "array" and isinstance(described.get("items"), dict):
        return f"array of {type_of(described['items'], schema)}"
    return str(kind)
