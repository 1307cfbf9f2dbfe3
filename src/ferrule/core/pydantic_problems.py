"""Turns pydantic's errors into problems a model can act on: true paths, JSON words, the expected form."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
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
    resolve,
    show,
    too_few,
    too_many,
    unknown_field,
    wrong_choice,
    wrong_key,
    wrong_type,
)
from ferrule.core.wording import EXAMPLES, choices_of, example_of, hint, kind_of, union_problems, value_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError


# Where a pydantic error lies: the way through the value, and the parts of the schemas that describe that place.


Node = dict[str, Any]

_INNER = {
    "nullable": "schema", "default": "schema", "function-before": "schema", "function-after": "schema",
    "function-wrap": "schema", "model": "schema", "dataclass": "schema", "custom-error": "schema",
    "definitions": "schema", "json": "schema", "lax-or-strict": "strict_schema", "json-or-python": "json_schema",
    "call": "arguments_schema",
}  # fmt: skip
"""Schemas that only pass a value on, and where the next one stands in them."""
_ITEMS = ("list", "set", "frozenset", "generator", "deque")


@dataclass(slots=True)
class Branch:
    """One union on the way: where it stands, which of its forms an error is about, and all forms as JSON Schemas."""

    path: tuple[PathPart, ...]
    form: PathPart
    tagged: bool
    shapes: list[Node]


@dataclass(slots=True)
class Location:
    """One place of a value. `key` is set where the problem is a key of the object there."""

    path: tuple[PathPart, ...]
    branches: tuple[Branch, ...] = ()
    core: Node = field(default_factory=dict[str, Any])
    schema: Node = field(default_factory=dict[str, Any])
    core_around: Node = field(default_factory=dict[str, Any])
    schema_around: Node = field(default_factory=dict[str, Any])
    key: str | None = None

    def choices(self) -> list[Any]:
        """The values of a literal or an enum, as JSON has them."""
        kind = self.core.get("type")
        if kind in ("literal", "enum"):
            listed: list[Any] = self.core["expected" if kind == "literal" else "members"]
            return [one.value if isinstance(one, Enum) else one for one in listed]
        return self.schema.get("enum") or ([self.schema["const"]] if "const" in self.schema else [])

    def tags(self) -> tuple[tuple[PathPart, ...] | None, list[Any]]:
        """The field that tells the forms of a tagged union apart, where it is a field, and what it may hold."""
        choices: dict[Any, Any] = self.core.get("choices", {})
        tags = [tag.value if isinstance(tag, Enum) else tag for tag in choices]
        named: Any = self.core.get("discriminator")
        if isinstance(named, str):
            return (named,), tags
        if isinstance(named, list):  # every way that the field's aliases allow
            return tuple(cast("list[list[PathPart]]", named)[0]), tags
        return None, tags

    def fields(self) -> tuple[list[str], dict[str, str]]:
        """The fields of the object around this place, and other names that they go by."""
        shown = list(cast("Node", self.schema_around.get("properties", {})))
        others: dict[str, str] = {}
        for name, described in _fields(self.core_around).items():
            names = [*_names(name, described), name]
            known = next((one for one in names if one in shown), None)
            if known is not None:
                others |= {one: known for one in names if one != known}
        return shown, others


class Locator:
    """Finds places in one value."""

    __slots__ = ("_definitions", "_forms", "core", "schema", "value")

    def __init__(self, core: Any, schema: Node, value: Any) -> None:
        self.core = cast("Node", core)
        self.schema = schema
        self.value = value
        self._definitions: dict[str, Node] | None = None
        self._forms: dict[Any, list[PathPart]] = {}

    def at(self, loc: tuple[PathPart, ...], kind: str) -> Location:
        """The place that pydantic calls `loc`, for an error of this kind."""
        walk = _Walk(self)
        missing = kind.startswith("missing")
        for position, part in enumerate(loc):
            if not walk.step(part, may_lack=missing and position == len(loc) - 1):
                break
        return walk.location()

    def opened(self, core: Any) -> Node:
        """The schema that has a say of the value's parts, inside those that only pass it on."""
        node = cast("Node", core or {})
        for _ in range(64):
            kind = node.get("type")
            if kind == "definition-ref":
                node = self.defined(node)
            elif kind == "chain":
                node = node["steps"][0]
            elif kind in _INNER and _INNER[kind] in node:
                node = node[_INNER[kind]]
            else:
                break
        return node

    def defined(self, reference: Node) -> Node:
        if self._definitions is None:
            listed: list[Node] = self.core.get("definitions", [])
            self._definitions = {one["ref"]: one for one in listed}
        return self._definitions.get(reference["schema_ref"], {})

    def form_number(self, union: tuple[Any, ...], label: PathPart) -> int:
        """Which of a union's choices a label stands for: errors come in the order of the choices."""
        labels = self._forms.setdefault(union, [])
        if label not in labels:
            labels.append(label)
        return labels.index(label)


