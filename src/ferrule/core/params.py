"""Parameters declared as types: one pydantic model gives the schema, the validation and the typed value.

Imports pydantic, so it is itself imported only when a tool is first shown or called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from operator import attrgetter
from pathlib import Path
from threading import RLock
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, ValidationError, to_json, to_jsonable_python

from ferrule.core.errors import DefinitionError
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.result import plainly
from ferrule.core.schemas import followed, parts
from ferrule.core.validator_errors import ErrorReader

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import SchemaValidator


# Closes the models that a tool's parameters are made of: a field nobody declared is an error, and so is infinity.


def closed_validator(model: type[BaseModel]) -> SchemaValidator | None:
    """The validator of a model in which no model refuses less than it should, and nothing is left to be read later; the
    model's own if none needs more.

    None for a schema of a kind that cannot be built again.
    """
    from pydantic_core import SchemaError, SchemaValidator

    if not _any_open(model.__pydantic_core_schema__, finite=False):
        return cast("SchemaValidator", model.__pydantic_validator__)
    try:
        return SchemaValidator(_closed(model.__pydantic_core_schema__, None), _use_prebuilt=False)
    except SchemaError:
        return None


def close_schema(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Say the same in the JSON Schema that models are shown."""
    models = [node for node in parts(model.__pydantic_core_schema__) if str(node.get("type")) in _FIELDS_OF]
    says = {getattr(node["cls"], "__name__", ""): _is_open(node) for node in reversed(models)}
    root = says.get(model.__name__, False)
    for name, part in [(None, schema), *schema.get("$defs", {}).items()]:
        is_open = root if name is None else says.get(str(part.get("title", name)), says.get(str(name), False))
        if is_open and "properties" in part:
            part.setdefault("additionalProperties", False)


_FIELDS_OF = {"model": "model-fields", "dataclass": "dataclass-args", "typed-dict": "typed-dict"}
"""Where a core schema has the fields of each kind of object."""


def _is_open(node: Any) -> bool:
    if node.get("type") == "model":
        return "extra" not in getattr(node.get("cls"), "model_config", {})
    return str(node.get("type")) in _FIELDS_OF and "extra_fields_behavior" not in node.get("config", {})


def _is_lazy(node: Any) -> bool:
    return node.get("type") == "generator"


def _any_open(node: Any, *, finite: bool) -> bool:
    if isinstance(node, dict):
        node = cast("dict[str, Any]", node)
        kind = node.get("type")
        if kind == "float":
            return not finite and node.get("allow_inf_nan") is not False
        if kind == "model":
            finite = node.get("config", {}).get("allow_inf_nan") is False
        if _is_open(node):
            return True
        return _is_lazy(node) or any(_any_open(part, finite=finite) for part in node.values())
    return isinstance(node, (list, tuple)) and any(_any_open(part, finite=finite) for part in cast("list[Any]", node))


def _closed(node: Any, owner: Any) -> Any:
    """A copy of a core schema in which no object takes fields that it doesn't have, unless its author says so."""
    if isinstance(node, dict):
        node = cast("dict[str, Any]", node)
        if str(node.get("type")) in _FIELDS_OF:  # a field can have that name
            owner = node
        copied = {key: _closed(part, owner) if key != "cls" else part for key, part in node.items()}
        if owner is not None and node.get("type") == _FIELDS_OF[owner["type"]] and _is_open(owner):
            copied["extra_behavior"] = "forbid"
        if node.get("type") == "float":
            copied["allow_inf_nan"] = False
        if _is_lazy(node):
            copied["type"] = "list"
        return copied
    if isinstance(node, list):
        return [_closed(part, owner) for part in cast("list[Any]", node)]
    if type(node) is tuple:
        return tuple(_closed(part, owner) for part in cast("tuple[Any, ...]", node))
    return node


# How many keys the JSON text of some parameters must have held, told from the parameters themselves.


