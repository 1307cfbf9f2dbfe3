"""Alternatives at the root of a schema as the one object that providers ask for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.schemas import Schema, step
from ferrule.core.shown_text import cut, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# What an export could not say in a provider's form, and the words that took its place.


ROOT = "#"


@dataclass(slots=True, frozen=True)
class Loss:
    """One thing that did not survive, where it was, and what was done about it.

    `path` is a JSON Pointer into the tool's schema (`#/properties/tags`), or the field of a result
    (`attachments[0]`).
    """

    tool: str
    path: str
    keyword: str
    what: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.keyword} at {self.path}: {self.what}"


@dataclass(slots=True, frozen=True)
class Exported:
    """A definition in a provider's form, with everything that form could not express."""

    definition: dict[str, Any]
    losses: tuple[Loss, ...] = ()


@dataclass(slots=True, eq=False)
class Ledger:
    """Keeps account of one export: each loss, and the notes that belong in the tool's own description."""

    tool: str
    losses: list[Loss] = field(default_factory=list[Loss])
    notes: list[str] = field(default_factory=list[str])
    bare_arrays: bool = True
    """Whether there may be arrays that do not say what their items are."""

    def fork(self) -> Ledger:
        """A copy to try something on that may have to be given up."""
        return Ledger(self.tool, list(self.losses), list(self.notes), self.bare_arrays)

    def lose(self, path: str, keyword: str, what: str) -> None:
        self.losses.append(Loss(self.tool, path, keyword, what))

    def say(self, path: str, node: dict[str, Any], words: str) -> None:
        """Put words where a model will read them: the node's description, or the tool's for the root."""
        if path == ROOT:
            if words not in self.notes:
                self.notes.append(words)
            return
        described = node.get("description")
        if not isinstance(described, str) or not described:
            node["description"] = words
        elif words not in described:
            node["description"] = f"{described} {words}"


# Where JSON Schema keywords hold further schemas, and how a keyword is said in words.


