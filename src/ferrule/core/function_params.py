"""Compiles a function's signature into parameters; done once, when a tool is first shown or called."""

from __future__ import annotations

import logging
import re
import warnings
from dataclasses import dataclass
from functools import cache, partial
from inspect import Parameter
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ferrule.core.docstring import parse_docstring
from ferrule.core.errors import DefinitionError
from ferrule.core.function_tool import doc_of, hints_of, is_context, shown_parameters, two_contexts
from ferrule.core.params import ModelParams, no_json_form
from ferrule.core.plain_schema import plain_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema


logger = logging.getLogger("ferrule.tools")


@dataclass(slots=True)
class Compiled:
    """What a signature turned out to be."""

    params: ModelParams
    context_name: str | None


def compile_function(
    name: str,
    function: Callable[..., Any],
    local_names: Mapping[str, Any] | None = None,
    described: Mapping[str, str] | None = None,
) -> Compiled:
    """The parameters of a function; descriptions come from `Annotated`, else from `described`, or its docstring.

    `local_names` are types that its annotations name and that only the function around it knew. Where the parameters
    are plain, pydantic builds their model when the tool is first called: showing it needs none.
    """
    from pydantic.fields import FieldInfo

    try:
        hints = hints_of(function, returned=False, local_names=local_names)
    except NameError as error:
        raise DefinitionError(
            f"`{name}`: a parameter's type is not known here: {error}. Define it above the function, or import it for "
            f"real and not for type checkers alone."
        ) from error
    if described is None:
        described = parse_docstring(doc_of(function)).params
    context_name: str | None = None
    fields: dict[str, tuple[Any, FieldInfo]] = {}
    for parameter, default in _parameters(function):
        annotation = hints.get(parameter, Any)
        if is_context(annotation):
            if context_name is not None:
                raise DefinitionError(two_contexts(name, (context_name, parameter)))
            context_name = parameter
            continue
        if parameter == "model_config":
            raise DefinitionError(f"`{name}`: no parameter can be called `model_config`; pydantic keeps that name.")
        try:
            info = (
                FieldInfo.from_annotation(annotation)
                if default is Parameter.empty
                else FieldInfo.from_annotated_attribute(annotation, default)
            )
        except (TypeError, RuntimeError) as error:
            raise DefinitionError(f"`{name}`: `{parameter}`: {_first_line(error)}") from error
        if info.description is None and parameter in described:
            info.description = described[parameter]
        # Without its `Annotated`, whose parts the info has already: given both, pydantic would run a validator twice.
        fields[parameter] = (info.annotation, info)
    build = partial(_model, name, fields)
    schema = plain_schema(name, {key: info for key, (_, info) in fields.items()})
    return Compiled(ModelParams(build() if schema is None else build, schema), context_name)


def _model(name: str, fields: dict[str, Any]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
    from pydantic_core import SchemaError

    config = ConfigDict(
        extra="forbid", allow_inf_nan=False, protected_namespaces=(), arbitrary_types_allowed=False,
        validate_by_name=False, validate_by_alias=True,
    )  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*shadows an attribute.*")
            warnings.filterwarnings("error", message="Mixing V1 models")
            try:
                model = create_model(name, __config__=config, __doc__=None, **fields)
            except SchemaError:  # a pattern that looks ahead or behind, say: Python's own engine knows more of them
                config["regex_engine"] = "python-re"
                model = create_model(name, __config__=config, __doc__=None, **fields)
        if not model.__pydantic_complete__:
            model.model_rebuild()  # says what it misses, such as a name that a model inside refers to
    except PydanticSchemaGenerationError as error:
        raise DefinitionError(f"`{name}`: {_unknown_type(fields)}") from error
    except SchemaError as error:
        raise DefinitionError(f"`{name}`: {_wrong_schema(error)}") from error
    except UserWarning as error:
        raise DefinitionError(
            f"`{name}`: a parameter is a model of pydantic.v1. Derive it from pydantic.BaseModel instead."
        ) from error
    except (PydanticUserError, NameError, TypeError) as error:
        raise DefinitionError(f"`{name}`: {_first_line(error)}") from error
    return model


def output_schema(returned: Any) -> dict[str, Any] | None:
    """The JSON Schema of a result's data, by a return annotation that says something useful."""
    from pydantic import TypeAdapter

    from ferrule.core.outputs import data_type

    try:
        promised = data_type(returned)
        if promised is None:
            return None
        return TypeAdapter(promised).json_schema(mode="serialization", schema_generator=_untitled())
    except Exception:  # a type may fail in any way, and a result does without a schema
        logger.debug("Results of type %s go without a schema", returned, exc_info=True)
        return None


@cache
def _untitled() -> type[GenerateJsonSchema]:
    """Makes schemas without a title for each field, which only says its name again."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


def _unknown_type(fields: dict[str, Any]) -> str:
    from pydantic import TypeAdapter

    for name, (annotation, _) in fields.items():
        try:
            TypeAdapter(annotation)
        except Exception:  # noqa: BLE001 - only which one it is matters here
            return no_json_form(name, annotation)
    return "a parameter's type has no JSON form."


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Each parameter with its default; `inspect.signature` takes ten times as long, and plain functions need it not."""
    if type(function) is not FunctionType or not vars(function).keys().isdisjoint(("__signature__", "__wrapped__")):
        return [(one.name, one.default) for one in shown_parameters(function)]
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(names[code.co_argcount - len(given) : code.co_argcount], given, strict=True))
    defaults |= function.__kwdefaults__ or {}
    return [(name, defaults.get(name, Parameter.empty)) for name in names]


def _wrong_schema(error: Exception) -> str:
    """The place and the reason, out of the many lines in which pydantic says where it was."""
    told = str(error)
    reason = told.rpartition("\n")[2].strip().removeprefix("error: ")
    field = re.search(r'Field "([^"]+)"', told)
    return f"`{field[1]}`: {reason}." if field else f"{reason}."


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
