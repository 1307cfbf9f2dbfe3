"""`raw_tool`: a JSON Schema and a handler are a tool, for tools that are known only at run time."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Unpack

from ferrule.core.errors import DefinitionError
from ferrule.core.schema_params import SchemaParams
from ferrule.core.tool import Tool, ToolOptions, style_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferrule.core.context import ToolContext
    from ferrule.core.description import Description
    from ferrule.core.params import Params

Schema = dict[str, Any] | bool


class RawTool(Tool[Any]):
    """A tool whose parameters are a JSON Schema; its handler gets the arguments as plain JSON values."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        handler: Callable[..., Any],
        *,
        resources: Mapping[str, Schema] | None = None,
        output_schema: dict[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        if not callable(handler):
            raise DefinitionError(f"`{name}`: the handler must be a function, not {type(handler).__name__}.")
        self.handler = handler
        self._output_schema = output_schema
        self._settle(name, options, style_of(handler))
        self.wants_context = _takes_context(name, handler)
        self._schema_params = SchemaParams(name, schema, resources)

    def compile(self) -> None:
        """Compile now what the first call would: raises `DefinitionError` when the schema cannot work."""
        self._schema_params.compile()

    def _compile(self) -> Params[Any]:
        return self._schema_params

    def _try_out(self) -> None:
        super()._try_out()
        self._schema_params.require_schema()

    def _describe(self) -> Description:
        from ferrule.core.description import parse_docstring

        return parse_docstring(inspect.getdoc(self.handler) if inspect.isroutine(self.handler) else None).description

    def start(self, params: Any, context: ToolContext | None) -> Any:
        return self.handler(params, context) if self.wants_context else self.handler(params)


def raw_tool(
    name: str,
    schema: Schema,
    handler: Callable[..., Any],
    *,
    resources: Mapping[str, Schema] | None = None,
    output_schema: dict[str, Any] | None = None,
    **options: Unpack[ToolOptions],
) -> RawTool:
    """Make a tool from a JSON Schema (Draft 2020-12 unless its `$schema` says otherwise) and a handler.

    The handler is called with the arguments, and with the context too if it takes a second parameter; it may
    be sync, async or a generator. Other documents that the schema refers to are handed over in `resources`,
    by address: nothing is ever fetched. The schema is compiled at the first call, or by `compile`.
    """
    return RawTool(name, schema, handler, resources=resources, output_schema=output_schema, **options)


def _takes_context(name: str, handler: Callable[..., Any]) -> bool:
    """Whether the handler wants the context: it has a second parameter that can be passed by position."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return False
    by_position = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    required = [one for one in by_position if one.default is one.empty]
    forced = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    open_ended = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    if len(required) > 2 or forced or not (by_position or open_ended):
        raise DefinitionError(
            f"`{name}`: its handler must be callable as handler(arguments) or handler(arguments, context)."
        )
    return len(by_position) > 1
