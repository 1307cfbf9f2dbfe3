"""Turns a JSON Schema validator's errors into problems a model can act on, worded as for typed tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.core.nearest import nearest
from ferrule.core.problems import PathPart, Problem, format_path, got, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jsonschema_rs import ValidationError

MAX_PROBLEMS = 20
_SHOWN = 12
_FORMS_SHOWN = 3
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
        problems[MAX_PROBLEMS:] = [
            Problem((), "limit", f"and {rest} more problems; these are the first {MAX_PROBLEMS}")
        ]
    return problems


def _read(error: ValidationError, value: Any, schema: Any, unions: int) -> list[Problem]:
    kind: Any = error.kind
    path = _true_path(error.instance_path, value)
    name = type(kind).__name__
    if name in ("AnyOf", "OneOfNotValid"):
        return _union(path, cast("list[list[ValidationError]]", kind.context), value, schema, unions)
    if name in ("AdditionalProperties", "UnevaluatedProperties"):
        parent = _beside(error, schema)
        return [_unknown(path, field, parent) for field in kind.unexpected]
    if name == "FalseSchema":
        return _forbidden(error, path, value, schema)
    if name == "Required":
        return [_missing(error, path, schema)]
    if name in _SIMPLE:
        code, words = _SIMPLE[name]
        return [Problem(path, code, words(kind, _at(path, value)))]
    if name == "PropertyNames":
        inner = _read(kind.error, kind.error.instance, schema, unions)
        return [Problem(path, "unknown", f"{show(kind.error.instance)} cannot be a field name: {inner[0].message}")]
    if name == "Type":
        types = tuple(sorted(kind.types))
        return [Problem(path, "type", f"expected {_or(types)}, got {got(_at(path, value))}", types)]
    return [Problem(path, "value", str(error.message)[:200])]


def _missing(error: ValidationError, path: Path, schema: Any) -> Problem:
    field: str = cast("Any", error.kind).property
    beside = _beside(error, schema)
    prop = _follow(_dict(beside.get("properties")).get(field), schema)
    return Problem((*path, field), "missing", "required, but missing" + _hint(prop))


def _hint(prop: dict[str, Any]) -> str:
    """What a missing field should hold."""
    said: Any = prop.get("type") or [_dict(one).get("type") for one in prop.get("anyOf", [])]
    kinds = cast("list[Any]", said) if isinstance(said, list) else [said]
    kind = " or ".join(str(one) for one in kinds if one)
    if isinstance(prop.get("enum"), list):
        kind = "one of " + ", ".join(show(choice) for choice in prop["enum"][:_SHOWN])
    about = prop.get("description", "")
    if kind and about:
        return f" (expected {kind}: {about})"
    return f" (expected {kind})" if kind else ""


def _unknown(path: Path, field: str, parent: dict[str, Any]) -> Problem:
    known = list(_dict(parent.get("properties")))
    if close := nearest(field, known, most=1):
        return Problem((*path, field), "unknown", f"unknown field. Did you mean `{close[0]}`?")
    fields = ", ".join(f"`{one}`" for one in known[:_SHOWN])
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return Problem(
        (*path, field),
        "unknown",
        f"unknown field. Known fields: {fields}{more}" if known else "unknown field. It takes none",
    )


def _forbidden(error: ValidationError, path: Path, value: Any, schema: Any) -> list[Problem]:
    """A `false` schema: the validator names the object, not the field, where no field at all is allowed."""
    here = _at(path, value)
    if error.schema_path and error.schema_path[-1] == "additionalProperties" and isinstance(here, dict):
        parent = _beside(error, schema)
        known = _dict(parent.get("properties"))
        return [_unknown(path, field, parent) for field in cast("dict[str, Any]", here) if field not in known]
    if path and isinstance(path[-1], int):
        return [Problem(path, "length", "one item too many; nothing may stand here")]
    return [Problem(path, "unknown", "not allowed here" if path else "no arguments are allowed")]


def _union(path: Path, branches: list[list[ValidationError]], value: Any, schema: Any, unions: int) -> list[Problem]:
    """None of several forms fits: speak of the form that was meant, where that is clear."""
    none_fits = f"fits none of the {len(branches)} forms allowed here"
    if unions == _UNIONS_READ:
        return [Problem(path, "union", none_fits)]
    forms = [problems_of(errors, value, schema, unions + 1) for errors in branches]
    meant = _of_right_kind(path, forms)
    if not meant:
        return [_merged(path, forms, value)]
    if len(meant) == 1:
        return meant[0]
    if all(len(form) == 1 and form[0].code == "enum" and form[0].path == meant[0][0].path for form in meant):
        choices = dict.fromkeys(form[0].message.removeprefix("must be ").partition("; got ")[0] for form in meant)
        place = meant[0][0].path
        return [Problem(place, "enum", f"must be {_or(list(choices))}; got {got(_at(place, value))}")]
    closest = min(meant, key=lambda form: (len(form), -max(len(one.path) for one in form)))
    inner = "; ".join(
        f"{format_path(one.path)}: {one.message.partition('; closest is')[0]}" for one in closest[:_FORMS_SHOWN]
    )
    number = forms.index(closest) + 1
    return [
        Problem(
            path,
            "union",
            f"{none_fits}; closest is form {number}: {inner}",
        )
    ]


def _of_right_kind(path: Path, forms: list[list[Problem]]) -> list[list[Problem]]:
    """The forms whose type and whose tag (a field with one allowed value) agree with the value."""
    right = [form for form in forms if not any(one.code == "type" and one.path == path for one in form)]
    tagged = [form for form in right if not any(one.code == "enum" and len(one.path) == len(path) + 1 for one in form)]
    return tagged or right


def _merged(path: Path, forms: list[list[Problem]], value: Any) -> Problem:
    """No form is even of the value's type: name every type that would do."""
    types = tuple(dict.fromkeys(kind for form in forms for one in form if one.path == path for kind in one.expected))
    return Problem(path, "type", f"expected {_or(types)}, got {got(_at(path, value))}", types)


