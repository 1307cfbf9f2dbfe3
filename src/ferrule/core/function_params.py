"""Compiles a function's signature into parameters; done once, when a tool is first shown or called."""

from __future__ import annotations

import logging
import re
import warnings
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum, EnumMeta
from functools import lru_cache, partial
from inspect import Parameter, cleandoc
from math import isfinite
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, SchemaError, SchemaValidator, core_schema

from ferrule.core.description import parse_docstring
from ferrule.core.errors import DefinitionError
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.params import ModelParams, no_json_form
from ferrule.core.schemas import Schema, referred
from ferrule.core.signatures import doc_of, hints_of, is_context, shown_parameters, two_contexts, wanted_deps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# Writes the JSON Schema of plain parameters straight from their annotations.


_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
    date: {"format": "date", "type": "string"},
    datetime: {"format": "date-time", "type": "string"},
    time: {"format": "time", "type": "string"},
    timedelta: {"format": "duration", "type": "string"},
    UUID: {"format": "uuid", "type": "string"},
    Path: {"format": "path", "type": "string"},
}
_BARE: dict[Any, Schema] = {
    list: {"items": {}, "type": "array"},
    set: {"items": {}, "type": "array", "uniqueItems": True},
    dict: {"additionalProperties": True, "type": "object"},
}
_TYPE_OF: dict[Any, str] = {str: "string", int: "integer", bool: "boolean", NoneType: "null"}
_BOUNDS: dict[Any, tuple[str, str]] = {
    Ge: ("ge", "minimum"),
    Gt: ("gt", "exclusiveMinimum"),
    Le: ("le", "maximum"),
    Lt: ("lt", "exclusiveMaximum"),
    MultipleOf: ("multiple_of", "multipleOf"),
}
_LENGTHS: dict[Any, tuple[str, dict[str, str]]] = {
    MinLen: ("min_length", {"string": "minLength", "array": "minItems", "object": "minProperties"}),
    MaxLen: ("max_length", {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}),
}
_PATTERN: type[Any] = Field(pattern="").metadata[0].__class__
# Settings of a model that change nothing in its schema, apart from `extra`, which is written.
_HARMLESS = frozenset({
    "arbitrary_types_allowed", "extra", "from_attributes", "frozen", "populate_by_name", "protected_namespaces",
    "str_strip_whitespace", "strict", "use_attribute_docstrings", "validate_assignment", "validate_default",
})  # fmt: skip
_OWN_WAYS = frozenset({
    "__get_pydantic_core_schema__", "__get_pydantic_json_schema__", "__deprecated__", "model_json_schema",
})  # fmt: skip
_LARGE = 2**63
_UNSORTED = ("default", "properties")
"""Below these names pydantic leaves keys in their order, and sorts all others; also where they name a parameter."""
_DEFINITION = lazy_pattern(r"[A-Za-z0-9_]+")


class _NotPlain(Exception):  # noqa: N818 - a finding, not an error
    """Only pydantic knows what to write here."""


def plain_schema(name: str, fields: Mapping[str, FieldInfo]) -> Schema | None:
    """The schema of closed parameters with these fields, without titles at the top; None unless all are plain."""
    if any(field.startswith(("_", "model_")) for field in fields):
        return None
    writer = _Writer(name)
    try:
        properties, required = writer.fields(fields, titled=False)
    except _NotPlain:
        return None
    schema: Schema = {"$defs": dict(sorted(writer.definitions.items()))} if writer.definitions else {}
    schema["additionalProperties"] = False
    schema["properties"] = properties
    if required:
        schema["required"] = required
    schema["type"] = "object"
    return schema