class _Walk:
    """One way through both schemas and the value at once."""

    __slots__ = ("_around", "_branches", "_core", "_here", "_key", "_locator", "_path", "_schema", "_unresolved")

    def __init__(self, locator: Locator) -> None:
        self._locator = locator
        self._core = locator.opened(locator.core)
        self._unresolved: Node = locator.schema
        self._schema = resolve(locator.schema, locator.schema)
        self._here: Any = locator.value
        self._path: list[PathPart] = []
        self._branches: list[Branch] = []
        self._around: tuple[Node, Node] = ({}, {})
        self._key: str | None = None

    def location(self) -> Location:
        said = {key: self._unresolved[key] for key in ("description", "default") if key in self._unresolved}
        schema = {**self._schema, **said} if said else self._schema
        return Location(tuple(self._path), tuple(self._branches), self._core, schema, *self._around, self._key)

    def step(self, part: PathPart, *, may_lack: bool) -> bool:
        """Go on by one part; False where the value does not lead further."""
        kind = self._core.get("type")
        if kind == "union":
            self._choose(part)
            return True
        if kind == "tagged-union":
            self._choose_tagged(part)
            return True
        if part == "[key]" and self._path:
            self._key = str(self._path.pop())
            self._core = self._locator.opened(self._around[0].get("keys_schema"))
            return False
        below = self._below(part)
        part = self._given_as(part)
        if _leads_on(part, self._here):
            self._here = self._here[part]
        elif may_lack:
            self._here = None
        else:
            return below is None  # a name of something that is not in the value is passed over
        self._path.append(part)
        self._around = self._core, self._schema
        self._core = self._locator.opened(below)
        self._go_to(_part_of(part, self._schema))
        return True

    def _go_to(self, schema: Any) -> None:
        self._unresolved = cast("Node", schema) if isinstance(schema, dict) else {}
        self._schema = resolve(self._unresolved, self._locator.schema)

    def _below(self, part: PathPart) -> Node | None:
        """The schema of one part of the value; None where there is none."""
        core, kind = self._core, self._core.get("type")
        if kind in _ITEMS:
            return core.get("items_schema", {})
        if kind == "dict":
            return core.get("values_schema", {})
        if isinstance(part, int):
            listed: list[Node] = core.get("items_schema", []) if kind == "tuple" else []
            if kind == "named-tuple":
                listed = [one["schema"] for one in core["fields"]]
            return listed[min(part, len(listed) - 1)] if listed else None
        return next((one["schema"] for name, one in _fields(core).items() if part in _names(name, one)), None)

    def _given_as(self, part: PathPart) -> PathPart:
        """The name that a field was given by: pydantic tells the first of several."""
        if isinstance(part, int) or _leads_on(part, self._here):
            return part
        for name, described in _fields(self._core).items():
            names = [*_names(name, described), name]
            if part in names:
                return next((one for one in names if _leads_on(one, self._here)), part)
        return part

    def _choose(self, label: PathPart) -> None:
        listed: list[Any] = self._core["choices"]
        choices: list[Node] = [one[0] if isinstance(one, tuple) else one for one in listed]
        named = [at for at, one in enumerate(choices) if self._class_name(one) == label]
        where = tuple(self._path), tuple((one.path, one.form) for one in self._branches)
        at = self._locator.form_number(where, label)
        self._enter(label, named[0] if len(named) == 1 else at, choices, tagged=False)

    def _choose_tagged(self, tag: PathPart) -> None:
        choices: dict[Any, Node] = self._core["choices"]
        tags = list(choices)
        at = next((at for at, one in enumerate(tags) if tag in (one, getattr(one, "value", one), str(one))), len(tags))
        described: Node = self._schema.get("discriminator", {})
        ref = described.get("mapping", {}).get(str(tag))
        self._enter(tag, at, list(choices.values()), tagged=True)
        if ref is not None:
            self._go_to({"$ref": ref})

    def _enter(self, form: PathPart, at: int, choices: list[Node], *, tagged: bool) -> None:
        """Go on inside one form of a union."""
        listed: list[Node] = self._schema.get("anyOf") or self._schema.get("oneOf") or []
        shapes = [one for one in listed if one.get("type") != "null"]
        self._branches.append(Branch(tuple(self._path), form, tagged, shapes))
        self._core = self._locator.opened(choices[at]) if at < len(choices) else {}
        self._go_to(shapes[at] if at < len(shapes) == len(choices) else {})

    def _class_name(self, choice: Node) -> str | None:
        """The name that pydantic gives a model's branch."""
        if choice.get("type") == "definition-ref":
            choice = self._locator.defined(choice)
        return getattr(choice["cls"], "__name__", None) if choice.get("type") in ("model", "dataclass") else None


def _part_of(part: PathPart, schema: Node) -> Any:
    if isinstance(part, int):
        first: list[Any] = schema.get("prefixItems", [])
        return first[part] if part < len(first) else schema.get("items")
    return schema.get("properties", {}).get(part, schema.get("additionalProperties"))


def _fields(core: Node) -> dict[str, Node]:
    """The fields of an object's schema by their own names."""
    kind = core.get("type")
    if kind in ("model-fields", "typed-dict"):
        return core["fields"]
    if kind in ("dataclass-args", "named-tuple", "arguments"):
        listed: list[Node] = core["arguments_schema" if kind == "arguments" else "fields"]
        return {one["name"]: one for one in listed}
    return {}


def _names(name: str, described: Node) -> list[str]:
    """The names that a field can be given by."""
    alias: Any = described.get("validation_alias", described.get("alias"))
    if alias is None:
        return [name]
    if isinstance(alias, str):
        return [alias]
    ways = cast("list[Any]", alias)
    if ways and not isinstance(ways[0], list):
        ways = [ways]
    return [str(way[0]) for way in cast("list[list[Any]]", ways) if len(way) == 1]


def _leads_on(part: PathPart, here: Any) -> bool:
    if isinstance(here, dict):
        return part in here
    return isinstance(here, list) and isinstance(part, int) and part < len(cast("list[Any]", here))


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
    "recursion_loop": ("value", phrase("must not contain itself")),
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
            said = phrase("and more problems than the {count} that were checked", count=f"{_READ:,}")
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
