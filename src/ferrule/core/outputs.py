"""What a tool returns, held to what it declared.

A value fits when it is of the declared type, or when its JSON form is: what reads a result (a model, an MCP client,
another call) has only that. So dicts do for a model, and text for a date; `"5"` does not do for a number.
"""

from __future__ import annotations

import logging
from copy import deepcopy
from functools import cache, lru_cache
from math import isfinite
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, cast, get_args, get_origin

from ferrule.core.phrases import phrase
from ferrule.core.problems import InvalidParamsError, out_of_form
from ferrule.core.result import Attachment, Output, ToolResult, plainly
from ferrule.core.schemas import parts

if TYPE_CHECKING:
    from pydantic.json_schema import GenerateJsonSchema

    from ferrule.core.schema_params import SchemaParams

logger = logging.getLogger("ferrule.tools")

_EXACT = (str, int, bool, NoneType)
_UNCHECKED = (Any, object, None, NoneType, Output, ToolResult, Attachment, bytes, bytearray)
_LAZY = frozenset({"Iterator", "Iterable", "Generator", "AsyncIterator", "AsyncIterable", "AsyncGenerator",
                   "Awaitable", "Coroutine"})  # fmt: skip


class OutputType(Protocol):
    """What a tool's values are held to; compiled once."""

    exact: frozenset[type]
    """Types of which every value fits: these need no look at the value."""

    def fit(self, value: Any) -> Any:
        """The value; raises `InvalidParamsError` where it does not fit.

        What is of another type, and fits all the same, is given as the declared one where its JSON would differ: a
        dict for a model as the model, True for an int as 1.
        """
        ...


def data_type(returned: Any) -> Any:
    """The type of a result's data by a return annotation; None where that promises nothing.

    `Output[T]` has a T. A `ToolResult` beside other types is how a tool fails, and then there is no data to promise.
    What is attached, may be anything, or is read piece by piece is no promise either.
    """
    if get_origin(returned) is Output:
        return data_type(get_args(returned)[0])
    if get_origin(returned) in (Union, UnionType):
        parts = [one if one is NoneType else data_type(one) for one in get_args(returned) if one is not ToolResult]
        return None if None in parts else Union[tuple(parts)]  # noqa: UP007 - built from values
    if any(returned is one for one in _UNCHECKED) or getattr(get_origin(returned) or returned, "__name__", "") in _LAZY:
        return None
    return returned


def yields_text(returned: Any) -> bool:
    """Whether what a generator yields may be text, by its return annotation: then its pieces are joined."""
    origin = get_origin(returned) or returned
    if getattr(origin, "__name__", "") in _LAZY:
        return any(one in (str, Any, object, Output) for one in _members((get_args(returned) or (Any,))[0]))
    return origin is not list


def typed_output(annotation: Any) -> TypedOutput | None:
    """What values of a return annotation are held to; None where it promises nothing that can be checked."""
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    promised = NoneType if annotation in (None, NoneType) else data_type(annotation)
    if promised is None:
        return None
    try:
        made = TypedOutput(promised)
    except (NameError, PydanticSchemaGenerationError, PydanticUserError):
        return None
    return made if made.has_json_form else None


