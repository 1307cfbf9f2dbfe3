"""Words for what is wrong with arguments: what a schema expects, and what a validator of schemas found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import glued, joined, phrase
from ferrule.core.problems import (
    SHOWN,
    PathPart,
    Problem,
    against_rule,
    json_type,
    missing_field,
    one_of,
    or_list,
    out_of_form,
    referred,
    show,
    too_few,
    too_many,
    unexpected,
    unknown_field,
    wrong_choice,
    wrong_key,
    wrong_type,
)
from ferrule.core.shown_text import cut, flattened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jsonschema_rs import ValidationError


_SHOWN_FIELDS = 30
_FORM_CHARS = 1200
_HINT_CHARS = 300
_ABOUT_CHARS = 300
_LEVELS = 4
_PARTS = 400
"""Parts of a schema that are looked at for one form: one that is wide at every level must not take long."""

EXAMPLES: dict[str, tuple[str, str]] = {
    "date": (phrase("a date"), '"2025-01-31"'),
    "date-time": (phrase("a date and time"), '"2025-01-31T14:30:00Z"'),
    "time": (phrase("a time"), '"14:30:00"'),
    "duration": (phrase("a duration"), '"PT1H30M"'),
    "uuid": (phrase("a UUID"), '"123e4567-e89b-42d3-a456-426614174000"'),
    "uuid1": (phrase("a version 1 UUID"), '"c232ab00-9414-11ec-b3c8-9f6bdeced846"'),
    "uuid4": (phrase("a version 4 UUID"), '"123e4567-e89b-42d3-a456-426614174000"'),
    "uri": (phrase("a URL"), '"https://example.org/page"'),
    "multi-host-uri": (phrase("a URL"), '"postgresql://host:5432/name"'),
    "email": (phrase("an email address"), '"ada@example.org"'),
    "name-email": (phrase("an email address"), '"Ada <ada@example.org>"'),
    "ipv4": (phrase("an IPv4 address"), '"192.0.2.1"'),
    "ipv6": (phrase("an IPv6 address"), '"2001:db8::1"'),
    "ipv4network": (phrase("an IPv4 network"), '"192.0.2.0/24"'),
    "ipv6network": (phrase("an IPv6 network"), '"2001:db8::/32"'),
    "ipv4interface": (phrase("an IPv4 interface"), '"192.0.2.1/24"'),
    "ipv6interface": (phrase("an IPv6 interface"), '"2001:db8::1/32"'),
    "ipvanyaddress": (phrase("an IP address"), '"192.0.2.1"'),
    "ipvanynetwork": (phrase("an IP network"), '"192.0.2.0/24"'),
    "ipvanyinterface": (phrase("an IP interface"), '"192.0.2.1/24"'),
    "regex": (phrase("a regular expression"), '"^[a-z]+$"'),
    "base64": (phrase("base64 text"), '"aGVsbG8="'),
    "base64url": (phrase("base64 text for URLs"), '"aGVsbG8="'),
    "zoneinfo": (phrase("a time zone"), '"Europe/Oslo"'),
}
"""What each `format` of a string is called, with a value that fits it."""


class _TooMuchError(Exception):
    """The form would have more parts than are looked at."""


def expected_form(schema: dict[str, Any] | bool) -> str:
    """`{"city": string, "days": integer (optional, default 3)}`; objects inside it as far as there is room."""
    if isinstance(schema, bool) or "properties" not in schema:
        return phrase("arguments that fit its schema")
    if not schema["properties"]:
        return phrase("no arguments: {form}", form="{}")
    return value_form(schema, schema, _FORM_CHARS) or _Form(schema).object(schema, 1)


def value_form(prop: Any, root: dict[str, Any], most: int = _HINT_CHARS) -> str:
    """What a value should look like, as much of it as there is room for; empty where there is no room at all."""
    for levels in range(_LEVELS, -1, -1):
        try:
            form = _Form(root).of(prop, levels)
        except _TooMuchError:
            continue
        if len(form) <= most:
            return form
    return ""


def kind_of(prop: dict[str, Any], root: dict[str, Any]) -> str:
    """What a value should be, as it reads after "expected": `array [integer, …]`, `a date like "2025-01-31"`."""
    prop = _followed(prop, root)
    options: Any = prop.get("anyOf") or prop.get("oneOf")
    if isinstance(options, list):
        kinds = [
            kind_of(cast("dict[str, Any]", one), root) for one in cast("list[Any]", options) if isinstance(one, dict)
        ]
        listed = or_list(list(dict.fromkeys(kind for kind in kinds if kind)))
        return listed if kinds and len(listed) <= _HINT_CHARS else ""
    choices = choices_of(prop, root)
    if len(choices) > 1:
        return one_of(choices)
    kind = prop.get("type")
    if kind == "string" and prop.get("format") in EXAMPLES:
        return example_of(prop["format"])
    form = value_form(prop, root)
    if kind in ("array", "object") and "const" not in prop:
        return kind if form in ("", kind, "[any, …]") else joined(" ", [kind, form])
    if isinstance(kind, list):
        return or_list(form.split(" | "))
    return "" if form == "any" else form


def hint(prop: dict[str, Any], root: dict[str, Any]) -> str:
    """What a missing field should hold: ` (expected number: How much.)`; empty where nothing is said of it."""
    kind = kind_of(prop, root)
    about = flattened(str(prop.get("description") or ""), _ABOUT_CHARS)
    if kind and about:
        return phrase(" (expected {kind}: {about})", kind=kind, about=about)
    return phrase(" (expected {kind})", kind=kind) if kind else ""


def choices_of(prop: dict[str, Any], root: dict[str, Any]) -> tuple[Any, ...]:
    """The few values that a field may have, where its schema says so."""
    prop = _followed(prop, root)
    listed: Any = prop.get("enum")
    if isinstance(listed, list):
        return tuple(cast("list[Any]", listed))
    return (prop["const"],) if "const" in prop else ()


def example_of(form: str) -> str:
    """`a date like "2025-01-31"` for the name of a format; what is not known stays a name."""
    known = EXAMPLES.get(form)
    if known is None:
        return phrase("text of the format {format}", format=form)
    return phrase("{kind} like {example}", kind=known[0], example=known[1])


def _followed(prop: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to; its own words come first."""
    for _ in range(8):
        if "$ref" not in prop:
            break
        prop = {**referred(str(prop["$ref"]), root), **{key: one for key, one in prop.items() if key != "$ref"}}
    return prop


