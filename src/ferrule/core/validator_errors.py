"""Reads the errors of both validators: the true place of each, and the rule of JSON Schema that was broken there."""

from __future__ import annotations

from ipaddress import AddressValueError, NetmaskValueError
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import ValidationError, from_json, to_json

from ferrule.core.explain import TOO_HARD, UNIONS_READ, BrokenRule, Explainer
from ferrule.core.phrases import Phrase, phrase
from ferrule.core.problems import (
    HALF_PAIR,
    NO_PLACE,
    InvalidParamsError,
    Path,
    PathPart,
    Problem,
    against_rule,
    counted,
    json_fault,
    not_json,
    or_list,
    out_of_form,
    show,
    wrong_size,
)
from ferrule.core.schemas import below, mapping, options, parts, resolve, schema_at
from ferrule.core.wording import EXAMPLES, example_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import jsonschema_rs


def _by_error(kinds: Mapping[str, str]) -> dict[str, str]:
    return {error: kind for kind, errors in kinds.items() for error in errors.split()}


_TYPES = _by_error({
    "integer": "int_type int_from_float int_parsing",
    "number": "float_type float_parsing decimal_type",
    "boolean": "bool_type bool_parsing",
    "string": "string_type string_sub_type bytes_type json_type",
    "array": "list_type tuple_type set_type frozen_set_type deque_type iterable_type sequence_str named_tuple_type",
    "object": "dict_type frozen_dict_type ordered_dict_type counter_type mapping_type model_type"
    " model_attributes_type dataclass_type arguments_type",
    "null": "none_required",
})  # fmt: skip
"""Errors that a value of another type is the cause of, by the type that was asked for."""

_FORMATS = _by_error({
    "date": "date_type date_parsing date_from_datetime_parsing",
    "time": "time_type time_parsing",
    "date-time": "datetime_type datetime_parsing datetime_from_date_parsing datetime_object_invalid",
    "duration": "time_delta_type time_delta_parsing",
    "uri": "url_type url_parsing url_syntax_violation",
    "uuid": "uuid_type uuid_parsing",
    "decimal": "decimal_parsing",
    "fraction": "fraction_type fraction_parsing",
    "complex": "complex_type complex_str_parsing",
    "ipvanyaddress": "ip_any_address",
    "ipvanyinterface": "ip_any_interface",
    "ipvanynetwork": "ip_any_network",
    "ipv4": "ip_v4_address",
    "ipv6": "ip_v6_address",
    "ipv4network": "ip_v4_network",
    "ipv6network": "ip_v6_network",
    "ipv4interface": "ip_v4_interface",
    "ipv6interface": "ip_v6_interface",
    "regex": "pattern_type pattern_str_type pattern_bytes_type pattern_regex",
    "zoneinfo": "zoneinfo_str",
    "base64": "base64_decode",
    "colour": "color_error",
})  # fmt: skip
"""Errors that text of another format is the cause of, by the format's name."""

_RULES = {
    "greater_than": ("exclusiveMinimum", "gt"),
    "greater_than_equal": ("minimum", "ge"),
    "less_than": ("exclusiveMaximum", "lt"),
    "less_than_equal": ("maximum", "le"),
    "multiple_of": ("multipleOf", "multiple_of"),
    "string_too_short": ("minLength", "min_length"),
    "string_too_long": ("maxLength", "max_length"),
    "string_pattern_mismatch": ("pattern", "pattern"),
    **{
        error: (rule, "")
        for error, rule in _by_error(
            {
                "enum": "literal_error enum",
                "oneOf": "union_tag_invalid union_tag_not_found",
                "additionalProperties": "extra_forbidden unexpected_keyword_argument unexpected_positional_argument",
                "required": "missing missing_argument missing_keyword_only_argument missing_positional_only_argument",
            }
        ).items()
    },
}
"""Errors about a rule that schemas have too: its keyword, and where the error says what it is set to."""

WORDS: dict[str, tuple[str, str]] = {
    "finite_number": ("range", phrase("a finite number")),
    "int_parsing_size": ("range", phrase("an integer with fewer digits")),
    "string_unicode": ("format", phrase("text in UTF-8")),
    "bytes_invalid_encoding": ("format", phrase("{encoding} text")),
    "date_from_datetime_inexact": ("format", phrase("{date}, without a time", date=example_of("date"))),
    "date_past": ("range", phrase("a date in the past")),
    "date_future": ("range", phrase("a date in the future")),
    "datetime_past": ("range", phrase("a date and time in the past")),
    "datetime_future": ("range", phrase("a date and time in the future")),
    "url_scheme": ("format", phrase("a URL that starts with {expected_schemes}")),
    "uuid_version": ("format", phrase("a version {expected_version} UUID")),
    "set_item_not_hashable": ("value", phrase("a value that a set can hold: no object and no array")),
    "recursion_depth_exceeded": ("limit", phrase("nested less deep")),
    "byte_size": ("format", phrase('a size like "10 MB" or a number of bytes')),
    "byte_size_unit": ("format", phrase('a size with a known unit, like "10 MB" or "4 KiB"')),
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
    "recursion_loop": ("value", phrase("must not contain itself")),
    "payment_card_number_digits": ("format", phrase("must have only digits")),
    "payment_card_number_brand": ("length", phrase("must have {required_length} digits, as a {brand} card has")),
}
"""Errors about what no schema says: a code, and what the value must be, or the whole rule with its "must"."""