class _Writer:
    """Writes one schema and gathers the definitions that it refers to."""

    def __init__(self, name: str) -> None:
        self.definitions: dict[str, Schema] = {}
        self._written: dict[str, Any] = {name: None}  # what each name means; the whole has one too

    def fields(self, fields: Mapping[str, FieldInfo], *, titled: bool) -> tuple[Schema, list[str]]:
        properties: Schema = {}
        required: list[str] = []
        for own_name, info in fields.items():
            alias = info.validation_alias
            name = own_name if alias is None else alias
            if not isinstance(name, str) or name in properties or name in _UNSORTED:
                raise _NotPlain
            properties[name] = self._field(name, info, titled=titled)
            if info.default is PydanticUndefined and info.default_factory is None:
                required.append(name)
        return properties, required

    def _field(self, name: str, info: FieldInfo, *, titled: bool) -> Schema:
        if _is_unusual(info):
            raise _NotPlain
        node = self._type(info.annotation)
        for rule in info.metadata:
            _constrain(node, rule)
        said: Schema = {}
        if info.default is not PydanticUndefined:
            said["default"] = _default(info.default)
        if info.description is not None:
            said["description"] = info.description
        if titled and info.title is not None:
            said["title"] = info.title
        if "$ref" in node:
            target = referred(node["$ref"], {"$defs": self.definitions})
            if any(target.get(key, _NotPlain) == value for key, value in said.items()):
                raise _NotPlain  # said twice: whether pydantic leaves it out depends on the order of its work
        elif titled and info.title is None and not _is_optional_reference(node):
            said["title"] = name.title().replace("_", " ").strip()
        if not said and not info.metadata:
            return node
        return dict(sorted({**node, **said}.items()))

    def _type(self, annotation: Any) -> Schema:
        """What is written for a type; always a new dict, which the caller may add to."""
        if isinstance(annotation, type):
            known = _SCALARS.get(annotation)
            if known is not None:
                return known.copy()
            if type(annotation) is EnumMeta:
                return self._reference(annotation, _enum)
            if issubclass(annotation, BaseModel):
                return self._reference(annotation, self._model)
            if (bare := _BARE.get(annotation)) is not None:
                return {**bare, "items": {}} if "items" in bare else bare.copy()
            raise _NotPlain
        if annotation is None:
            return {"type": "null"}
        return self._generic(get_origin(annotation), get_args(annotation))

    def _generic(self, origin: Any, members: tuple[Any, ...]) -> Schema:
        if origin is Union or origin is UnionType:
            return self._union(members)
        if origin is Literal:
            sorts: set[type[Any]] = {type(value) for value in members}
            if not sorts <= _TYPE_OF.keys():
                raise _NotPlain
            schema: Schema = {"const": members[0]} if len(members) == 1 else {"enum": list(members)}
            if len(sorts) == 1:
                schema["type"] = _TYPE_OF[sorts.pop()]
            return schema
        if origin is list:
            return {"items": self._type(members[0]), "type": "array"}
        if origin is dict and members[0] is str:
            return {"additionalProperties": self._type(members[1]) or True, "type": "object"}
        if origin is set or origin is frozenset:
            return {"items": self._type(members[0]), "type": "array", "uniqueItems": True}
        if origin is tuple and members:
            if members[-1] is Ellipsis:
                return {"items": self._type(members[0]), "type": "array"}
            parts = [self._type(one) for one in members]
            return {"maxItems": len(parts), "minItems": len(parts), "prefixItems": parts, "type": "array"}
        if origin is Annotated:
            return self._annotated(members[0], members[1:])
        raise _NotPlain

    def _annotated(self, annotation: Any, rules: tuple[Any, ...]) -> Schema:
        """A type with rules of its own, inside another type."""
        node = self._type(annotation)
        for rule in rules:
            if type(rule) is not FieldInfo:
                _constrain(node, rule)
                continue
            if _is_unusual(rule) or rule.title is not None or rule.validation_alias is not None:
                raise _NotPlain
            if rule.default is not PydanticUndefined or rule.default_factory is not None:
                raise _NotPlain
            for inner in rule.metadata:
                _constrain(node, inner)
            if rule.description is not None:
                if "$ref" in node or "anyOf" in node:
                    raise _NotPlain
                node["description"] = rule.description
        return dict(sorted(node.items()))

    def _union(self, members: tuple[Any, ...]) -> Schema:
        forms: list[Schema] = []
        for member in members:
            if member is NoneType:
                continue
            form = self._type(member)
            if "anyOf" in form or form in forms:
                raise _NotPlain  # pydantic makes one list of both, each form once
            forms.append(form)
        if len(forms) < len(members):
            null: Schema = {"type": "null"}
            if null in forms:
                raise _NotPlain
            forms.append(null)
        return {"anyOf": forms}

    def _reference(self, kind: Any, write: Any) -> Schema:
        name: str = kind.__name__
        known = self._written.get(name, self)
        if known is self:
            if kind.__qualname__.rpartition(".")[2] != name or not _DEFINITION.fullmatch(name):
                raise _NotPlain
            self._written[name] = kind
            self.definitions[name] = write(kind)
        elif known is not kind or name not in self.definitions:
            raise _NotPlain  # two of one name, or a model that holds itself
        return {"$ref": f"#/$defs/{name}"}

    def _model(self, model: type[BaseModel]) -> Schema:
        if not _is_plain_model(model):
            raise _NotPlain
        properties, required = self.fields(model.model_fields, titled=True)
        schema: Schema = {}
        extra = model.model_config.get("extra")
        if extra == "forbid" or extra == "allow":
            schema["additionalProperties"] = extra == "allow"
        if model.__doc__:
            schema["description"] = cleandoc(model.__doc__)
        schema["properties"] = properties
        if required:
            schema["required"] = required
        schema["title"] = model.__name__
        schema["type"] = "object"
        if extra is None:  # as `close_schema` says it of a model that leaves it open
            schema["additionalProperties"] = False
        return schema


def _is_unusual(info: FieldInfo) -> bool:
    return (
        type(info) is not FieldInfo
        or info.json_schema_extra is not None
        or info.examples is not None
        or info.deprecated is not None
        or info.discriminator is not None
        or info.field_title_generator is not None
    )