class _Form:
    """Writes one form; counts the parts it looked at."""

    __slots__ = ("_around", "_left", "_root")

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _PARTS
        self._around: list[str] = []

    def of(self, prop: Any, levels: int) -> str:
        """A value's form, with objects shown so many levels deep."""
        self._left -= 1
        if self._left < 0:
            raise _TooMuchError
        if not isinstance(prop, dict):
            return "any"
        prop = cast("dict[str, Any]", prop)
        if "$ref" not in prop:
            return self._plain(prop, levels)
        ref = str(prop["$ref"])
        if ref in self._around:  # an object that holds others of its own kind
            return "object"
        self._around.append(ref)
        form = self.of(referred(ref, self._root), levels)
        self._around.pop()
        return form

    def _plain(self, prop: dict[str, Any], levels: int) -> str:
        if "enum" in prop and isinstance(prop["enum"], list):
            return _row(" | ", [show(choice) for choice in cast("list[Any]", prop["enum"])[:SHOWN]])
        if "const" in prop:
            return show(prop["const"])
        options: Any = prop.get("anyOf") or prop.get("oneOf")
        if "type" not in prop and isinstance(options, list):
            return _row(" | ", dict.fromkeys(self.of(one, levels) for one in cast("list[Any]", options)))
        kind = prop.get("type")
        if kind == "array":
            return self._array(prop, levels)
        if kind == "string" and prop.get("format") in EXAMPLES:
            return phrase("{kind} like {example}", kind="string", example=EXAMPLES[prop["format"]][1])
        if kind == "object" or (kind is None and "properties" in prop):
            return self.object(prop, levels)
        if isinstance(kind, list):
            return " | ".join(str(one) for one in cast("list[Any]", kind))
        return kind if isinstance(kind, str) else "any"

    def object(self, prop: dict[str, Any], levels: int) -> str:
        """An object with its fields, or what its values are where it has no fields of its own."""
        properties: Any = prop.get("properties")
        if levels == 0:
            return "object"
        if not isinstance(properties, dict) or not properties:
            values: Any = prop.get("additionalProperties")
            inner = self.of(values, levels - 1) if isinstance(values, dict) and values else "any"
            return "object" if inner == "any" else glued("{string: ", inner, "}")
        named = cast("dict[str, Any]", properties)
        required: Any = prop.get("required", ())
        fields: list[str] = [
            glued(f'"{name}": ', self.of(one, levels - 1), _optional(one, name in required))
            for name, one in list(named.items())[:_SHOWN_FIELDS]
        ]
        if len(named) > _SHOWN_FIELDS:
            fields.append("…")
        return glued("{", _row(", ", fields), "}")

    def _array(self, prop: dict[str, Any], levels: int) -> str:
        first: Any = prop.get("prefixItems")
        if not isinstance(first, list) or not first:
            return glued("[", self.of(prop.get("items"), levels), ", …]")
        places = cast("list[Any]", first)
        forms = [
            glued(self.of(one, levels), _optional(one, at < prop.get("minItems", 0))) for at, one in enumerate(places)
        ]
        return glued("[", _row(", ", forms), "]" if prop.get("maxItems") == len(places) else ", …]")


