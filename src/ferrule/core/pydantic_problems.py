"""Turns pydantic's errors into problems a model can act on: true paths, JSON words, the expected form."""

from __future__ import annotations

from ipaddress import AddressValueError, NetmaskValueError
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json

from ferrule.core.phrases import Phrase, phrase
from ferrule.core.problems import (
    HALF_PAIR,
    InvalidParams,
    PathPart,
    Problem,
    against_rule,
    counted,
    json_fault,
    json_type,
    missing_field,
    not_json,
    one_of,
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
from ferrule.core.pydantic_locations import Location, Locator
from ferrule.core.schema_walk import resolve
from ferrule.core.union_problems import union_problems
from ferrule.core.wording import EXAMPLES, choices_of, example_of, hint, kind_of, value_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError

TYPES: dict[str, str] = {
    "int_type": "integer",
    "int_from_float": "integer",
    "int_parsing": "integer",
    "float_type": "number",
    "float_parsing": "number",
    "decimal_type": "number",
    "bool_type": "boolean",
    "bool_parsing": "boolean",
    "string_type": "string",
    "string_sub_type": "string",
    "bytes_type": "string",
    "json_type": "string",
    "list_type": "array",
    "tuple_type": "array",
    "set_type": "array",
    "frozen_set_type": "array",
    "deque_type": "array",
    "iterable_type": "array",
    "sequence_str": "array",
    "dict_type": "object",
    "frozen_dict_type": "object",
    "ordered_dict_type": "object",
    "counter_type": "object",
    "mapping_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "dataclass_type": "object",
    "named_tuple_type": "array",
    "arguments_type": "object",
    "none_required": "null",
}
"""Errors that a value of another type is the cause of, and the type that was asked for."""

_DECIMAL = phrase('a decimal number like "12.50"')
FORMS: dict[str, tuple[str, str]] = {
    "greater_than": ("range", phrase("more than {gt}")),
    "greater_than_equal": ("range", phrase("at least {ge}")),
    "less_than": ("range", phrase("less than {lt}")),
    "less_than_equal": ("range", phrase("at most {le}")),
    "multiple_of": ("range", phrase("a multiple of {multiple_of}")),
    "finite_number": ("range", phrase("a finite number")),
    "int_parsing_size": ("range", phrase("an integer with fewer digits")),
    "string_unicode": ("format", phrase("text in UTF-8")),
    "bytes_invalid_encoding": ("format", phrase("{encoding} text")),
    "date_type": ("format", example_of("date")),
    "date_parsing": ("format", example_of("date")),
    "date_from_datetime_parsing": ("format", example_of("date")),
    "date_from_datetime_inexact": ("format", phrase("{date}, without a time", date=example_of("date"))),
    "date_past": ("range", phrase("a date in the past")),
    "date_future": ("range", phrase("a date in the future")),
    "time_type": ("format", example_of("time")),
    "time_parsing": ("format", example_of("time")),
    "datetime_type": ("format", example_of("date-time")),
    "datetime_parsing": ("format", example_of("date-time")),
    "datetime_from_date_parsing": ("format", example_of("date-time")),
    "datetime_object_invalid": ("format", example_of("date-time")),
    "datetime_past": ("range", phrase("a date and time in the past")),
    "datetime_future": ("range", phrase("a date and time in the future")),
    "time_delta_type": ("format", example_of("duration")),
    "time_delta_parsing": ("format", example_of("duration")),
    "url_type": ("format", example_of("uri")),
    "url_parsing": ("format", example_of("uri")),
    "url_syntax_violation": ("format", example_of("uri")),
    "url_scheme": ("format", phrase("a URL that starts with {expected_schemes}")),
    "uuid_type": ("format", example_of("uuid")),
    "uuid_parsing": ("format", example_of("uuid")),
    "uuid_version": ("format", phrase("a version {expected_version} UUID")),
    "decimal_parsing": ("format", _DECIMAL),
    "fraction_type": ("format", phrase('a fraction like "3/4"')),
    "fraction_parsing": ("format", phrase('a fraction like "3/4"')),
    "complex_type": ("format", phrase('a complex number like "1+2j"')),
    "complex_str_parsing": ("format", phrase('a complex number like "1+2j"')),
    "set_item_not_hashable": ("value", phrase("a value that a set can hold: no object and no array")),
    "recursion_depth_exceeded": ("limit", phrase("nested less deep")),
    # What pydantic's own types raise beside the errors of its core
    "ip_any_address": ("format", example_of("ipvanyaddress")),
    "ip_any_interface": ("format", example_of("ipvanyinterface")),
    "ip_any_network": ("format", example_of("ipvanynetwork")),
    "ip_v4_address": ("format", example_of("ipv4")),
    "ip_v6_address": ("format", example_of("ipv6")),
    "ip_v4_network": ("format", example_of("ipv4network")),
    "ip_v6_network": ("format", example_of("ipv6network")),
    "ip_v4_interface": ("format", example_of("ipv4interface")),
    "ip_v6_interface": ("format", example_of("ipv6interface")),
    "pattern_type": ("format", example_of("regex")),
    "pattern_str_type": ("format", example_of("regex")),
    "pattern_bytes_type": ("format", example_of("regex")),
    "pattern_regex": ("format", example_of("regex")),
    "zoneinfo_str": ("format", example_of("zoneinfo")),
    "byte_size": ("format", phrase('a size like "10 MB" or a number of bytes')),
    "byte_size_unit": ("format", phrase('a size with a known unit, like "10 MB" or "4 KiB"')),
    "base64_decode": ("format", example_of("base64")),
    "color_error": ("format", phrase('a colour like "#ff8800" or "orange"')),
    "payment_card_number_luhn": ("format", phrase("a card number that is not mistyped")),
    "path_type": ("format", phrase("a path")),
    "path_not_file": ("value", phrase("the path of a file that exists")),
    "path_not_directory": ("value", phrase("the path of a folder that exists")),
    "path_not_socket": ("value", phrase("the path of a socket that exists")),
    "path_exists": ("value", phrase("a path where nothing exists yet")),
    "parent_does_not_exist": ("value", phrase("a path in a folder that exists")),
    "import_error": ("value", phrase('what Python can import, like "package.module:name"')),
    "predicate_failed": ("value", phrase("a value that this tool allows")),
    "not_operation_failed": ("value", phrase("a value that this tool allows")),
}
"""Errors whose words follow from their type alone: a code, and what the value must be."""

RULES: dict[str, tuple[str, str]] = {
    "string_pattern_mismatch": ("format", phrase("must match {pattern}")),
    "string_not_ascii": ("format", phrase("must have only ASCII characters")),
    "timezone_naive": ("format", phrase('must have no time zone, as in "2025-01-31T14:30:00"')),
    "timezone_aware": (
        "format",
        phrase('must have a time zone, as in "2025-01-31T14:30:00Z" or "2025-01-31T14:30:00+02:00"'),
    ),
    "timezone_offset": ("format", phrase("must have a time zone {tz_expected} seconds from UTC")),
    "url_too_long": ("length", phrase("must have at most {max_length}")),
    "decimal_max_digits": ("range", phrase("must have at most {max_digits} in all")),
    "decimal_max_places": ("range", phrase("must have at most {decimal_places} after the decimal point")),
    "decimal_whole_digits": ("range", phrase("must have at most {whole_digits} before the decimal point")),
    "invalid_key": ("type", phrase("must have only strings as keys")),
    "recursion_loop": ("value", phrase("must not hold itself")),
    "payment_card_number_digits": ("format", phrase("must have only digits")),
    "payment_card_number_brand": ("length", phrase("must have {required_length} digits, as a {brand} card has")),
}
"""The same, where there is more to it than what the value must be."""

MISSING = ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument")
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument")
NO_JSON = (
    "no_such_attribute", "needs_python_object", "frozen_field", "frozen_instance", "get_attribute_error",
    "dataclass_exact_type", "iteration_error", "missing_sentinel_error", "ellipsis_error", "is_instance_of",
    "is_subclass_of", "callable_type", "multiple_argument_values",
)  # fmt: skip
"""Errors of types that no JSON value can be of."""
_READ = 10_000
"""Errors of one validation that are looked at: ten megabytes of wrong arguments must not hold a program up."""
_COUNTED = {"max_length": "character", "max_digits": "digit", "decimal_places": "digit", "whole_digits": "digit"}
_UNITS = {"Dictionary": "field", "Set": "different item", "Frozenset": "different item"}


class ErrorReader:
    """Reads the errors of one model; made once, because a model that errs once often errs again.

    `core` is the schema that pydantic validates by, `schema` the JSON Schema that models are shown.
    """

    __slots__ = ("_core", "_fields", "_missing", "_schema")

    def __init__(self, core: Any, schema: dict[str, Any]) -> None:
        self._core = core
        self._schema = schema
        self._missing: dict[str, Problem] = {}
        self._fields: tuple[tuple[str, ...], dict[str, str]] | None = None

    def read(self, error: ValidationError, text: str | bytes) -> InvalidParams:
        """Every error of one validation, in order; of a union, only what the form that was meant has wrong."""
        errors = error.errors(include_url=False)
        if errors[0]["type"] == "json_invalid" and not errors[0]["loc"]:
            return InvalidParams([not_json(str(errors[0].get("ctx", {}).get("error", "")), text)])
        try:
            value = from_json(text)
        except (ValueError, TypeError):
            return InvalidParams([Problem((), "json", HALF_PAIR)])
        locator: Locator | None = None
        found: list[tuple[Location, Problem]] = []
        problems: list[Problem] = []
        in_union = False
        for item in errors[:_READ]:
            kind, loc = item["type"], item["loc"]
            if kind == "default_factory_not_called" and len(errors) > 1:
                continue  # only because of another error, which is there too
            name = loc[0] if len(loc) == 1 else None
            problem = self._at_top(item, kind, name, value) if isinstance(name, str) else None
            place = _TOP
            if problem is None:
                if locator is None:
                    locator = self._locator(value)
                place = locator.at(loc, kind)
                problem = _problem(item, kind, place, value, self._schema)
                in_union = in_union or bool(place.branches)
            problems.append(problem)
            found.append((place, problem))
        if in_union:
            problems = _folded(found, value, self._schema, 0)
        if len(errors) > _READ:
            said = phrase("and more problems than the {count} that were looked at", count=f"{_READ:,}")
            problems.append(Problem((), "limit", said))
        return InvalidParams(problems, value)

    def _locator(self, value: Any) -> Locator:
        return Locator(self._core, self._schema, value)

    def _at_top(self, item: Any, kind: str, name: str, value: Any) -> Problem | None:
        """The commonest problems of a field of the value itself, for which little has to be looked up."""
        if kind == "missing":
            if (known := self._missing.get(name)) is None:
                said = hint(self._locator(value).at((name,), kind).schema, self._schema)
                known = self._missing[name] = missing_field((name,), said)
            return known
        if not isinstance(value, dict) or name not in value:
            return None
        if kind in UNKNOWN:
            if self._fields is None:
                fields, other_names = self._locator(value).at((name,), kind).fields()
                self._fields = tuple(fields), other_names
            fields, other_names = self._fields
            return unknown_field(
                (name,), fields, [one for one in cast("dict[str, Any]", value) if one != name], other_names
            )
        expected = TYPES.get(kind)
        if expected is None or expected in ("object", "array"):
            return None
        return wrong_type((name,), (expected,), item["input"])


_TOP = Location(())


def _folded(found: list[tuple[Location, Problem]], value: Any, schema: dict[str, Any], depth: int) -> list[Problem]:
    """The problems with every union's forms made one; `depth` counts the unions that all of them lie in."""
    if all(len(place.branches) <= depth for place, _ in found):
        return [problem for _, problem in found]
    told: list[list[Problem]] = []
    groups: dict[tuple[PathPart, ...], tuple[list[Problem], dict[PathPart, list[tuple[Location, Problem]]]]] = {}
    for place, problem in found:
        if len(place.branches) <= depth:
            told.append([problem])
            continue
        branch = place.branches[depth]
        if branch.path not in groups:
            groups[branch.path] = [], {}
            told.append(groups[branch.path][0])  # its place in the order
        groups[branch.path][1].setdefault(branch.form, []).append((place, problem))
    for path, (folded, forms) in groups.items():
        inside = [_folded(form, value, schema, depth + 1) for form in forms.values()]
        branch = next(iter(forms.values()))[0][0].branches[depth]
        if branch.tagged:
            folded += inside[0]
            continue
        shown = branch.shapes if len(branch.shapes) == len(inside) else []
        folded += union_problems(path, inside, _value_at(path, value), lambda at, shown=shown: _form(at, shown, schema))
    return [problem for some in told for problem in some]


def _form(at: int, shapes: list[dict[str, Any]], schema: dict[str, Any]) -> str:
    return value_form(shapes[at], schema) if shapes else ""


def _problem(item: Any, kind: str, place: Location, value: Any, schema: dict[str, Any]) -> Problem:
    if place.key is not None:
        return _about_key(item, kind, place)
    found: Any = item["input"]
    path = place.path
    if expected := TYPES.get(kind):
        return wrong_type(path, (expected,), found, _shape(expected, place.schema, schema) if path else "")
    if kind in MISSING:
        return missing_field(path, hint(place.schema, schema), choices_of(place.schema, schema))
    if kind in UNKNOWN:
        holder = _value_at(path[:-1], value) if path else value
        others = [name for name in cast("dict[str, Any]", holder) if name != path[-1]] if path else []
        known, other_names = place.fields()
        return unknown_field(path, known, others, other_names)
    if special := _SPECIAL.get(kind):
        return special(item, place, value)
    if kind in FORMS:
        code, form = FORMS[kind]
        return out_of_form(path, code, _filled(form, item), found)
    if kind in RULES:
        code, rule = RULES[kind]
        return against_rule(path, code, _filled(rule, item), found)
    if kind in NO_JSON:
        return against_rule(path, "value", phrase("cannot be given as JSON. Leave it out"), found)
    return Problem(path, "value", item["msg"])  # a custom error: its author wrote it to be read


def _filled(words: str, item: Any) -> str:
    """Words from a table, with what the error says of itself."""
    context: dict[str, Any] = item.get("ctx", {})
    if not context or not isinstance(words, Phrase) or words.values:
        return words
    return phrase(
        words.template,
        **{key: counted(one, _COUNTED[key]) if key in _COUNTED else _shown(one) for key, one in context.items()},
    )


def _shape(expected: str, prop: dict[str, Any], root: dict[str, Any]) -> str:
    """`object {"name": string}`, where the schema tells more than the type."""
    if expected not in ("object", "array"):
        return ""
    prop = resolve(prop, root)
    options: Any = prop.get("anyOf")
    if isinstance(options, list):
        every = [resolve(one, root) for one in cast("list[Any]", options)]
        prop = {"anyOf": [one for one in every if one.get("type") == expected]}
    return kind_of(prop, root)


def _about_key(item: Any, kind: str, place: Location) -> Problem:
    """A key of an object that takes only some: the problem is the object's, and names the key."""
    inner = _problem(item, kind, Location(place.path, core=place.core), None, {})
    rule = inner.rule or inner.message
    if kind in TYPES:
        integer = inner.expected == ("integer",)
        rule = phrase("must hold an integer") if integer else phrase("must hold a {kind}", kind=inner.expected[0])
    return wrong_key(place.path, place.key, rule)


def _literal(item: Any, place: Location, value: Any) -> Problem:
    choices = place.choices()
    found: Any = item["input"]
    if not choices:
        return against_rule(place.path, "enum", phrase("is not one of the values allowed here"), found)
    return wrong_choice(place.path, choices, found)


def _tag_invalid(item: Any, place: Location, value: Any) -> Problem:
    name, tags = place.tags()
    if name is None:
        kinds = or_list([show(tag) for tag in tags])
        return Problem(place.path, "union", phrase("fits none of the forms allowed here: {forms}", forms=kinds))
    holder = _value_at(place.path, value)
    return wrong_choice((*place.path, *name), tags, _value_at(name, holder))


def _tag_missing(item: Any, place: Location, value: Any) -> Problem:
    name, tags = place.tags()
    kinds = one_of(tags)
    if name is None:
        return Problem(place.path, "union", phrase("does not say which form it is; expected {kinds}", kinds=kinds))
    return missing_field((*place.path, *name), phrase(" (expected {kind})", kind=kinds), tuple(tags))


def _too_short(item: Any, place: Location, value: Any) -> Problem:
    context = item["ctx"]
    unit = _UNITS.get(context["field_type"], "item")
    return too_few(place.path, unit, context["min_length"], context["actual_length"])


def _too_long(item: Any, place: Location, value: Any) -> Problem:
    context = item["ctx"]
    unit = _UNITS.get(context["field_type"], "item")
    size: int | None = context.get("actual_length")
    if size is None and isinstance(item["input"], (list, dict)):
        size = len(cast("list[Any]", item["input"]))
    return too_many(place.path, unit, context["max_length"], size)


def _text_size(wrong_size: Callable[..., Problem], key: str, unit: str) -> Callable[[Any, Location, Any], Problem]:
    def words(item: Any, place: Location, value: Any) -> Problem:
        text: Any = item["input"]
        size = len(text.encode() if unit == "byte" else text) if isinstance(text, str) else None
        return wrong_size(place.path, unit, item["ctx"][key], size)

    return words


def _raised(item: Any, place: Location, value: Any) -> Problem:
    """What a validator raised is in its author's words; but the standard library's own are not for a model."""
    context = item.get("ctx", {})
    if "reason" in context:
        return out_of_form(place.path, "format", example_of("email"), item["input"])
    raised = context.get("error")
    if isinstance(raised, (AddressValueError, NetmaskValueError)):
        form = str(place.schema.get("format"))
        words = example_of(form if form in EXAMPLES else "ipvanyaddress")
        return out_of_form(place.path, "format", words, item["input"])
    if words := str(raised) if raised is not None else "":
        return Problem(place.path, "value", words)
    return against_rule(place.path, "value", phrase("is not allowed here"), item["input"])


def _inner_json(item: Any, place: Location, value: Any) -> Problem:
    """A field that holds JSON as text, and this text is none."""
    what = json_fault(str(item.get("ctx", {}).get("error", "")), str(item["input"]))
    return Problem(place.path, "format", phrase("must hold valid JSON as text: {what}", what=what))


_SPECIAL: dict[str, Callable[[Any, Location, Any], Problem]] = {
    "literal_error": _literal,
    "enum": _literal,
    "union_tag_invalid": _tag_invalid,
    "union_tag_not_found": _tag_missing,
    "too_short": _too_short,
    "too_long": _too_long,
    "string_too_short": _text_size(too_few, "min_length", "character"),
    "string_too_long": _text_size(too_many, "max_length", "character"),
    "bytes_too_short": _text_size(too_few, "min_length", "byte"),
    "bytes_too_long": _text_size(too_many, "max_length", "byte"),
    "value_error": _raised,
    "assertion_error": _raised,
    "json_invalid": _inner_json,
    "default_factory_not_called": lambda item, place, value: Problem(
        place.path, "value", phrase("has a default that needs other fields, which are wrong")
    ),
}
WORDED = frozenset({*TYPES, *FORMS, *RULES, *MISSING, *UNKNOWN, *NO_JSON, *_SPECIAL})
"""Every error that has words of ours."""


def _shown(one: Any) -> str:
    """A value of an error's context, as it stands in a sentence."""
    if isinstance(one, float) and one.is_integer() and abs(one) < 1e15:
        return str(int(one))
    if isinstance(one, str) and one.startswith("'"):  # pydantic quotes lists of schemes as Python would
        return or_list([f'"{scheme}://"' for scheme in one.split("'")[1::2]])
    return show(one, 200) if isinstance(one, str) and json_type(one) == "string" and not one.isalnum() else str(one)


def _value_at(path: tuple[PathPart, ...], value: Any) -> Any:
    for part in path:
        value = value[part]
    return value