Counter = Callable[[list[Any]], int]
"""Counts the keys of many values at once: a list of models then takes a few steps, not a few for each."""

_SCALARS = frozenset({
    str, int, float, bool, bytes, NoneType, date, datetime, time, timedelta, Decimal, UUID, Path,
})  # fmt: skip
_given = attrgetter("__pydantic_fields_set__")


def key_counter(model: type[BaseModel]) -> Callable[[Any], int] | None:
    """What counts the keys of a model's instance; None where that cannot be told."""
    counter = _model(model, ())
    if counter is None:
        return None
    if counter is _all_own_keys:
        return lambda params: len(params.__pydantic_fields_set__)
    return lambda params: counter([params])


def _all_own_keys(models: list[Any]) -> int:
    return sum(map(len, map(_given, models)))


def _model(model: type[BaseModel], around: tuple[type, ...]) -> Counter | None:
    if model in around or not _is_plain(model):
        return None
    holding: list[tuple[str, Counter, bool]] = []
    for name, info in model.model_fields.items():
        if _has_no_keys(info.annotation):
            continue
        validated = any(hasattr(one, "__get_pydantic_core_schema__") for one in info.metadata)
        counter = None if validated else _holder(info.annotation, (*around, model))
        if counter is None:
            return None
        holding.append((name, counter, _is_empty_unless_given(info)))
    if not holding:
        return _all_own_keys

    def count(models: list[Any]) -> int:
        total = sum(map(len, map(_given, models)))
        for name, counter, always in holding:
            if always:
                total += counter([model.__dict__[name] for model in models])
            else:
                total += counter([model.__dict__[name] for model in models if name in model.__pydantic_fields_set__])
        return total

    return count


def _is_empty_unless_given(info: FieldInfo) -> bool:
    """Whether a field that was not given holds no keys either, so that nobody has to look."""
    if info.default_factory is not None:
        return (get_origin(info.default_factory) or info.default_factory) in (list, dict)
    return info.is_required() or info.default is None or (type(info.default) in (list, dict) and not info.default)


def _holder(annotation: Any, around: tuple[type, ...]) -> Counter | None:
    """What counts the keys inside values that may hold some."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model(annotation, around)
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is list:
        inner = _holder(members[0], around)
        return None if inner is None else lambda lists: inner(list(chain.from_iterable(lists)))
    if origin is dict and members[0] is str:
        if _has_no_keys(members[1]):
            return lambda dicts: sum(map(len, dicts))
        inner = _holder(members[1], around)
        if inner is None:
            return None
        return lambda dicts: sum(map(len, dicts)) + inner([value for one in dicts for value in one.values()])
    if origin in (Union, UnionType):
        kinds = [member for member in members if member is not NoneType]
        inner = _holder(kinds[0], around) if len(kinds) == 1 else None
        return None if inner is None else lambda values: inner([value for value in values if value is not None])
    return None


def _has_no_keys(annotation: Any) -> bool:
    """Whether no value of this type is an object or holds one."""
    if annotation in _SCALARS:
        return True
    if isinstance(annotation, type):
        return issubclass(annotation, Enum)
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin is list:
        return _has_no_keys(members[0])
    return origin is Literal or (origin in (Union, UnionType) and all(map(_has_no_keys, members)))


def _is_plain(model: type[BaseModel]) -> bool:
    """Whether what was given is exactly what the JSON said: no code of the model's own, one key for each field."""
    own = model.__pydantic_decorators__
    if own.validators or own.field_validators or own.root_validators or own.model_validators:
        return False
    for owner in model.__mro__[: model.__mro__.index(BaseModel)]:
        if vars(owner).keys() & {"__init__", "__new__", "__get_pydantic_core_schema__", "model_post_init"}:
            return False
    aliases = [info.validation_alias or name for name, info in model.model_fields.items()]
    if not all(isinstance(alias, str) for alias in aliases) or len(set(map(str, aliases))) < len(aliases):
        return False
    return not model.__pydantic_root_model__


