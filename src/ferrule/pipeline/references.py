"""Chains (P8): an argument may be another call's result, `{"$ref": "call_1.path[0]"}`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.nearest import nearest
from ferrule.core.phrases import phrase
from ferrule.core.result import plainly
from ferrule.core.schema_walk import schema_at
from ferrule.core.tool import output_schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferrule.core.problems import PathPart
    from ferrule.core.tool import Tool

_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")


class Reference:
    """One reference: where it stands in the arguments, whose result it means, and which part of it."""

    __slots__ = ("path", "place", "source", "text")

    def __init__(self, place: tuple[PathPart, ...], text: str, source: str, path: tuple[PathPart, ...]) -> None:
        self.place = place
        self.text = text
        self.source = source
        self.path = path


def find_references(arguments: Any, known: Iterable[str]) -> list[Reference]:
    """Every reference in the arguments; raises `Stopped` for one that names no earlier call.

    What looks like a JSON Schema's own `$ref` (`#/…`, a URL) is left alone.
    """
    names = sorted(known, key=len, reverse=True)
    found: list[Reference] = []
    _walk(arguments, (), names, found)
    return found


def _walk(value: Any, place: tuple[PathPart, ...], names: list[str], found: list[Reference]) -> None:
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        target = mapping.get("$ref")
        if len(mapping) == 1 and isinstance(target, str) and "/" not in target and "#" not in target:
            found.append(_read(target, place, names))
            return
        for key, item in mapping.items():
            _walk(item, (*place, key), names, found)
    elif isinstance(value, list):
        for position, item in enumerate(cast("list[Any]", value)):
            _walk(item, (*place, position), names, found)


def _read(text: str, place: tuple[PathPart, ...], names: list[str]) -> Reference:
    for name in names:
        rest = text[len(name) :]
        if text.startswith(name) and (not rest or rest[0] in ".["):
            steps = list(_STEP.finditer(rest))
            if "".join(step[0] for step in steps) != rest:
                raise _broken(text, phrase("`{rest}` is not a path like `.field[0]`", rest=rest))
            path = tuple(step[1] if step[1] is not None else int(step[2]) for step in steps)
            return Reference(place, text, name, path)
    wanted = re.split(r"[.\[]", text, maxsplit=1)[0]
    close = nearest(wanted, names)
    hint = (
        phrase("Did you mean `{other}`?", other=close[0])
        if close
        else phrase("A call can use only the results of calls before it.")
    )
    raise _broken(text, phrase("no earlier call has the id `{wanted}`", wanted=wanted), hint)


def check_against_output(reference: Reference, tool: Tool[Any]) -> None:
    """Stop a reference to a field that the earlier tool's typed result does not have."""
    schema = output_schema_of(tool)
    if schema is None:
        return
    for depth in range(len(reference.path)):
        parent = schema_at(reference.path[:depth], schema)
        part = reference.path[depth]
        properties = parent.get("properties")
        if isinstance(part, str) and properties and part not in properties and not parent.get("additionalProperties"):
            close = nearest(part, properties)
            fields = ", ".join(f"`{name}`" for name in properties)
            hint = (
                phrase("Did you mean `{other}`?", other=close[0])
                if close
                else phrase("It has: {fields}.", fields=fields)
            )
            raise _broken(
                reference.text, phrase("the result of `{name}` has no `{part}`", name=tool.name, part=part), hint
            )
        if parent.get("type") in ("string", "integer", "number", "boolean", "null"):
            raise _broken(
                reference.text,
                phrase("the result of `{name}` is a plain {kind} there", name=tool.name, kind=parent["type"]),
            )


def resolve(arguments: Any, references: Iterable[Reference], values: Mapping[str, Any]) -> Any:
    """The arguments with every reference replaced by what it means."""
    from pydantic_core import to_jsonable_python

    result = arguments
    for reference in references:
        value = to_jsonable_python(values[reference.source], fallback=plainly)
        for part in reference.path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                raise _broken(reference.text, phrase("the result has no `{part}` there", part=part)) from None
        result = _replaced(result, reference.place, value)
    return result


def _replaced(value: Any, place: tuple[PathPart, ...], new: Any) -> Any:
    if not place:
        return new
    copied: Any = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else list(value)
    copied[place[0]] = _replaced(copied[place[0]], place[1:], new)
    return copied


def ambiguous(reference: Reference) -> Stopped:
    """The early exit of a call that refers to an id which two earlier calls have."""
    return _broken(
        reference.text,
        phrase("two earlier calls have the id `{source}`", source=reference.source),
        phrase("Give every call its own id."),
    )


def _broken(text: str, why: str, hint: str | None = None) -> Stopped:
    return Stopped(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        phrase('The reference {{"$ref": "{text}"}} cannot be used: {why}.', text=text, why=why),
        hint,
    )
