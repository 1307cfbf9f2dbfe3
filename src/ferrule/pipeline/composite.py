"""Composite tools (P8): several calls behind one name, each of them looked up, authorised and recorded as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from ferrule.core.call import RawCall
from ferrule.core.errors import DefinitionError, ToolError
from ferrule.core.result import Output
from ferrule.core.tool import Style, Tool, ToolOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from ferrule.core.context import ToolContext
    from ferrule.core.params import Params

INPUT = "input"


class CompositeTool(Tool[Any]):
    """Runs its steps as one batch. A step's arguments may use the tool's own (`input`) and earlier steps' results."""

    def __init__(
        self,
        name: str,
        steps: Sequence[tuple[str, str, Mapping[str, Any]]],
        params: type[BaseModel],
        **options: Unpack[ToolOptions],
    ) -> None:
        if not steps:
            raise DefinitionError(f"`{name}` has no steps.")
        ids = [step[0] for step in steps]
        if len(set(ids)) < len(ids) or INPUT in ids:
            raise DefinitionError(f"`{name}`: every step needs a name of its own, other than `{INPUT}`.")
        self.steps = tuple(steps)
        self._model = params
        self._settle(name, {"may_block": False, **options}, Style.ASYNC)

    def _compile(self) -> Params[Any]:
        from ferrule.core.params import ModelParams

        return ModelParams(self._model)

    async def run(self, params: Any, context: ToolContext) -> Any:
        """The last step's data; the first step that fails ends the whole, and says which it was."""
        arguments = cast("BaseModel", params).model_dump(mode="json", by_alias=True)
        prefix = context.call_id
        names = {step: f"{prefix}_{step}" for step, _, _ in self.steps}
        calls = [RawCall(tool, _renamed(given, names), id=names[step]) for step, tool, given in self.steps]
        results = await context.batch(calls, given={INPUT: arguments})
        for (step, tool, _), result in zip(self.steps, results, strict=True):
            if result.error is not None:
                raise ToolError(
                    f"Step `{step}` ({tool}) failed: {result.error.message}",
                    kind=result.error.kind,
                    suggestion=result.error.suggestion,
                )
        last = results[-1]
        return Output(last.data, last.llm_content, last.display_content, last.attachments)


def composite(
    name: str,
    *,
    steps: Sequence[tuple[str, str, Mapping[str, Any]]],
    params: type[BaseModel],
    **options: Unpack[ToolOptions],
) -> CompositeTool:
    """Make one tool of several: each step is `(step name, tool, arguments)`.

    Arguments may hold `{"$ref": "input.city"}` and `{"$ref": "find.items[0].id"}`, where `find` is an earlier step.
    Steps that touch different things run together.
    """
    return CompositeTool(name, steps, params, **options)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """References to steps, as references to this run's calls."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        target = mapping.get("$ref")
        if len(mapping) == 1 and isinstance(target, str):
            for step, call in names.items():
                rest = target[len(step) :]
                if target.startswith(step) and (not rest or rest[0] in ".["):
                    return {"$ref": call + rest}
        return {key: _renamed(item, names) for key, item in mapping.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in cast("list[Any]", value)]
    return value