_NO_JSON = (
    "no_such_attribute", "needs_python_object", "frozen_field", "frozen_instance", "get_attribute_error",
    "dataclass_exact_type", "iteration_error", "missing_sentinel_error", "ellipsis_error", "is_instance_of",
    "is_subclass_of", "callable_type", "multiple_argument_values",
)  # fmt: skip
"""Errors of types that no JSON value can be of."""
_SPECIAL = (
    "too_short", "too_long", "bytes_too_short", "bytes_too_long", "value_error", "assertion_error", "json_invalid",
    "default_factory_not_called",
)  # fmt: skip
WORDED = frozenset({*_TYPES, *_FORMATS, *_RULES, *WORDS, *_NO_JSON, *_SPECIAL})
"""Every error that has words of ours."""
_BROKEN = (
    {kind: ("type", "", name) for kind, name in _TYPES.items()}
    | {kind: ("format", "", name) for kind, name in _FORMATS.items()}
    | {kind: (*rule, None) for kind, rule in _RULES.items()}
)
"""By error: the rule, where the error says what that is set to, and what it is set to where the error does not."""
_BY_OWN_WORDS = ("", "", None)
_WORDED_TIMES = 10
"""How many times as many errors as are explained pydantic words: it does so for all at once, each with all choices."""
_COUNTED = {"max_length": "character", "max_digits": "digit", "decimal_places": "digit", "whole_digits": "digit"}
_OBJECTS = ("model-fields", "typed-dict")
_ARGUMENTS = {"dataclass-args": "fields", "named-tuple": "fields", "arguments": "arguments_schema"}


