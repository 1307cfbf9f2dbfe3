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
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, RootModel

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

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
    return _own_keys if counter is _all_own_keys else lambda params: counter([params])


def _own_keys(params: Any) -> int:
    return len(params.__pydantic_fields_set__)


def _all_own_keys(models: list[Any]) -> int:
    return sum(map(len, map(_given, models)))


def _model(model: type[BaseModel], around: tuple[type, ...]) -> Counter | None:
    if model in around or not _is_plain(model):
        return None
    holding: list[tuple[str, Counter, bool]] = []
    for name, info in model.model_fields.items():
        if _has_no_keys(info.annotation):
            continue
        counter = None if _has_validator(info.metadata) else _holder(info.annotation, (*around, model))
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
    return not issubclass(model, RootModel)


def _has_validator(metadata: list[Any]) -> bool:
    return any(hasattr(one, "__get_pydantic_core_schema__") for one in metadata)
