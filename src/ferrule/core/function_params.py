"""Compiles a function's signature into parameters; done once, when a tool is first shown or called."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_args

from ferrule.core.context import ToolContext
from ferrule.core.docstring import parse_docstring
from ferrule.core.errors import DefinitionError
from ferrule.core.function_tool import doc_of, hints_of
from ferrule.core.params import ModelParams
from ferrule.core.plain_schema import plain_schema
from ferrule.core.result import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel


@dataclass(slots=True)
class Compiled:
    """What a signature turned out to be."""

    params: ModelParams
    context_name: str | None


def compile_function(name: str, function: Callable[..., Any], described: Mapping[str, str] | None = None) -> Compiled:
    """The parameters of a function; descriptions come from `Annotated`, else from `described`, or its docstring.

    Where they are plain, pydantic builds their model when the tool is first called: showing it needs none.
    """
    from pydantic.fields import FieldInfo

    try:
        hints = hints_of(function, returned=False)
    except NameError as error:
        raise DefinitionError(f"`{name}`: a parameter's type is not known here: {error}.") from error
    if described is None:
        described = parse_docstring(doc_of(function)).params
    context_name: str | None = None
    fields: dict[str, tuple[Any, FieldInfo]] = {}
    for parameter, default in _parameters(function):
        annotation = hints.get(parameter, Any)
        if _is_context(annotation):
            context_name = parameter
            continue
        if parameter == "model_config":
            raise DefinitionError(f"`{name}`: no parameter can be called `model_config`; pydantic keeps that name.")
        try:
            info = (
                FieldInfo.from_annotation(annotation)
                if default is inspect.Parameter.empty
                else FieldInfo.from_annotated_attribute(annotation, default)
            )
        except (TypeError, RuntimeError) as error:
            raise DefinitionError(f"`{name}`: `{parameter}`: {_first_line(error)}") from error
        if info.description is None and parameter in described:
            info.description = described[parameter]
        fields[parameter] = (annotation, info)
    build = partial(_model, name, fields)
    schema = plain_schema(name, {key: info for key, (_, info) in fields.items()})
    return Compiled(ModelParams(build() if schema is None else build, schema), context_name)


def _model(name: str, fields: dict[str, Any]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    config = ConfigDict(
        extra="forbid", allow_inf_nan=False, protected_namespaces=(), arbitrary_types_allowed=False,
        validate_by_name=False, validate_by_alias=True,
    )  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*shadows an attribute.*")
            model = create_model(name, __config__=config, __doc__=None, **fields)
        if not model.__pydantic_complete__:
            model.model_rebuild()  # says what it misses, such as a name that a model inside refers to
    except PydanticSchemaGenerationError as error:
        raise DefinitionError(f"`{name}`: a parameter's type has no JSON form. {_first_line(error)}") from error
    except (PydanticUserError, NameError, TypeError) as error:
        raise DefinitionError(f"`{name}`: {_first_line(error)}") from error
    return model


def output_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """The JSON Schema of what a function returns, where its annotation says something useful."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    try:
        returned = hints_of(function, returned=True).get("return", Any)
        if returned in (Any, Output, object, None, type(None)):
            return None
        return TypeAdapter(returned).json_schema(mode="serialization")
    except (NameError, PydanticSchemaGenerationError, PydanticUserError):
        return None


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Each parameter with its default; `inspect.signature` takes ten times as long, and plain functions need it not."""
    if type(function) is not FunctionType or not vars(function).keys().isdisjoint(("__signature__", "__wrapped__")):
        return [(name, one.default) for name, one in inspect.signature(function).parameters.items()]
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(names[code.co_argcount - len(given) : code.co_argcount], given, strict=True))
    defaults |= function.__kwdefaults__ or {}
    return [(name, defaults.get(name, inspect.Parameter.empty)) for name in names]


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext or ToolContext in get_args(annotation)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
