"""Alternatives at the root of a schema as the one object that providers ask for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from ferrule.dialects.keywords import brief, words
from ferrule.dialects.losses import step
from ferrule.dialects.merge import merge

if TYPE_CHECKING:
    from ferrule.dialects.losses import Ledger

Schema = dict[str, Any]

_NOT_AT_THE_ROOT = ("not", "enum", "const")
_OF_OBJECTS = ("additionalProperties", "description", "properties", "required", "title", "type")
_MOST_FORMS = 12


def flatten_root(schema: Schema, path: str, ledger: Ledger) -> Schema:
    """A root that is one plain object. Arguments are always an object, so that much may be said."""
    flat = {"type": "object", **flatten_object(schema, path, ledger)}
    flat["type"] = "object"
    for keyword in _NOT_AT_THE_ROOT:
        if keyword in flat:
            if said := words(keyword, flat.pop(keyword)):
                ledger.say(path, flat, said)
            ledger.lose(path, keyword, "not allowed at the root; moved into the description")
    flat.setdefault("properties", {})
    return flat


def flatten_object(schema: Schema, path: str, ledger: Ledger) -> Schema:
    """One object for an object schema with `allOf`, `anyOf` or `oneOf` beside its properties.

    All properties of all alternatives; required is what every alternative requires.
    """
    parts = [{key: value for key, value in schema.items() if key not in ("allOf", "anyOf", "oneOf")}]
    for at, part in enumerate(_schemas(schema, "allOf")):
        parts.append(flatten_object(part, step(path, "allOf", at), ledger))
    parts += [
        _either(_schemas(schema, keyword), keyword, path, ledger) for keyword in ("anyOf", "oneOf") if keyword in schema
    ]
    return merge(parts, path, ledger)


def _schemas(schema: Schema, keyword: str) -> list[Schema]:
    return cast("list[Schema]", schema.get(keyword, []))


def _either(alternatives: list[Schema], keyword: str, path: str, ledger: Ledger) -> Schema:
    """One object that accepts whatever any of the alternatives accepts."""
    forms = [
        flatten_object(form, step(path, keyword, at), ledger)
        for at, form in enumerate(alternatives)
        if _can_be_object(form)
    ]
    if not forms:
        ledger.lose(path, keyword, "no alternative is an object; left out")
        return {}
    if len(forms) == 1:
        return forms[0]
    either: Schema = {}
    if fields := _any_of_properties(forms, path, ledger):
        either["properties"] = fields
    shared = set(_required(forms[0])).intersection(*(_required(form) for form in forms[1:]))
    either["required"] = [name for name in _required(forms[0]) if name in shared]
    if all(_closed(form) for form in forms):
        either["additionalProperties"] = False
    left_out = sorted({key for form in forms for key in form if key not in _OF_OBJECTS})
    also = f" (without {', '.join(left_out)})" if left_out else ""
    ledger.say(path, either, _in_words(forms, keyword))
    ledger.lose(path, keyword, f"made one object with the properties of all alternatives{also}")
    return either


def _any_of_properties(forms: list[Schema], path: str, ledger: Ledger) -> Schema:
    found: dict[str, list[Schema]] = {}
    known_to_open: Counter[str] = Counter()
    is_open = [not _closed(form) for form in forms]
    for form, opened in zip(forms, is_open, strict=True):
        for name, one in _properties(form).items():
            known = found.setdefault(name, [])
            if len(known) <= _MOST_FORMS and one not in known:
                known.append(one)
            known_to_open[name] += opened
    open_forms = sum(is_open)
    merged: Schema = {}
    for name, known in found.items():
        # A form that does not know the property and is open accepts anything under its name.
        if known_to_open[name] < open_forms or len(known) > _MOST_FORMS:
            merged[name] = _loose(known, step(path, "properties", name), ledger)
        else:
            merged[name] = known[0] if len(known) == 1 else {"anyOf": known}
    return merged


def _loose(known: list[Schema], here: str, ledger: Ledger) -> Schema:
    """Anything at all, with what is usual said in words."""
    loose: Schema = {}
    for one in known:
        if isinstance(said := one.get("description"), str):
            ledger.say(here, loose, said)
        rest = {key: value for key, value in one.items() if key != "description"}
        if rest:
            ledger.say(here, loose, f"Usually {brief(rest)}.")
            ledger.lose(here, "type", "another form accepts anything here; moved into the description")
    return loose


def _can_be_object(form: Schema) -> bool:
    said = form.get("type", "object")
    return said == "object" or (isinstance(said, list) and "object" in said)


def _closed(form: Schema) -> bool:
    return form.get("additionalProperties") is False and "patternProperties" not in form


def _properties(form: Schema) -> Schema:
    return form.get("properties", {})


def _required(form: Schema) -> list[str]:
    return form.get("required", [])


def _in_words(forms: list[Schema], keyword: str) -> str:
    told = [_form_in_words(form) for form in forms[:_MOST_FORMS]]
    more = [f"{len(forms) - _MOST_FORMS} more"] if len(forms) > _MOST_FORMS else []
    count = "exactly one" if keyword == "oneOf" else "at least one"
    return f"The fields must fit {count} of these forms: " + "; ".join([*told, *more]) + "."


def _form_in_words(form: Schema) -> str:
    needed = [f"`{name}`{_fixed(_properties(form).get(name, {}))}" for name in _required(form)]
    optional = [f"`{name}`" for name in _properties(form) if name not in _required(form)]
    if not needed and not optional:
        return "anything else" if not _closed(form) else "no fields"
    said = " and ".join(needed) if needed else "no required field"
    return f"{said} (optional: {', '.join(optional)})" if optional else said


def _fixed(schema: Schema) -> str:
    """What tells one form from another is mostly one field with one value."""
    if "const" in schema:
        return f" = {brief(schema['const'])}"
    values = schema.get("enum")
    return f" = {brief(values[0])}" if isinstance(values, list) and len(cast("list[Any]", values)) == 1 else ""
