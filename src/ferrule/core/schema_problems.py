"""Turns a JSON Schema validator's errors into problems a model can act on, worded as for typed tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import joined, phrase
from ferrule.core.problems import (
    SHOWN,
    PathPart,
    Problem,
    against_rule,
    missing_field,
    or_list,
    out_of_form,
    show,
    too_few,
    too_many,
    unknown_field,
    wrong_choice,
    wrong_key,
    wrong_type,
)
from ferrule.core.wording import choices_of, example_of, hint, kind_of, union_problems, value_form

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jsonschema_rs import ValidationError

MAX_PROBLEMS = 20
_UNIONS_READ = 8
"""Unions within unions that are still looked into."""

Path = tuple[PathPart, ...]


def problems_of(errors: Iterable[ValidationError], value: Any, schema: Any, unions: int = 0) -> list[Problem]:
    """Every problem once, in the order of the schema; after the first twenty only how many more there are.

    `unions` counts the unions that these errors lie in.
    """
    found: dict[tuple[Path, str, str], Problem] = {}
    for error in errors:
        for problem in _read(error, value, schema, unions):
            found.setdefault((problem.path, problem.code, problem.message), problem)
    problems = list(found.values())
    if len(problems) > MAX_PROBLEMS:
        rest = len(problems) - MAX_PROBLEMS
        said = phrase("and {rest} more problems; these are the first {shown}", rest=rest, shown=MAX_PROBLEMS)
        problems[MAX_PROBLEMS:] = [Problem((), "limit", said)]
    return problems


def _read(error: ValidationError, value: Any, schema: Any, unions: int) -> list[Problem]:
    kind: Any = error.kind
    path = _true_path(error.instance_path, value)
    name = type(kind).__name__
    if name in ("AnyOf", "OneOfNotValid"):
        return _union(error, path, cast("list[list[ValidationError]]", kind.context), value, schema, unions)
    if name in ("AdditionalProperties", "UnevaluatedProperties"):
        parent = _beside(error, schema)
        return [_unknown(path, field, parent, value) for field in kind.unexpected]
    if name == "FalseSchema":
        return _forbidden(error, path, value, schema)
    if name == "Required":
        return [_missing(error, path, schema)]
    if name == "PropertyNames":
        inner = _read(kind.error, kind.error.instance, schema, unions)[0]
        return [wrong_key(path, kind.error.instance, inner.rule or inner.message)]
    if name == "Type":
        types = tuple(sorted(kind.types))
        return [wrong_type(path, types, _at(path, value), _shape(types, error, schema) if path else "")]
    if name in WORDS:
        return [WORDS[name](kind, path, _at(path, value))]
    rule = phrase("does not fit the schema's `{keyword}`", keyword=_keyword(error))
    return [against_rule(path, "value", rule, _at(path, value))]


def _keyword(error: ValidationError) -> str:
    return str(error.schema_path[-1])[:60] if error.schema_path else "rules"


def _shape(types: tuple[str, ...], error: ValidationError, schema: Any) -> str:
    """`object {"name": string}`, where the schema tells more than the type."""
    return kind_of(_beside(error, schema), _dict(schema)) if types in (("object",), ("array",)) else ""


def _missing(error: ValidationError, path: Path, schema: Any) -> Problem:
    field: str = cast("Any", error.kind).property
    root = _dict(schema)
    prop = _dict(_dict(_beside(error, schema).get("properties")).get(field))
    return missing_field((*path, field), hint(prop, root), choices_of(prop, root))


def _unknown(path: Path, field: str, parent: dict[str, Any], value: Any) -> Problem:
    given = [name for name in cast("dict[str, Any]", _at(path, value)) if name != field]
    return unknown_field((*path, field), list(_dict(parent.get("properties"))), given)


def _forbidden(error: ValidationError, path: Path, value: Any, schema: Any) -> list[Problem]:
    """A `false` schema: the validator names the object, not the field, where no field at all is allowed."""
    here = _at(path, value)
    if error.schema_path and error.schema_path[-1] == "additionalProperties" and isinstance(here, dict):
        parent = _beside(error, schema)
        known = _dict(parent.get("properties"))
        return [_unknown(path, field, parent, value) for field in cast("dict[str, Any]", here) if field not in known]
    if path and isinstance(path[-1], int):
        return [Problem(path, "length", phrase("one item too many; nothing may stand here"))]
    return [Problem(path, "unknown", phrase("not allowed here") if path else phrase("no arguments are allowed"))]


def _union(
    error: ValidationError, path: Path, branches: list[list[ValidationError]], value: Any, schema: Any, unions: int
) -> list[Problem]:
    """None of several forms fits: speak of the form that was meant, where that is clear."""
    if unions == _UNIONS_READ:
        return [Problem(path, "union", phrase("fits none of the {count} forms allowed here", count=len(branches)))]
    forms = [problems_of(errors, value, schema, unions + 1) for errors in branches]
    listed: Any = _beside(error, schema).get(_keyword(error))
    options = cast("list[Any]", listed) if isinstance(listed, list) else []

    def shape(at: int) -> str:
        form = value_form(_dict(options[at]), _dict(schema)) if len(options) == len(forms) else ""
        return form if form not in ("any", "object") else ""

    return union_problems(path, forms, _at(path, value), shape)


def _twins(value: Any) -> str:
    from pydantic_core import to_json

    seen: dict[bytes, int] = {}
    for position, item in enumerate(cast("list[Any]", value)[:10_000]):
        first = seen.setdefault(to_json(item), position)
        if first != position:
            return phrase(
                "items must all be different; {first} and {second} are equal",
                first=f"[{first}]",
                second=f"[{position}]",
            )
    return phrase("items must all be different")


def _ruled_out(kind: Any, path: Path, value: Any) -> Problem:
    ruled = _dict(kind.schema)
    options: list[Any] = ruled["enum"] if "enum" in ruled else [ruled["const"]] if "const" in ruled else []
    if options:
        forms = or_list([show(one) for one in options[:SHOWN]])
        return Problem(path, "value", phrase("must not be {forms}", forms=forms))
    if set(ruled) == {"required"} and isinstance(value, dict):
        fields = joined(" together with ", [f"`{one}`" for one in ruled["required"]])
        return Problem(path, "value", phrase("must not have {fields}", fields=fields))
    return against_rule(path, "value", phrase("has a form that is ruled out here"), value)


Words = Callable[[Any, Path, Any], Problem]


def _too_few(unit: str) -> Words:
    return lambda kind, path, value: too_few(path, unit, kind.limit, len(value))


def _too_many(unit: str) -> Words:
    return lambda kind, path, value: too_many(path, unit, kind.limit, len(value))


def _bound(form: Callable[[str], str]) -> Words:
    return lambda kind, path, value: out_of_form(path, "range", form(show(kind.limit)), value)


def _said(code: str, words: str) -> Words:
    return lambda kind, path, value: Problem(path, code, words)


TOO_HARD = phrase("takes too long to match against the schema's pattern. Send a shorter or simpler text")
_TWO_FIT = phrase("fits more than one of the forms allowed here; exactly one must fit")
_CONTAINS = phrase("too few or too many of its items are of the kind it must contain")

WORDS: dict[str, Words] = {
    "Enum": lambda kind, path, value: wrong_choice(path, kind.options, value),
    "Constant": lambda kind, path, value: wrong_choice(path, [kind.expected_value], value),
    "Minimum": _bound(lambda bound: phrase("at least {ge}", ge=bound)),
    "Maximum": _bound(lambda bound: phrase("at most {le}", le=bound)),
    "ExclusiveMinimum": _bound(lambda bound: phrase("more than {gt}", gt=bound)),
    "ExclusiveMaximum": _bound(lambda bound: phrase("less than {lt}", lt=bound)),
    "MultipleOf": lambda kind, path, value: out_of_form(
        path, "range", phrase("a multiple of {multiple_of}", multiple_of=kind.multiple_of), value
    ),
    "MinLength": _too_few("character"),
    "MaxLength": _too_many("character"),
    "MinItems": _too_few("item"),
    "MaxItems": _too_many("item"),
    "AdditionalItems": _too_many("item"),
    "MinProperties": _too_few("field"),
    "MaxProperties": _too_many("field"),
    "UnevaluatedItems": lambda kind, path, value: Problem(
        path, "length", phrase("items not allowed: {items}", items=_cut(kind.unexpected))
    ),
    "UniqueItems": lambda kind, path, value: Problem(path, "value", _twins(value)),
    "Contains": _said("value", _CONTAINS),
    "Pattern": lambda kind, path, value: against_rule(
        path, "format", phrase("must match {pattern}", pattern=show(kind.pattern, 200)), value
    ),
    "Format": lambda kind, path, value: out_of_form(path, "format", example_of(kind.format), value),
    "ContentEncoding": lambda kind, path, value: out_of_form(
        path, "format", phrase("{encoding} text", encoding=kind.content_encoding), value
    ),
    "ContentMediaType": lambda kind, path, value: against_rule(
        path, "format", phrase("must hold text of the type {type}", type=kind.content_media_type), value
    ),
    "FromUtf8": _said("format", phrase("holds encoded bytes that are not UTF-8 text")),
    "Not": _ruled_out,
    "OneOfMultipleValid": _said("union", _TWO_FIT),
    "BacktrackLimitExceeded": _said("limit", TOO_HARD),
    "RegexEngineFailure": _said("limit", TOO_HARD),
    "Referencing": _said(
        "value", phrase("cannot be checked: the tool's schema refers to a document that is not there")
    ),
    "Custom": _said("value", phrase("does not fit a rule of the tool's own")),
}
"""The validator's findings whose words need only themselves and the value."""
WORDED = frozenset(WORDS) | {
    "AnyOf", "OneOfNotValid", "AdditionalProperties", "UnevaluatedProperties", "FalseSchema", "Required",
    "PropertyNames", "Type",
}  # fmt: skip
"""Every finding that has words of ours."""


def _cut(texts: Iterable[Any]) -> str:
    return ", ".join(str(text)[:60] for text in list(texts)[:SHOWN])


def _true_path(parts: Iterable[PathPart], value: Any) -> Path:
    """The validator gives a field named `0` as a number; keep what leads through the value."""
    path: list[PathPart] = []
    here = value
    for part in parts:
        step = part if isinstance(here, list) else str(part)
        try:
            here = cast("Any", here)[step]
        except (KeyError, IndexError, TypeError):
            break
        path.append(step)
    return tuple(path)


def _at(path: Path, value: Any) -> Any:
    for part in path:
        value = value[part]
    return value


def _beside(error: ValidationError, schema: Any) -> dict[str, Any]:
    """The subschema that holds the keyword which failed; empty where it lies in another document."""
    here = schema
    for part in error.schema_path[:-1]:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            return {}
    return _dict(here)


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
