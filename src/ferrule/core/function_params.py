"""Compiles a function's signature into parameters; done once, when a tool is first shown or called."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ferrule.core.docstring import parse_docstring
from ferrule.core.errors import DefinitionError
from ferrule.core.function_tool import doc_of, hints_of, is_context, shown_parameters, two_contexts
from ferrule.core.params import ModelParams, no_json_form

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic.json_schema import GenerateJsonSchema


logger = logging.getLogger("ferrule.tools")


@dataclass(slots=True)
class Compiled:
    """What a signature turned out to be."""

    params: ModelParams
    context_name: str | None


def compile_function(name: str, function: Callable[..., Any], local_names: Mapping[str, Any] | None = None) -> Compiled:
    """Build the parameter model of a function; descriptions come from `Annotated`, else from the docstring.

    `local_names` are types that its annotations name and that only the function around it knew.
    """
    from pydantic import ConfigDict, create_model
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
    from pydantic.fields import FieldInfo

    try:
        hints = hints_of(function, returned=False, local_names=local_names)
    except NameError as error:
        raise DefinitionError(
            f"`{name}`: a parameter's type is not known here: {error}. Define it above the function, or import it for "
            f"real and not for type checkers alone."
        ) from error
    described = parse_docstring(doc_of(function)).params
    context_name: str | None = None
    fields: dict[str, Any] = {}
    for parameter in shown_parameters(function):
        annotation = hints.get(parameter.name, Any)
        if is_context(annotation):
            if context_name is not None:
                raise DefinitionError(two_contexts(name, (context_name, parameter.name)))
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
        raise DefinitionError(f"`{name}`: {_unknown_type(fields)}") from error
    except (PydanticUserError, NameError, TypeError) as error:
        raise DefinitionError(f"`{name}`: {_first_line(error)}") from error
    return Compiled(ModelParams(model), context_name)


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


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
