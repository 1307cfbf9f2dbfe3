"""Lets people write `typing.TypedDict` on Python 3.11, where pydantic takes only the one of typing_extensions."""

from __future__ import annotations

import sys
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints, is_typeddict


def understood(annotation: Any, seen: dict[Any, Any] | None = None) -> Any:
    """The same type in a form pydantic takes; nothing changes from Python 3.12 on."""
    if sys.version_info >= (3, 12):
        return annotation
    seen = {} if seen is None else seen
    if is_typeddict(annotation) and type(annotation).__module__ == "typing":
        return _rebuilt(annotation, seen)
    arguments = get_args(annotation)
    if not arguments:
        return annotation
    origin = get_origin(annotation)
    if origin is Annotated:
        inner = understood(arguments[0], seen)
        return annotation if inner is arguments[0] else Annotated[(inner, *arguments[1:])]
    changed = tuple(understood(one, seen) if isinstance(one, type) or get_args(one) else one for one in arguments)
    if changed == arguments:
        return annotation
    if origin is UnionType:
        return Union[changed]  # noqa: UP007 - built from values
    return annotation.copy_with(changed) if hasattr(annotation, "copy_with") else origin[changed]


def _rebuilt(annotation: Any, seen: dict[Any, Any]) -> Any:
    from typing import NotRequired

    from typing_extensions import TypedDict

    if annotation in seen:
        return seen[annotation]
    seen[annotation] = annotation  # a type that holds itself stays as it is inside
    hints = get_type_hints(annotation, include_extras=True)
    fields = {
        name: understood(hint, seen) if name in annotation.__required_keys__ else NotRequired[understood(hint, seen)]
        for name, hint in hints.items()
    }
    rebuilt = cast("Any", TypedDict)(annotation.__name__, fields)
    rebuilt.__doc__ = annotation.__doc__
    rebuilt.__module__ = annotation.__module__
    seen[annotation] = rebuilt
    return rebuilt
