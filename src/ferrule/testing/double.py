"""A double: looks like another tool in everything that a model, a person or a policy sees, and does something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.tool import OPTIONS, Style, Tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.access import Touches
    from ferrule.core.context import Session
    from ferrule.core.description import Description
    from ferrule.core.errors import ToolError
    from ferrule.core.params import Params
    from ferrule.core.problems import Problem


class Double(Tool[Any]):
    """Subclass it and write `run`, in the style that is given."""

    def __init__(self, original: Tool[Any], style: Style) -> None:
        self.original = original
        options = {key: getattr(original, key) for key in OPTIONS if key != "description"}
        self._settle(original.name, options, style)
        self.has_check = original.has_check
        self.has_words = original.has_words
        self.has_touches = original.has_touches
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

    def check(self, params: Any) -> Iterable[Problem]:
        return self.original.check(params)

    def touches(self, params: Any) -> Touches:
        return self.original.touches(params)

    def touches_in(self, params: Any, session: Session | None) -> Touches:
        return self.original.touches_in(params, session)

    def only_reads(self, params: Any) -> bool:
        return self.original.only_reads(params)

    def refusal_in(self, params: Any, session: Session) -> ToolError | None:
        return self.original.refusal_in(params, session)

    def signature(self, params: Any) -> str:
        return self.original.signature(params)

    def signature_in(self, params: Any, session: Session | None) -> str:
        return self.original.signature_in(params, session)

    def abstract_rule(self, params: Any) -> str:
        return self.original.abstract_rule(params)

    def abstract_rule_in(self, params: Any, session: Session | None) -> str:
        return self.original.abstract_rule_in(params, session)

    def summarise(self, params: Any) -> str:
        return self.original.summarise(params)

    def summarise_in(self, params: Any, session: Session | None) -> str:
        return self.original.summarise_in(params, session)

    def render(self, value: Any) -> str | None:
        return self.original.render(value)

    def display(self, value: Any) -> str | None:
        return self.original.display(value)


def is_stream(tool: Tool[Any]) -> bool:
    return tool.style in (Style.ASYNC_STREAM, Style.SYNC_STREAM)
