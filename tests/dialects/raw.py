"""A tool known by its schema alone, for tests that need one of any shape."""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.result import ToolResult
from ferrule.core.tool import Tool


class _Schema:
    def __init__(self, schema: dict[str, Any] | bool) -> None:
        self.schema = schema


class RawTool(Tool[Any]):
    def __init__(self, schema: dict[str, Any] | bool, name: str = "probe", **options: Any) -> None:
        self.name = name
        self.raw = schema
        options.setdefault("description", "Does it.")
        super().__init__(**options)

    def _compile(self) -> Any:
        return cast("Any", _Schema(self.raw))

    def run(self, params: Any, context: Any) -> Any:
        return None


def objects(**properties: Any) -> dict[str, Any]:
    """An object schema with these properties and no more said."""
    return {"type": "object", "properties": properties}


def success(text: str = "42", **fields: Any) -> ToolResult:
    return ToolResult("call_a", "probe", True, text, "done", **fields)


def parameters(definition: dict[str, Any]) -> dict[str, Any]:
    """The schema of a definition, whatever its dialect."""
    inner = definition.get("function", definition)
    for key in ("parameters", "input_schema", "parametersJsonSchema", "inputSchema"):
        if key in inner:
            return inner[key]
    raise AssertionError(f"no schema in {definition}")
