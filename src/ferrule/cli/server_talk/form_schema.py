"""Reads a server's form: a flat schema of texts, numbers, yes or no, one of several and some of several.

Anything else cannot be asked for, and is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.cli.server_talk.fields import Field, Option, text_of
from ferrule.cli.server_talk.talk import one_row
from ferrule.core.schema_params import SchemaParams

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_FIELDS = 50
MOST_CHOICES = 200


class CannotAsk(Exception):  # noqa: N818 - reads as what it says
    """A form that is not flat; the words complete «it was declined: …»."""


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """The fields in the server's order; raises `CannotAsk`."""
    properties: Any = schema.get("properties") or {}
    if not isinstance(properties, dict):
        raise CannotAsk("its form has no fields that can be read")
    named = cast("dict[str, Any]", properties)
    if len(named) > MOST_FIELDS:
        raise CannotAsk(f"its form has more than {MOST_FIELDS} fields")
    required: Any = schema.get("required") or []
    return [_field(name, one, isinstance(required, list) and name in required) for name, one in named.items()]


def _field(name: str, schema: Any, required: bool) -> Field:
    if not isinstance(schema, dict):
        raise CannotAsk(f"the field `{one_row(name, 60)}` of its form cannot be read")
    told = cast("dict[str, Any]", schema)
    checked_by = SchemaParams("form", {"type": "object", "properties": {name: told}, "required": [name]})
    try:
        checked_by.compile()
    except TypeError as error:
        raise CannotAsk(f"the field `{one_row(name, 60)}` of its form cannot be read: {error}") from None
    kind = told.get("type")
    if kind == "array":
        items: Any = told.get("items")
        options = _options(cast("dict[str, Any]", items), "anyOf") if isinstance(items, dict) else ()
        if options:
            return Field(name, "many", told, checked_by, required, options)
    elif options := _options(told, "oneOf"):
        return Field(name, "one", told, checked_by, required, options)
    plain = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}.get(str(kind))
    if plain is None:
        raise CannotAsk(f"the field `{one_row(name, 60)}` of its form is no text, number, yes or no, or choice")
    return Field(name, plain, told, checked_by, required)


def _options(schema: dict[str, Any], titled: str) -> tuple[Option, ...]:
    """The choices in any of the forms that revisions have: `enum`, `enum` with `enumNames`, and const with title."""
    found: list[Option] = []
    named: Any = schema.get(titled) or schema.get("oneOf") or schema.get("anyOf")
    if isinstance(named, list):
        for one in cast("list[Any]", named):
            told = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
            if isinstance(value := told.get("const"), str):
                found.append(Option(value, one_row(text_of(told.get("title")) or value)))
    elif isinstance(listed := schema.get("enum"), list):
        values = [one for one in cast("list[Any]", listed) if isinstance(one, str)]
        names: Any = schema.get("enumNames")
        titles = (
            cast("list[Any]", names)
            if isinstance(names, list) and len(cast("list[Any]", names)) == len(values)
            else values
        )
        found = [Option(value, one_row(text_of(title) or value)) for value, title in zip(values, titles, strict=True)]
    if len(found) > MOST_CHOICES:
        raise CannotAsk(f"its form has a list of more than {MOST_CHOICES} choices")
    return tuple(found)