def _choices(options: Sequence[Any], value: Any) -> str:
    shown = [show(option) for option in options[:_SHOWN]]
    if len(options) <= _SHOWN:
        return f"must be {_or(shown)}; got {got(value)}"
    close = nearest(value, [one for one in options if isinstance(one, str)], most=3) if isinstance(value, str) else []
    hint = f". Did you mean {_or([show(one) for one in close])}?" if close else ""
    return f"must be one of {', '.join(shown)} and {len(options) - _SHOWN} more; got {got(value)}{hint}"


def _twins(value: Any) -> str:
    from pydantic_core import to_json

    seen: dict[bytes, int] = {}
    for position, item in enumerate(cast("list[Any]", value)[:10_000]):
        first = seen.setdefault(to_json(item), position)
        if first != position:
            return f"items must all be different; [{first}] and [{position}] are equal"
    return "items must all be different"


def _ruled_out(kind: Any, value: Any) -> str:
    ruled = _dict(kind.schema)
    options: list[Any] = ruled["enum"] if "enum" in ruled else [ruled["const"]] if "const" in ruled else []
    if options:
        return f"must not be {_or([show(one) for one in options[:_SHOWN]])}"
    if set(ruled) == {"required"} and isinstance(value, dict):
        return "must not have " + " together with ".join(f"`{one}`" for one in ruled["required"])
    return f"has a form that is ruled out here; got {got(value)}"


def _size(unit: str, bound: str) -> tuple[str, Callable[[Any, Any], str]]:
    def words(kind: Any, value: Any) -> str:
        plural = unit if kind.limit == 1 else unit + "s"
        return f"should have at {bound} {kind.limit} {plural}, not {len(value)}"

    return "length", words


def _bound(words: str) -> tuple[str, Callable[[Any, Any], str]]:
    return "range", lambda kind, value: f"should be {words} {show(kind.limit)}; got {got(value)}"


TOO_HARD = "takes too long to match against the schema's pattern. Send a shorter or simpler text"
_TWO_FIT = "fits more than one of the forms allowed here; exactly one must fit"
_CONTAINS = "too few or too many of its items are of the kind it must contain"

_SIMPLE: dict[str, tuple[str, Callable[[Any, Any], str]]] = {
    "Enum": ("enum", lambda kind, value: _choices(kind.options, value)),
    "Constant": ("enum", lambda kind, value: f"must be {show(kind.expected_value)}; got {got(value)}"),
    "Minimum": _bound("greater than or equal to"),
    "Maximum": _bound("less than or equal to"),
    "ExclusiveMinimum": _bound("greater than"),
    "ExclusiveMaximum": _bound("less than"),
    "MultipleOf": (
        "range",
        lambda kind, value: f"should be a multiple of {kind.multiple_of}; got {got(value)}",
    ),
    "MinLength": _size("character", "least"),
    "MaxLength": _size("character", "most"),
    "MinItems": _size("item", "least"),
    "MaxItems": _size("item", "most"),
    "AdditionalItems": _size("item", "most"),
    "MinProperties": _size("field", "least"),
    "MaxProperties": _size("field", "most"),
    "UnevaluatedItems": ("length", lambda kind, value: f"items not allowed: {_cut(kind.unexpected)}"),
    "UniqueItems": ("value", lambda kind, value: _twins(value)),
    "Contains": ("value", lambda kind, value: _CONTAINS),
    "Pattern": ("format", lambda kind, value: f"should match {show(kind.pattern, 200)}; got {got(value)}"),
    "Format": ("format", lambda kind, value: f"should be a valid {kind.format}; got {got(value)}"),
    "Not": ("value", _ruled_out),
    "OneOfMultipleValid": ("union", lambda kind, value: _TWO_FIT),
    "BacktrackLimitExceeded": ("limit", lambda kind, value: TOO_HARD),
    "RegexEngineFailure": ("limit", lambda kind, value: TOO_HARD),
}


def _cut(texts: Iterable[Any]) -> str:
    return ", ".join(str(text)[:60] for text in list(texts)[:_SHOWN])


def _or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "something else"


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


def _follow(prop: Any, schema: Any) -> dict[str, Any]:
    """A property's own words, or those of the definition it refers to."""
    own = _dict(prop)
    ref = own.get("$ref")
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return own
    target = schema
    for part in ref[2:].split("/"):
        target = _dict(target).get(part.replace("~1", "/").replace("~0", "~"))
    return {**_dict(target), **own}


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