def _optional(prop: Any, required: bool) -> str:
    if required:
        return ""
    if isinstance(prop, dict) and "default" in prop:
        return phrase(" (optional, default {value})", value=show(cast("Any", prop["default"])))
    return phrase(" (optional)")


def _row(mark: str, forms: Iterable[str]) -> str:
    """Forms with a mark between them that is part of the notation, and so the same in every language."""
    pieces = [piece for form in forms for piece in (mark, form)]
    return glued(*pieces[1:])


# A value that fits none of several forms: which form was meant, and what is wrong with it in that one.


Path = tuple[PathPart, ...]

_SHAPES_SHOWN = 4
_SPEAKS_ALONE = ("range", "length", "value", "limit", "missing", "unknown")


def union_problems(path: Path, forms: list[list[Problem]], value: Any, shape: Callable[[int], str]) -> list[Problem]:
    """What to tell of a value at `path`, from the problems it has with each form.

    `shape` shows one of the forms; empty where that is not known.
    """
    if not isinstance(value, (dict, list)):
        return _scalar(path, forms, value)
    right = [form for form in forms if not _is_other_type(path, form)]
    if not right:
        return [_merged(path, [form[0] for form in forms], value)]
    tagged = _by_tag(path, right, value)
    if isinstance(tagged, Problem):
        return [tagged]
    if len(tagged) == 1:
        return tagged[0]
    numbers = {id(form): at for at, form in enumerate(forms)}
    return _closest(path, tagged, value, lambda form: shape(numbers[id(form)]))


def _scalar(path: Path, forms: list[list[Problem]], value: Any) -> list[Problem]:
    """Text or a number: one that is only out of bounds is told the bounds, any other all that would do."""
    bounds = [form for form in forms if all(one.code in _SPEAKS_ALONE for one in form)]
    if len(bounds) == 1:
        return bounds[0]
    return [_merged(path, [form[0] for form in bounds or forms], value)]


def _is_other_type(path: Path, form: list[Problem]) -> bool:
    """Whether the value is not even of the type that a form asks for. No object is one of a few texts either."""
    return any(one.path == path and (one.code in ("type", "enum", "format") or one.expected) for one in form)


def _by_tag(path: Path, forms: list[list[Problem]], value: Any) -> list[list[Problem]] | Problem:
    """The forms that the tag names, or what is wrong with the tag itself."""
    for name in dict.fromkeys(one.path[-1] for form in forms for one in form if _is_about_tag(one, path)):
        place = (*path, name)
        about = [next((one for one in form if one.path == place), None) for form in forms]
        if any(one is not None and not _is_about_tag(one, path) for one in about):
            continue  # some form knows no such field, or asks for more than one of a few values
        meant = [form for form, one in zip(forms, about, strict=True) if one is None]
        if meant:
            return meant
        told = [one for one in about if one is not None]
        if all(one.choices == told[0].choices for one in told):
            continue  # it tells no form from another
        choices = _distinct(told)
        if told[0].code == "missing":
            return missing_field(place, phrase(" (expected {kind})", kind=one_of(choices)), choices)
        return wrong_choice(place, choices, value[name])
    return forms


def _distinct(problems: list[Problem]) -> tuple[Any, ...]:
    """Every choice once, where 1 and true are two."""
    return tuple({(json_type(one), repr(one)): one for problem in problems for one in problem.choices}.values())


def _is_about_tag(problem: Problem, path: Path) -> bool:
    return len(problem.path) == len(path) + 1 and problem.code in ("enum", "missing") and bool(problem.choices)


def _closest(
    path: Path, forms: list[list[Problem]], value: Any, shape: Callable[[list[Problem]], str]
) -> list[Problem]:
    """The form with the fewest problems; where several have as few, one problem for all of them."""
    fewest = min(len(form) for form in forms)
    near = [form for form in forms if len(form) == fewest]
    if len(near) > 1:
        deepest = max(min(len(one.path) for one in form) for form in near)
        near = [form for form in near if min(len(one.path) for one in form) == deepest]
    if len(near) == 1 or all(form == near[0] for form in near):
        return near[0]
    place = near[0][0].path
    if fewest == 1 and all(form[0].path == place and form[0].form for form in near):
        here = value
        for part in place[len(path) :]:
            here = here[part]
        return [_merged(place, [form[0] for form in near], here)]
    told = [shape(form) or _in_short(form) for form in near[:_SHAPES_SHOWN]]
    said = phrase("fits none of the forms allowed here: {forms}", forms=joined(" or ", dict.fromkeys(told)))
    return [Problem(path, "union", said)]