class ErrorReader:
    """Reads the errors of one model; made once, because a model that errs once often errs again.

    `core` is the schema that pydantic validates by, `schema` the JSON Schema that models are shown.
    """

    __slots__ = ("_explainer", "_has_unions", "_other_names", "_schema")

    def __init__(self, core: Any, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._other_names = _gather_names(core)
        self._has_unions = any(len(options(part)) > 1 for part in parts(schema))
        self._explainer = Explainer(schema, complete=False, other_names=self._other_names)

    def read(self, error: ValidationError, text: str | bytes, load: Callable[..., Any]) -> InvalidParamsError:
        """The errors of one validation; of a union, only what the form that was meant has wrong. `load` validates."""
        total, most = error.error_count(), self._explainer.most
        errors = error.errors(include_url=False) if total <= _WORDED_TIMES * most else []
        if errors and errors[0]["type"] == "json_invalid" and not errors[0]["loc"]:
            return InvalidParamsError([not_json(str(errors[0].get("ctx", {}).get("error", "")), text)])
        try:
            value = from_json(text)
        except (ValueError, TypeError):
            return InvalidParamsError([Problem((), "json", HALF_PAIR)])
        if not errors and not (errors := self._errors_at_the_start(value, most, load)):
            return InvalidParamsError([Problem((), "value", NO_PLACE)], value)
        refusals = [
            self._refusal(one, value)
            for one in errors[:most]
            # Only because of another error, which is there too.
            if one["type"] != "default_factory_not_called" or len(errors) == 1
        ]
        problems = self._explainer.explain(value, refusals)
        more = max(0, total - min(len(errors), most))
        if more and self._has_unions:  # each form of a union has errors of its own, so that their number says nothing
            more = 0
            said = phrase("and more problems than the {count} that were checked", count=f"{most:,}")
            problems.append(Problem((), "limit", said))
        return InvalidParamsError(problems, value, more=more)

    def _errors_at_the_start(self, value: Any, most: int, load: Callable[..., Any]) -> list[Any]:
        """The errors of the first values alone, where there are too many for pydantic to word each.

        Only those that hold whatever comes after, and fields that are missing from the whole value too.
        """
        try:
            load(to_json(_start(value, [most])), strict=True)
        except ValidationError as error:
            holds = {kind for kind, (rule, *_) in _BROKEN.items() if rule not in ("required", "oneOf")}
            return [
                one
                for one in error.errors(include_url=False)
                if one["type"] in holds or (one["type"] == "missing" and self._lacks(value, one["loc"]))
            ]
        except Exception:  # noqa: BLE001 - a validator of the author's own, which was made for the whole
            return []
        return []

    def _lacks(self, value: Any, place: tuple[PathPart, ...]) -> bool:
        *way, field = place
        try:
            for part in way:
                value = value[part]
        except (LookupError, TypeError):
            return False
        return isinstance(value, dict) and field not in {self._other_names.get(name, name) for name in mapping(value)}

    def _refusal(self, item: Any, value: Any) -> BrokenRule:
        kind: str = item["type"]
        rule, setting, limit = _BROKEN.get(kind, _BY_OWN_WORDS)
        path: Path = item["loc"]
        key = None
        # Nearly all are of the arguments themselves, and lead to the place as they are.
        if (
            len(path) != 1
            or self._has_unions
            or not isinstance(value, dict)
            or not (path[0] in value or rule == "required")
        ):
            path, key = self._place(path, value, missing=rule == "required")
        if rule and not setting:
            return BrokenRule(path, rule, limit, None, key)
        context: dict[str, Any] = item.get("ctx", {})
        if rule:
            return BrokenRule(path, rule, context.get(setting), None, key)
        if kind in ("too_short", "too_long") and "et" not in context["field_type"]:
            is_object = context["field_type"] == "Dictionary"
            least = kind == "too_short"
            rule = ("min" if least else "max") + ("Properties" if is_object else "Items")
            return BrokenRule(path, rule, context["min_length" if least else "max_length"], key=key)
        return BrokenRule(path, problem=self._own_words(kind, item, path, context), key=key)

    def _place(self, loc: tuple[PathPart, ...], value: Any, *, missing: bool) -> tuple[Path, str | None]:
        """The way through the value, without pydantic's names for the forms of a union; and the key that is wrong."""
        path: list[PathPart] = []
        here = value
        schemas = [resolve(self._schema, self._schema)] if self._has_unions else []
        for position, part in enumerate(loc):
            if part == "[key]" and path:
                return tuple(path[:-1]), str(path[-1])
            plain = [schema for schema in schemas if not options(schema)]
            lacks = missing and position == len(loc) - 1
            if len(plain) < len(schemas) and not (plain and (lacks or _leads_on(part, here))):
                forms = [one for schema in schemas for one in options(schema)]
                named = [one for one in forms if str(mapping(one).get("$ref")).endswith(f"/{part}")]
                schemas = [resolve(one, self._schema) for one in named or forms]
                continue
            names = (part, *(name for name, meant in self._other_names.items() if meant == part))
            given = next((name for name in names if _leads_on(name, here)), None)
            if given is not None:
                path.append(given)
                here = here[given]
                schemas = [resolve(below(schema, part), self._schema) for schema in plain]
            elif lacks:
                path.append(part)
        return tuple(path), None

    def _own_words(self, kind: str, item: Any, path: Path, context: dict[str, Any]) -> Problem:
        found: Any = item["input"]
        if kind in WORDS:
            code, words = WORDS[kind]
            if context and isinstance(words, Phrase) and not words.values:
                words = phrase(words.template, **{name: _shown(name, one) for name, one in context.items()})
            return (against_rule if words.startswith("must ") else out_of_form)(path, code, words, found)
        if kind in ("value_error", "assertion_error"):
            return self._raised(path, context, found)
        if kind.endswith(("too_short", "too_long")):
            in_bytes, least = kind.startswith("bytes"), kind.endswith("short")
            unit = "byte" if in_bytes else "different item"
            size = len(found.encode()) if in_bytes and isinstance(found, str) else context.get("actual_length")
            return wrong_size(path, unit, context["min_length" if least else "max_length"], size, least=least)
        if kind == "json_invalid":  # a field that holds JSON as text
            what = json_fault(str(context.get("error", "")), str(found))
            return Problem(path, "format", phrase("must hold valid JSON as text: {what}", what=what))
        if kind == "default_factory_not_called":
            return Problem(path, "value", phrase("has a default that needs other fields, which are wrong"))
        if kind in _NO_JSON:
            return against_rule(path, "value", phrase("cannot be given as JSON. Leave it out"), found)
        return Problem(path, "value", item["msg"])  # a custom error: its author wrote it to be read

    def _raised(self, path: Path, context: dict[str, Any], found: Any) -> Problem:
        """What a validator raised is in its author's words; but the standard library's own are not for a model."""
        raised = context.get("error")
        if "reason" in context:
            return out_of_form(path, "format", example_of("email"), found)
        if isinstance(raised, (AddressValueError, NetmaskValueError)):
            form = str(schema_at(path, self._schema).get("format"))
            return out_of_form(path, "format", example_of(form if form in EXAMPLES else "ipvanyaddress"), found)
        if words := str(raised) if raised is not None else "":
            return Problem(path, "value", words)
        return against_rule(path, "value", phrase("is not allowed here"), found)


def _start(value: Any, left: list[int]) -> Any:
    """A value with what comes before so many others in it."""
    left[0] -= 1
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value).items()
        return {name: _start(one, left) for name, one in given if left[0] > 0}
    if isinstance(value, list):
        return [_start(one, left) for one in cast("list[Any]", value) if left[0] > 0]
    return value


