"""Parameters declared as types: one pydantic model gives the schema, the validation and the typed value.

Imports pydantic, so it is itself imported only when a tool is first shown or called.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pydantic_core import ValidationError, to_json

from ferrule.core.closed_models import close_schema, closed_validator
from ferrule.core.errors import DefinitionError
from ferrule.core.key_count import key_counter
from ferrule.core.pydantic_problems import ErrorReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel
    from pydantic_core import SchemaValidator

P = TypeVar("P")

_BUILDING = RLock()
"""Two threads that call a tool for the first time build one model."""


class Params(Protocol[P]):
    """How a tool's arguments are read. Implementations compile once and are safe to share between threads."""

    @property
    def schema(self) -> dict[str, Any] | bool:
        """The JSON Schema of the arguments, defaults included."""
        ...

    def load(self, text: str | bytes) -> P:
        """Read and check JSON text; raise `InvalidParams` with every problem."""
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
            if "$ref" in schema:  # a model that holds itself stands among its own definitions
                schema = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
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
            raise self._errors.read(error, text) from None

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