def _is_plain_model(model: Any) -> bool:
    """Whether a model is what its fields say, no more."""
    if not model.__pydantic_complete__ or model.__pydantic_root_model__ or model.model_config.keys() - _HARMLESS:
        return False
    if "extra" in model.model_config and model.model_config["extra"] is None:
        return False
    generic = model.__pydantic_generic_metadata__
    if generic["args"] or generic["parameters"]:
        return False
    own = model.__pydantic_decorators__
    if own.validators or own.root_validators:
        return False
    if any(one.info.mode != "after" for one in (*own.field_validators.values(), *own.model_validators.values())):
        return False
    owners: tuple[type, ...] = model.__mro__
    return all(vars(owner).keys().isdisjoint(_OWN_WAYS) for owner in owners[: owners.index(BaseModel)])


def _enum(kind: type[Enum]) -> Schema:
    values: list[Any] = [member.value for member in kind]
    sorts: set[type[Any]] = {type(value) for value in values}
    if len(kind.__members__) != len(values) or len(sorts) != 1 or not sorts <= {str, int}:
        raise _NotPlain
    if any(not vars(owner).keys().isdisjoint(_OWN_WAYS) for owner in kind.__mro__):
        raise _NotPlain
    schema: Schema = {}
    if kind.__doc__ and (said := cleandoc(kind.__doc__)) != "An enumeration.":
        schema["description"] = said
    return {**schema, "enum": values, "title": kind.__name__, "type": _TYPE_OF[sorts.pop()]}


def _constrain(node: Schema, rule: Any) -> None:
    """Add a rule to the type that it is about; what pydantic would refuse, or check by itself, is not plain."""
    if type(rule) is str:
        return  # a remark
    forms: list[Schema] | None = node.get("anyOf")
    if forms is not None:
        if len(forms) != 2 or forms[1] != {"type": "null"}:
            raise _NotPlain
        _constrain(forms[0], rule)
        forms[0] = dict(sorted(forms[0].items()))
        return
    kind: Any = node.get("type")
    if not node.keys().isdisjoint(("const", "enum", "format", "prefixItems")) or (
        kind == "array" and "items" not in node
    ):
        raise _NotPlain
    if (bound := _BOUNDS.get(type(rule))) is not None:
        limit = getattr(rule, bound[0])
        whole = type(limit) is int
        real = kind == "number" and type(limit) is float and isfinite(limit)
        if not real and not (whole and kind in ("integer", "number") and -_LARGE < limit < _LARGE):
            raise _NotPlain
        if bound[0] == "multiple_of" and limit <= 0:
            raise _NotPlain
        node[bound[1]] = limit
    elif (length := _LENGTHS.get(type(rule))) is not None:
        size = getattr(rule, length[0])
        if kind not in length[1] or type(size) is not int or not 0 <= size < 2**31:
            raise _NotPlain
        node[length[1][kind]] = size
    else:
        said: Any = getattr(rule, "__dict__", None)
        if type(rule) is not _PATTERN or kind != "string" or said.keys() != {"pattern"}:
            raise _NotPlain
        if type(said["pattern"]) is not str or not _is_pattern(said["pattern"]):
            raise _NotPlain
        node["pattern"] = said["pattern"]


@lru_cache(maxsize=1024)
def _is_pattern(pattern: str) -> bool:
    """Whether pydantic's own engine takes it."""
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return False
    return True


def _default(value: Any, under: str = "default") -> Any:
    """A default as JSON, apart from the value itself, which somebody else may change."""
    kind: type[Any] = value.__class__
    if kind is str or kind is int or kind is bool or value is None or (kind is float and isfinite(value)):
        return value
    if kind is list:
        return [_default(item, under) for item in value]
    if kind is dict and all(type(key) is str for key in value):
        held = cast("dict[str, Any]", value)
        keys = held if under in _UNSORTED else sorted(held)
        return {key: _default(held[key], key) for key in keys}
    if type(kind) is EnumMeta and type(value.value) in (str, int):
        return value.value
    raise _NotPlain


def _is_optional_reference(node: Schema) -> bool:
    forms: Any = node.get("anyOf")
    return forms is not None and len(forms) == 2 and "$ref" in forms[0] and forms[1] == {"type": "null"}


logger = logging.getLogger("ferrule.tools")


@dataclass(slots=True)
class Compiled:
    """What a signature turned out to be."""

    params: ModelParams
    context_name: str | None
    wanted_deps: Any


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
            f"`{name}`: a parameter's type is not known here: {error}. Define it above the function, or import it at "
            f"run time, not only for type checkers."
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
    if len(fields) == 1 and isinstance(model := next(iter(fields.values()))[0], type) and issubclass(model, BaseModel):
        only, kind = next(iter(fields)), model.__name__
        logger.warning(
            'The arguments of tool %s are {"%s": {…}}, because its one parameter is a model. If they should be the '
            "fields of %s, write tool(schema=%s, execute=…).", name, only, kind, kind,
        )  # fmt: skip
    build = partial(_model, name, fields)
    schema = plain_schema(name, {key: info for key, (_, info) in fields.items()})
    params = ModelParams(build() if schema is None else build, schema)
    return Compiled(params, context_name, wanted_deps([hints[context_name]]) if context_name else None)


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
    reason = told.rpartition("\n")[2].strip().removeprefix(f"{re.error.__name__}: ")
    field = re.search(r'Field "([^"]+)"', told)
    return f"`{field[1]}`: {reason}." if field else f"{reason}."


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