def _shown(name: str, one: Any) -> str:
    """What an error says of itself, as it stands in a sentence."""
    if name in _COUNTED:
        return counted(one, _COUNTED[name])
    if isinstance(one, str) and one.startswith("'"):  # pydantic quotes lists of schemes as Python would
        return or_list([f'"{scheme}://"' for scheme in one.split("'")[1::2]])
    return show(one, 200) if isinstance(one, str) and not one.isalnum() else str(one)


def _leads_on(part: PathPart, here: Any) -> bool:
    if isinstance(here, dict):
        return part in here
    return isinstance(here, list) and isinstance(part, int) and part < len(cast("list[Any]", here))


def _gather_names(core: Any) -> dict[str, str]:
    """Other names that fields can be given by, from pydantic's own schema: no JSON Schema says them."""
    found: dict[str, str] = {}
    for node in parts(core):
        kind = node.get("type")
        listed: Any = ()
        if kind in _OBJECTS:
            listed = node["fields"].items()
        elif kind in _ARGUMENTS:
            listed = [(one["name"], one) for one in node[_ARGUMENTS[kind]]]
        for name, field in listed:
            alias: Any = field.get("validation_alias", field.get("alias", []))
            ways: list[Any] = [alias] if isinstance(alias, str) or not isinstance((*alias, [])[0], list) else alias
            names = [
                way if isinstance(way, str) else str(way[0]) for way in ways if isinstance(way, str) or len(way) == 1
            ]
            found.update({other: names[0] for other in [*names[1:], name] if names and other != names[0]})
    return found


# The errors of jsonschema-rs, which say the keyword of JSON Schema themselves.


def schema_rules(errors: Iterable[jsonschema_rs.ValidationError], value: Any, unions: int = 0) -> list[BrokenRule]:
    """The rules that the validator found broken, those in the forms of a union included.

    `unions` counts the unions that these errors lie in.
    """
    found: list[BrokenRule] = []
    for error in errors:
        kind: Any = error.kind
        path = _true_path(error.instance_path, value)
        said = _WORDED.get(type(kind).__name__)
        if said is not None:
            found.append(BrokenRule(path, problem=Problem(path, *said)))
        elif kind.name == "propertyNames":
            inner = kind.error
            found.append(BrokenRule(path, inner.kind.name, inner.kind.value, key=str(inner.instance)))
        elif kind.name == "required":
            found.append(BrokenRule((*path, kind.property), "required"))
        elif kind.name in ("additionalProperties", "unevaluatedProperties"):
            found += [BrokenRule((*path, field), "additionalProperties") for field in kind.unexpected]
        elif kind.name == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
            # It names the object, not the field, where no field at all is allowed.
            here = value
            for part in path:
                here = here[part]
            found += [BrokenRule((*path, field), "additionalProperties") for field in here]
        elif kind.name in ("anyOf", "oneOf"):
            forms: Sequence[Any] = kind.context if unions < UNIONS_READ else ()
            found.append(BrokenRule(path, kind.name, forms=[schema_rules(one, value, unions + 1) for one in forms]))
        else:
            found.append(BrokenRule(path, kind.name, kind.value))
    return found


def unknown_fields(first: BrokenRule, root: Any, value: Any) -> list[BrokenRule]:
    """The refusals of all fields that an object may not have, where a validator that stops at the first named one."""
    around = first.path[:-1]
    closed = schema_at(around, root)
    if first.rule != "additionalProperties" or closed.get(first.rule) is not False or "patternProperties" in closed:
        return []
    for part in around:
        value = value[part]
    known = mapping(closed.get("properties"))
    return [BrokenRule((*around, field), first.rule) for field in value if field not in known]


_WORDED: dict[str, tuple[str, str]] = {
    "OneOfMultipleValid": ("union", phrase("fits more than one of the forms allowed here; exactly one must fit")),
    "BacktrackLimitExceeded": ("limit", TOO_HARD),
    "RegexEngineFailure": ("limit", TOO_HARD),
    "FromUtf8": ("format", phrase("holds encoded bytes that are not UTF-8 text")),
    "Referencing": ("value", phrase("cannot be checked: the tool's schema refers to a document that is not there")),
    "Custom": ("value", phrase("does not fit a rule of the tool's own")),
}
"""Findings of the validator that no keyword stands for."""


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
