"""How many keys the JSON text of some parameters must have held, told from the parameters themselves.

Every key in JSON text has a colon. Where there are as many colons as keys were read, no key stood twice and nothing was
passed over, which spares the validation a second parse. The count is never more than the keys that were there: a model
that could make it so, with a validator of its own, say, is not counted at all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, RootModel

Counter = Callable[[Any], int]

_SCALARS = frozenset({
    str, int, float, bool, bytes, NoneType, date, datetime, time, timedelta, Decimal, UUID, Path,
})  # fmt: skip


def key_counter(model: type[BaseModel]) -> Counter | None:
    """What counts the keys of a model's instances; None where that cannot be told."""
    return _model(model, ())


def _model(model: type[BaseModel], around: tuple[type, ...]) -> Counter | None:
    if model in around or not _is_plain(model):
        return None
    holding: list[tuple[str, Counter]] = []
    for name, info in model.model_fields.items():
        if _is_scalar(info.annotation):
            continue
        counter = None if _has_validator(info.metadata) else _holder(info.annotation, (*around, model))
        if counter is None:
            return None
        holding.append((name, counter))
    if not holding:
        return _own_keys

    def count(params: Any) -> int:
        given = params.__pydantic_fields_set__
        values = params.__dict__
        return len(given) + sum(counter(values[name]) for name, counter in holding if name in given)

    return count


def _own_keys(params: Any) -> int:
    return len(params.__pydantic_fields_set__)


def _holder(annotation: Any, around: tuple[type, ...]) -> Counter | None:
    """What counts the keys inside a value that is not a scalar."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model(annotation, around)
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is list:
        inner = _inner(members[0], around)
        return None if inner is None else lambda values: sum(map(inner, values))
    if origin is dict and members[0] is str:
        inner = _inner(members[1], around)
        return None if inner is None else lambda values: len(values) + sum(map(inner, values.values()))
    if origin in (Union, UnionType):
        kinds = [member for member in members if member is not NoneType]
        inner = _inner(kinds[0], around) if len(kinds) == 1 else None
        return None if inner is None else lambda value: 0 if value is None else inner(value)
    return None


def _inner(annotation: Any, around: tuple[type, ...]) -> Counter | None:
    return _nothing if _is_scalar(annotation) else _holder(annotation, around)


def _nothing(_: Any) -> int:
    return 0


def _is_scalar(annotation: Any) -> bool:
    """Whether no value of this type is an object or holds one."""
    if annotation in _SCALARS:
        return True
    if isinstance(annotation, type):
        return issubclass(annotation, Enum)
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_scalar(members[0])
    return origin is Literal or (origin in (Union, UnionType) and all(map(_is_scalar, members)))


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
    return not issubclass(model, RootModel)


def _has_validator(metadata: list[Any]) -> bool:
    return any(hasattr(one, "__get_pydantic_core_schema__") for one in metadata)