P = TypeVar("P")

_BUILDING = RLock()
"""Two threads that call a tool for the first time build one model."""


class Params(Protocol[P]):
    """How a tool's arguments are read. Implementations compile once and are safe to share between threads."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, defaults included."""
        ...

    def load(self, text: str | bytes) -> P:
        """Read and check JSON text; raise `InvalidParamsError` with every problem."""
        ...

    def dump(self, params: P) -> bytes:
        """The same arguments as canonical JSON: equal arguments give equal bytes."""
        ...

    def flat_size(self, params: P) -> int | None:
        """How many keys the JSON text must have held, objects inside objects included; None when that is unknown.

        Where it is known, every number was read into a place that takes no infinity.
        """
        ...


class ModelParams:
    """Parameters held by a pydantic model.

    Validation is strict first: what only fits after conversion (`"5"` for 5) is left to the repair step, which
    notes what it did.
    """

    __slots__ = ("_build", "_count_keys", "_errors", "_model", "_schema", "_validate")

    def __init__(
        self, model: type[BaseModel] | Callable[[], type[BaseModel]], schema: dict[str, Any] | None = None
    ) -> None:
        """`model` is one, or what builds it at the first call; then the schema is known before."""
        self._build = model
        self._schema = schema
        self._model: type[BaseModel] | None = None
        self._validate: Callable[..., Any] | None = None
        self._errors: ErrorReader | None = None
        self._count_keys: Callable[[Any], int | None] | None = None
        if schema is None:
            self._compile()

    @property
    def model(self) -> type[BaseModel]:
        """The model that holds the arguments."""
        if self._model is None:
            with _BUILDING:
                if self._model is None:
                    self._model = self._build if isinstance(self._build, type) else self._build()
        return self._model

    def _compile(self) -> Callable[..., Any]:
        closed = closed_validator(self.model)
        if closed is None:  # it stays as its author made it, and whether a number is finite is not known
            self._count_keys = _unknown
            closed = cast("SchemaValidator", self.model.__pydantic_validator__)
        self._validate = closed.validate_json
        return self._validate

    @property
    def schema(self) -> dict[str, Any]:
        if self._schema is None:
            schema = _json_schema(self.model)
            if "$ref" in schema:  # a model that holds itself is among its own definitions, and so is a dataclass
                own = schema["$ref"]
                schema = dict(followed(schema, schema))
                if str(schema).count(repr(own)) == 0:
                    del schema["$defs"][own.rpartition("/")[2]]
                    schema = {key: part for key, part in schema.items() if part or key != "$defs"}
                schema["properties"] = {name: dict(prop) for name, prop in schema["properties"].items()}
            schema.pop("title", None)
            schema.pop("description", None)
            for prop in schema.get("properties", {}).values():
                prop.pop("title", None)
            schema.setdefault("properties", {})
            close_schema(schema, self.model)
            self._schema = schema
        return self._schema

    def load(self, text: str | bytes) -> Any:
        try:
            return (self._validate or self._compile())(text, strict=True)
        except ValidationError as error:
            if self._errors is None:
                self._errors = ErrorReader(self.model.__pydantic_core_schema__, self.schema)
            raise self._errors.read(error, text, self._validate or self._compile()) from None

    def dump(self, params: Any) -> bytes:
        # Not by the model's serializer, which may hide fields: two calls that differ must not look the same.
        return to_json(opened(params), fallback=str, inf_nan_mode="strings")

    def flat_size(self, params: Any) -> int | None:
        if self._count_keys is None:
            self._count_keys = key_counter(self.model) or _unknown
        return self._count_keys(params)


def _unknown(_: Any) -> None:
    return None


