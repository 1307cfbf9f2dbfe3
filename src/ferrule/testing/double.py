"""A double: looks like another tool in everything that a model, a person or a policy sees, and does something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.tool import OPTIONS, Style, Tool

if TYPE_CHECKING:
    from ferrule.core.description import Description
    from ferrule.core.params import Params


class Double(Tool[Any]):
    """Subclass it and write `run`, in the style that is given."""

    def __init__(self, original: Tool[Any], style: Style) -> None:
        self.original = original
        options = {key: getattr(original, key) for key in OPTIONS if key != "description"}
        self._settle(original.name, options, style)
        for has in ("kind_given", "has_check", "has_touches", "has_signature", "has_render", "has_words"):
            setattr(self, has, getattr(original, has))
        self.checks_output = False  # what a test makes up, and what was recorded, is not the tool's doing

    def _compile(self) -> Params[Any]:
        return self.original.params

    def _describe(self) -> Description:
        return self.original.description

    @property
    def input_schema(self) -> dict[str, Any] | bool:
        return self.original.input_schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        return self.original.output_schema


def is_stream(tool: Tool[Any]) -> bool:
    return tool.style in (Style.ASYNC_STREAM, Style.SYNC_STREAM)