def _in_short(form: list[Problem]) -> str:
    return joined(", ", [phrase("`{path}` {rule}", path=one.where, rule=one.rule or one.message) for one in form[:3]])


def _merged(path: Path, problems: list[Problem], value: Any) -> Problem:
    """One problem that names everything which would do at a place."""
    if len(problems) == 1:
        return problems[0]
    expected = tuple(dict.fromkeys(kind for one in problems for kind in one.expected))
    choices = _distinct(problems)
    forms: list[str] = []
    for one in problems:
        few = one.code == "enum" and len(one.choices) <= _SHAPES_SHOWN * 3
        forms += [show(choice) for choice in one.choices] if few else [one.form] if one.form else []
    codes = {one.code for one in problems}
    code = codes.pop() if len(codes) == 1 else "union"
    form = or_list(list(dict.fromkeys(forms)))
    if code != "enum":
        return unexpected(path, code, form, value, expected, choices)
    merged = out_of_form(path, code, form, value)
    merged.expected, merged.choices = expected, choices
    return merged


# Turns a JSON Schema validator's errors into problems a model can act on, worded as for typed tools.


MAX_PROBLEMS = 20
_UNIONS_READ = 8
"""Unions within unions that are still looked into."""

Place = tuple[PathPart, ...]


def problems_of(errors: Iterable[ValidationError], value: Any, schema: Any, unions: int = 0) -> list[Problem]:
    """Every problem once, in the order of the schema; after the first twenty only how many more there are.

    `unions` counts the unions that these errors lie in.
    """
    found: dict[tuple[Place, str, str], Problem] = {}
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


def _missing(error: ValidationError, path: Place, schema: Any) -> Problem:
    field: str = cast("Any", error.kind).property
    root = _dict(schema)
    prop = _dict(_dict(_beside(error, schema).get("properties")).get(field))
    return missing_field((*path, field), hint(prop, root), choices_of(prop, root))


def _unknown(path: Place, field: str, parent: dict[str, Any], value: Any) -> Problem:
    given = [name for name in cast("dict[str, Any]", _at(path, value)) if name != field]
    return unknown_field((*path, field), list(_dict(parent.get("properties"))), given)


def _forbidden(error: ValidationError, path: Place, value: Any, schema: Any) -> list[Problem]:
    """A `false` schema: the validator names the object, not the field, where no field at all is allowed."""
    here = _at(path, value)
    if error.schema_path and error.schema_path[-1] == "additionalProperties" and isinstance(here, dict):
        parent = _beside(error, schema)
        known = _dict(parent.get("properties"))
        return [_unknown(path, field, parent, value) for field in cast("dict[str, Any]", here) if field not in known]
    if path and isinstance(path[-1], int):
        return [Problem(path, "length", phrase("one item too many; none is allowed here"))]
    return [Problem(path, "unknown", phrase("not allowed here") if path else phrase("no arguments are allowed"))]


def _union(
    error: ValidationError, path: Place, branches: list[list[ValidationError]], value: Any, schema: Any, unions: int
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


def _ruled_out(kind: Any, path: Place, value: Any) -> Problem:
    ruled = _dict(kind.schema)
    options: list[Any] = ruled["enum"] if "enum" in ruled else [ruled["const"]] if "const" in ruled else []
    if options:
        forms = or_list([show(one) for one in options[:SHOWN]])
        return Problem(path, "value", phrase("must not be {forms}", forms=forms))
    if set(ruled) == {"required"} and isinstance(value, dict):
        fields = joined(" together with ", [f"`{one}`" for one in ruled["required"]])
        return Problem(path, "value", phrase("must not have {fields}", fields=fields))
    return against_rule(path, "value", phrase("has a form that is ruled out here"), value)


Words = Callable[[Any, Place, Any], Problem]


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
        path,
        "length",
        phrase("items not allowed: {items}", items=", ".join(cut(str(one), 60) for one in kind.unexpected[:SHOWN])),
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


def _true_path(parts: Iterable[PathPart], value: Any) -> Place:
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


def _at(path: Place, value: Any) -> Any:
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