ONE_SCHEMA = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_MAPS = frozenset({"dependentSchemas", "patternProperties", "properties"})
# In these places `false` means «no more than was listed», which no provider wants written as {"not": {}}.
KEEPS_BOOLEANS = frozenset({
    "additionalItems", "additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
ANNOTATIONS = frozenset({
    "$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly",
})  # fmt: skip
# Of no use to a model, so they leave no words behind.
UNSPOKEN = frozenset({
    "$comment", "contentEncoding", "contentMediaType", "contentSchema", "discriminator", "externalDocs",
    "nullable", "readOnly", "title", "writeOnly", "xml",
})  # fmt: skip

_SENTENCES = {
    "const": "Must be {}.",
    "default": "Default: {}.",
    "dependentRequired": "Fields that need others with them: {}.",
    "enum": "One of: {}.",
    "examples": "Examples: {}.",
    "exclusiveMaximum": "Less than {}.",
    "exclusiveMinimum": "More than {}.",
    "format": "Format: {}.",
    "if": "If it fits {}, further rules apply.",
    "maxItems": "At most {} items.",
    "maxLength": "At most {} characters.",
    "maxProperties": "At most {} fields.",
    "maximum": "At most {}.",
    "minItems": "At least {} items.",
    "minLength": "At least {} characters.",
    "minProperties": "At least {} fields.",
    "minimum": "At least {}.",
    "multipleOf": "A multiple of {}.",
    "not": "Must not fit {}.",
    "oneOf": "Must fit exactly one of {}.",
    "pattern": "Must match the regular expression {}.",
    "patternProperties": "Fields whose names match a pattern: {}.",
    "prefixItems": "Items in this order: {}.",
    "propertyNames": "Field names must fit {}.",
}
_SHORT = 300
_LONG = 10**_SHORT
_LEVELS = 6


def words(keyword: str, value: Any) -> str:
    """A constraint as a sentence for a model; empty where it would say nothing."""
    if keyword in UNSPOKEN or keyword.startswith(("x-", "$")):
        return ""
    if keyword == "default" and value is None:
        return ""
    if keyword == "deprecated":
        return "Deprecated." if value is True else ""
    if keyword == "uniqueItems":
        return "Items must be unique." if value is True else ""
    if keyword == "not" and value == {}:
        return "Must be left out."
    if keyword in ("format", "pattern") and isinstance(value, str):
        return _SENTENCES[keyword].format(f"`{cut(value, _SHORT)}`")
    if keyword in ("enum", "examples") and isinstance(value, list):
        return _SENTENCES[keyword].format(cut(", ".join(brief(one) for one in cast("list[Any]", value)[:100]), _SHORT))
    sentence = _SENTENCES.get(keyword)
    if sentence is None:
        return f"{cut(keyword, _SHORT)}: {brief(value)}."
    if value == 1 and sentence.endswith("s."):
        sentence = sentence.removesuffix("s.") + "."
    return sentence.format(brief(value))


def brief(value: Any) -> str:
    """JSON text of anything, short enough for a sentence; never fails, however deep or odd the value."""
    return cut(_text(value, _LEVELS), _SHORT)


def _text(value: Any, levels: int) -> str:
    if isinstance(value, (dict, list)) and not levels:
        return "…"
    if isinstance(value, dict):
        fields = list(cast("dict[Any, Any]", value).items())[:20]
        return "{" + _joined(f"{_text(str(key), 0)}: {_text(one, levels - 1)}" for key, one in fields) + "}"
    if isinstance(value, list):
        return "[" + _joined(_text(one, levels - 1) for one in cast("list[Any]", value)[:20]) + "]"
    if isinstance(value, str):
        return quoted(cut(value, _SHORT))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) >= _LONG:
        return f"(a number of more than {_SHORT} digits)"
    return repr(value) if isinstance(value, (int, float)) else f"({type(value).__name__})"


def _joined(parts: Iterable[str]) -> str:
    """As many parts as a sentence has room for; the others are never made."""
    taken: list[str] = []
    length = 0
    for part in parts:
        taken.append(part)
        length += len(part)
        if length > _SHORT:
            break
    return ", ".join(taken)


# Several schemas that all hold (`allOf`) as one.


# These mean something only together with their neighbours, so two sets of them are never mixed.
_LINKED = (
    frozenset({"contains", "maxContains", "minContains"}),
    frozenset({"else", "if", "then"}),
    frozenset({"items", "prefixItems"}),
)
_APART = frozenset({"additionalProperties", "unevaluatedItems", "unevaluatedProperties"}).union(*_LINKED)
_HIGHEST = frozenset({"exclusiveMinimum", "minItems", "minLength", "minProperties", "minimum"})
_LOWEST = frozenset({"exclusiveMaximum", "maxItems", "maxLength", "maxProperties", "maximum"})
_MAPS = frozenset({"dependentSchemas", "patternProperties", "properties"})
_TYPES = {"integer": {"integer"}, "number": {"integer", "number"}}


def merge_all_of(node: Schema, path: str, ledger: Ledger) -> Schema:
    """A node with its `allOf` folded into it; what does not fit together is widened and reported."""
    parts = node.get("allOf")
    if not isinstance(parts, list):
        return node
    own = {key: value for key, value in node.items() if key != "allOf"}
    inner = [merge_all_of(part, step(path, "allOf", at), ledger) for at, part in enumerate(cast("list[Schema]", parts))]
    return merge([own, *inner], path, ledger)


def merge(schemas: Sequence[Schema], path: str, ledger: Ledger) -> Schema:
    """One schema that accepts at least everything that all of these accept."""
    schemas = [schema for schema in schemas if schema]
    if len(schemas) < 2:
        return dict(schemas[0]) if schemas else {}
    merged: Schema = {}
    for schema in schemas:
        for key, value in schema.items():
            if key in _APART:
                continue
            merged[key] = _both(key, merged[key], value, path, ledger, merged) if key in merged else value
        for linked in _LINKED:
            _add_linked(merged, {key: schema[key] for key in linked if key in schema}, linked, path, ledger)
        for key in ("unevaluatedItems", "unevaluatedProperties"):
            if key in schema:
                ledger.lose(path, key, "has no meaning once several schemas are merged; left out")
    _close(merged, schemas, path, ledger)
    return merged


def _close(merged: Schema, schemas: Sequence[Schema], path: str, ledger: Ledger) -> None:
    """`additionalProperties` counts the fields beside it alone; once merged it counts them all."""
    closing = [schema for schema in schemas if schema.get("additionalProperties", True) not in (True, {})]
    if not closing:
        return
    limits = [schema["additionalProperties"] for schema in closing]
    merged["additionalProperties"] = (
        False if False in limits else merge(limits, step(path, "additionalProperties"), ledger)
    )
    every = _fields(merged)
    if any(_fields(schema) != every for schema in closing):
        ledger.lose(path, "additionalProperties", "widened when several objects were merged into one")


def _fields(schema: Schema) -> set[tuple[str, str]]:
    return {(kind, key) for kind in ("properties", "patternProperties") for key in schema.get(kind, ())}


def _add_linked(merged: Schema, theirs: Schema, linked: frozenset[str], path: str, ledger: Ledger) -> None:
    ours = {key: merged[key] for key in linked if key in merged}
    if not theirs or ours == theirs:
        return
    if not ours:
        merged.update(theirs)
    elif (
        ours.keys() == theirs.keys() == {"items"}
        and isinstance(ours["items"], dict)
        and isinstance(theirs["items"], dict)
    ):
        both = [cast("Schema", ours["items"]), cast("Schema", theirs["items"])]
        merged["items"] = merge(both, step(path, "items"), ledger)
    else:
        for key, value in theirs.items():
            _keep_first(key, value, path, ledger, merged)


def _both(key: str, ours: Any, theirs: Any, path: str, ledger: Ledger, merged: Schema) -> Any:
    """What two values of one keyword come to when both hold."""
    if ours == theirs:
        return ours
    if key in _MAPS:
        inner = step(path, key)
        return {
            **ours,
            **{
                name: merge([ours[name], one], step(inner, name), ledger) if name in ours else one
                for name, one in theirs.items()
            },
        }
    if key == "required":
        return list(dict.fromkeys([*ours, *theirs]))
    if key == "not":
        return {"anyOf": [ours, theirs]}
    if key == "propertyNames":
        return merge([ours, theirs], step(path, key), ledger)
    if key == "uniqueItems":
        return bool(ours or theirs)
    if key in _HIGHEST and _numbers(ours, theirs):
        return max(ours, theirs)
    if key in _LOWEST and _numbers(ours, theirs):
        return min(ours, theirs)
    if key == "type":
        mine, other = _types(ours), _types(theirs)
        if shared := [one for one in dict.fromkeys([*mine, *other]) if _covers(mine, one) and _covers(other, one)]:
            return shared[0] if len(shared) == 1 else shared
    if key == "enum" and (shared := [one for one in ours if one in theirs]):
        return shared
    if key == "description" and isinstance(ours, str) and isinstance(theirs, str):
        return ours if theirs in ours else f"{ours} {theirs}"
    _keep_first(key, theirs, path, ledger, merged)
    return ours


def _keep_first(key: str, theirs: Any, path: str, ledger: Ledger, merged: Schema) -> None:
    if key == "title":
        return
    if key not in ANNOTATIONS and (said := words(key, theirs)):
        ledger.say(path, merged, said)
    ledger.lose(path, key, "two of them hold at once; the second was moved into the description")


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _types(said: Any) -> list[str]:
    return cast("list[str]", said) if isinstance(said, list) else [said]


def _covers(types: list[str], one: str) -> bool:
    return any(one in _TYPES.get(each, {each}) for each in types)


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
        if "object" in _types(form.get("type", "object"))
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