def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model; raises `DefinitionError` with the field that has none."""
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        # A default without a JSON form is filled in all the same. That no model is told of it, the linter says.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as pydantic has it

    try:
        return model.model_json_schema(by_alias=True, schema_generator=Quiet)
    except Exception as error:  # pydantic raises its own, and a type's own code whatever it likes
        raise DefinitionError(_without_schema(model, error)) from error


def _without_schema(model: type[BaseModel], error: Exception) -> str:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticInvalidForJsonSchema

    for name, field in model.model_fields.items():
        try:
            TypeAdapter(cast("Any", field.annotation)).json_schema()
        except PydanticInvalidForJsonSchema:
            return no_json_form(name, field.annotation)
        except Exception as other:  # noqa: BLE001 - as above
            error = other
            break
    else:
        name = ""
    where = f"`{name}` has" if name else "its parameters have"
    first = str(error).partition("\n")[0].rstrip(".")
    return f"{where} no JSON Schema: {type(error).__name__}: {first}."


def no_json_form(name: str, annotation: Any) -> str:
    """What is wrong with a parameter that no model can give."""
    kind = getattr(annotation, "__name__", None) or str(annotation)
    return (
        f"`{name}` is a {kind}, which has no JSON form, and a model can only send JSON. Give it another type, or leave "
        f"it out of the parameters."
    )


def opened(value: Any) -> Any:
    """A value with nothing hidden: every field of every model under the name it is given by, secrets included."""
    fields: dict[str, Any] | None = getattr(cast("Any", type(value)), "model_fields", None)
    if fields is not None:
        given = {_name_of(name, fields.get(name)): opened(item) for name, item in value.__dict__.items()}
        extra = cast("dict[str, Any]", value.__pydantic_extra__ or {})
        return {**given, **{name: opened(item) for name, item in extra.items()}}
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {str(key): opened(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (set, frozenset)):
        return sorted((opened(item) for item in cast("set[Any]", value)), key=repr)
    if isinstance(value, (list, tuple)):
        return [opened(item) for item in cast("list[Any]", value)]
    return value


def _name_of(name: str, info: Any) -> str:
    alias = getattr(info, "validation_alias", None) or getattr(info, "alias", None)
    choices = getattr(alias, "choices", None)
    chosen = choices[0] if choices else alias
    return chosen if isinstance(chosen, str) else name


# Values as JSON text. Apart, because it imports pydantic, which a program that runs no call never pays for.


_ADDRESS = lazy_pattern(r"\A<.* at 0x[0-9a-fA-F]+>\Z", re.DOTALL)
_UNFIT = lazy_pattern(r"TypeError: (\w+) has no JSON form")
NO_JSON_FORM = (PydanticSerializationError, ValueError, RecursionError)


def to_text(arguments: Any) -> bytes:
    """Arguments as JSON; `NaN` and the infinities stay visible, for the validation to refuse."""
    return to_json(arguments, inf_nan_mode="constants", fallback=_plain)


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _shown(value: object) -> Any:
    """What a value says of itself; an address in memory says nothing."""
    kind = type(value)
    said = plainly(value)
    if isinstance(said, str) and _ADDRESS.search(said):
        raise TypeError(f"{kind.__name__} has no JSON form")
    return said


def unfit_part(error: Exception) -> str:
    """What in a value has no JSON form, in a few words; empty where that cannot be told."""
    said = str(error)
    if found := _UNFIT.search(said):
        return f"a {found[1]}"
    if "utf-8" in said:
        return "bytes that are not UTF-8 text"
    return "itself" if "Circular reference" in said else ""


def to_words(value: Any) -> str:
    """A result as JSON that every reader takes."""
    try:
        return to_json(value, fallback=_shown, inf_nan_mode="strings").decode()
    except PydanticSerializationError as error:
        if "surrogate" not in str(error):
            raise
        # Such as the name of a file that is not UTF-8; the formatting stage makes it well-formed text.
        plain = to_jsonable_python(value, fallback=_shown, inf_nan_mode="strings")
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
