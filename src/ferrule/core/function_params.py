"""Compiles a function's signature into parameters; done once, when a tool is first shown or called."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from ferrule.core.context import ToolContext
from ferrule.core.docstring import parse_docstring
from ferrule.core.errors import DefinitionError
from ferrule.core.function_tool import doc_of, hints_of
from ferrule.core.params import ModelParams
from ferrule.core.result import Attachment, Output, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.json_schema import GenerateJsonSchema


@dataclass(slots=True)
class Compiled:
    """What a signature turned out to be."""

    params: ModelParams
    context_name: str | None


def compile_function(name: str, function: Callable[..., Any]) -> Compiled:
    """Build the parameter model of a function; descriptions come from `Annotated`, else from the docstring."""
    from pydantic import ConfigDict, create_model
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
    from pydantic.fields import FieldInfo

    try:
        hints = hints_of(function, returned=False)
    except NameError as error:
        raise DefinitionError(f"`{name}`: a parameter's type is not known here: {error}.") from error
    described = parse_docstring(doc_of(function)).params
    context_name: str | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        annotation = hints.get(parameter.name, Any)
        if _is_context(annotation):
            context_name = parameter.name
            continue
        if parameter.name == "model_config":
            raise DefinitionError(f"`{name}`: no parameter can be called `model_config`; pydantic keeps that name.")
        try:
            info = (
                FieldInfo.from_annotation(annotation)
                if parameter.default is parameter.empty
                else FieldInfo.from_annotated_attribute(annotation, parameter.default)
            )
        except TypeError as error:
            raise DefinitionError(f"`{name}`: `{parameter.name}`: {_first_line(error)}") from error
        if info.description is None and parameter.name in described:
            info.description = described[parameter.name]
        fields[parameter.name] = (annotation, info)
    config = ConfigDict(
        extra="forbid", allow_inf_nan=False, protected_namespaces=(), arbitrary_types_allowed=False,
        validate_by_name=False, validate_by_alias=True,
    )  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*shadows an attribute.*")
            model = create_model(name, __config__=config, __doc__=None, **fields)
    except PydanticSchemaGenerationError as error:
        raise DefinitionError(f"`{name}`: a parameter's type has no JSON form. {_first_line(error)}") from error
    except (PydanticUserError, NameError, TypeError) as error:
        raise DefinitionError(f"`{name}`: {_first_line(error)}") from error
    return Compiled(ModelParams(model), context_name)


def output_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """The JSON Schema of the data that a function returns, where its annotation says something useful."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    try:
        returned = data_type(hints_of(function, returned=True).get("return", Any))
        if returned is None:
            return None
        return TypeAdapter(returned).json_schema(mode="serialization", schema_generator=_untitled())
    except (NameError, PydanticSchemaGenerationError, PydanticUserError):
        return None


@cache
def _untitled() -> type[GenerateJsonSchema]:
    """Makes schemas without a title for each field, which only says its name again."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


def data_type(returned: Any) -> Any:
    """The type of a result's data by a return annotation; None where that says nothing.

    `Output[T]` has a T. A `ToolResult` beside other types is how a tool fails, and then there is no data to promise.
    """
    if get_origin(returned) is Output:
        return data_type(get_args(returned)[0])
    if get_origin(returned) in (Union, UnionType):
        parts = [one if one is type(None) else data_type(one) for one in get_args(returned) if one is not ToolResult]
        return None if None in parts else Union[tuple(parts)]  # noqa: UP007 - built from values
    return None if returned in _SAY_NOTHING else returned


_SAY_NOTHING = (Any, object, None, type(None), Output, ToolResult, Attachment, bytes, bytearray)
"""What is attached, and what may hold anything."""


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext or ToolContext in get_args(annotation)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