class TypedOutput:
    """Holds values to a Python type."""

    __slots__ = (
        "_adapter", "_annotation", "_holds_floats", "_holds_instances", "_is_converted", "exact", "has_json_form",
    )  # fmt: skip

    def __init__(self, annotation: Any) -> None:
        members = [NoneType if one is None else one for one in _members(annotation)]
        self.exact = (
            frozenset(cast("list[type]", members))
            if all(any(one is kind for kind in _EXACT) for one in members)
            else frozenset[type]()
        )
        self._annotation = annotation
        self._adapter: Any = None
        self.has_json_form = True
        if not self.exact and annotation is not float:
            self._compile()

    def _compile(self) -> Any:
        if self._adapter is None:
            from pydantic import PydanticUserError, TypeAdapter

            try:
                self._adapter = TypeAdapter(self._annotation, config={"allow_inf_nan": False})
            except PydanticUserError:  # a model, a dataclass or a TypedDict, which has a config of its own
                self._adapter = TypeAdapter(self._annotation)
            # Instances of classes are trusted by pydantic unseen.
            kinds = {str(part.get("type")) for part in parts(self._adapter.core_schema)}
            self.has_json_form = kinds.isdisjoint(("callable", "is-instance", "is-subclass"))
            self._holds_instances = not kinds.isdisjoint(("model", "dataclass"))
            self._holds_floats = "float" in kinds
            self._is_converted: bool | None = True if self._holds_instances else None
        return self._adapter

    def fit(self, value: Any) -> Any:
        if type(value) in self.exact:
            return value
        if self._annotation is float and type(value) is float:
            if isfinite(value):
                return value
            raise InvalidParamsError([out_of_form((), "range", phrase("a finite number"), value)], value)
        if hasattr(value, "__next__"):  # it can be read once, and is read here
            value = list(value)
        adapter = self._compile()
        return value if self._is_of_type(adapter, value) else self._by_json_form(adapter, value)

    def _is_of_type(self, adapter: Any, value: Any) -> bool:
        """Whether Python would call it a value of the type, what instances of classes hold included."""
        if self._holds_floats and not self._holds_instances:
            return False  # pydantic takes much for a float that JSON has no number for, such as a Decimal
        try:
            adapter.validate_python(value, strict=True)
            if self._holds_instances:
                adapter.serializer.to_python(value, mode="json", warnings="error", fallback=plainly)
        except Exception:  # noqa: BLE001 - a class may raise anything; its JSON form is looked at next
            return False
        return True

    def _by_json_form(self, adapter: Any, value: Any) -> Any:
        from pydantic_core import PydanticSerializationError, ValidationError, to_json

        from ferrule.core.validator_errors import ErrorReader

        try:
            text = to_json(value, fallback=plainly, inf_nan_mode="strings")
        except (PydanticSerializationError, ValueError, RecursionError):
            return value  # it has no JSON form, and the formatting says so
        try:
            typed = adapter.validate_json(text, strict=True)
        except ValidationError as error:
            same = None if self._holds_instances else _equal_of_type(adapter, value)
            if same is not None:
                return same
            reader = ErrorReader(adapter.core_schema, _json_schema(adapter))
            raise reader.read(error, text, adapter.validate_json) from None
        except Exception as error:  # noqa: BLE001 - a validator that takes only what it once got; it says nothing of this
            logger.warning("A result was not held to %s, which failed: %r", self._annotation, error)
            return value
        if self._is_converted is None:
            self._is_converted = _json_schema(adapter) != _json_schema(adapter, "serialization")
        return typed if self._is_converted else value


class SchemaOutput:
    """Holds values to a JSON Schema."""

    __slots__ = ("_name", "_params", "_schema", "exact")

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self.exact = frozenset[type]()
        self._name = name
        self._schema = schema
        self._params: SchemaParams | None = None

    def fit(self, value: Any) -> Any:
        from pydantic_core import PydanticSerializationError, to_json

        if self._params is None:
            from ferrule.core.schema_params import SchemaParams

            self._params = SchemaParams(self._name, self._schema)
        try:
            text = to_json(value, fallback=plainly, inf_nan_mode="strings")
        except (PydanticSerializationError, ValueError, RecursionError):
            return value  # it has no JSON form, and the formatting says so
        self._params.load(text)
        return value


def _json_schema(adapter: Any, mode: str = "validation") -> dict[str, Any]:
    """The JSON Schema of what a type reads or writes; empty for a type that has none."""
    from pydantic import PydanticUserError

    try:
        return adapter.json_schema(mode=mode)
    except PydanticUserError:
        return {}


def _equal_of_type(adapter: Any, value: Any) -> Any:
    """The value of the declared type that equals a value, such as 1 for True; None where there is none."""
    try:
        converted = adapter.validate_python(value)
        return converted if bool(converted == value) else None
    except Exception:  # noqa: BLE001 - comparing strange values may raise anything
        return None


def _members(annotation: Any) -> list[Any]:
    """The alternatives of a union, or the annotation alone."""
    if get_origin(annotation) in (Union, UnionType):
        return [one for member in get_args(annotation) for one in _members(member)]
    return [annotation]


def output_schema(returned: Any) -> dict[str, Any] | None:
    """The JSON Schema of a result's data, by a return annotation that says something useful."""
    from pydantic import TypeAdapter

    try:
        promised = data_type(returned)
        if promised is None:
            return None
        if _is_plain(promised):
            return deepcopy(_plain_schema(promised))
        return TypeAdapter(promised).json_schema(mode="serialization", schema_generator=_untitled())
    except Exception:  # a type may fail in any way, and a result does without a schema
        logger.debug("Results of type %s go without a schema", returned, exc_info=True)
        return None


def _is_plain(annotation: Any) -> bool:
    """Whether a type is made of JSON's own types alone, as those of most results are."""
    if get_origin(annotation) in (list, dict):
        return all(map(_is_plain, get_args(annotation)))
    return type(annotation) is type and annotation in (bool, dict, float, int, list, str)


@lru_cache(maxsize=256)
def _plain_schema(promised: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(promised).json_schema(mode="serialization", schema_generator=_untitled())


@cache
def _untitled() -> type[GenerateJsonSchema]:
    """Makes schemas without a title for each field, which only says its name again."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled
