"""A form from a JSON Schema: its fields, what each takes, how typed text becomes a value, and what is wrong with one.

Terminals and web pages show the same fields, each in its own way and its own words.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, cast

from ferrule.core.phrases import phrase
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schemas import Schema, mapping, options, resolve

if TYPE_CHECKING:
    from ferrule.core.schema_params import SchemaParams

Kind = Literal["text", "integer", "number", "boolean", "one", "many", "lines", "json"]
"""`one` and `many` are chosen from a list, `lines` is a list with one text on each line."""

_PLAIN: dict[Any, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
_FLAGS = {**dict.fromkeys(("true", "y", "yes", "是"), True), **dict.fromkeys(("false", "n", "no", "否"), False)}
_MOST_DIGITS = 100
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+")
_FORMATS = {
    "email": phrase("an e-mail address"),
    "uri": phrase("an address, such as https://example.org/"),
    "date": phrase("a date, such as 2026-01-31"),
    "date-time": phrase("a date and time, such as 2026-01-31T18:30:00Z"),
}
_SIZES = {
    "Length": (phrase("At least {least} characters are required."), phrase("At most {most} characters are allowed.")),
    "Items": (phrase("Choose at least {least}."), phrase("Choose at most {most}.")),
}


class FormError(ValueError):
    """Text or a value that a field does not take; `code` is for surfaces that have words of their own."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(slots=True, frozen=True)
class FormChoice:
    """One of several values, and what the user reads for it."""

    value: Any
    title: str


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    kind: Kind
    schema: Schema
    """With references followed; "or null" is left out, because an empty field says that."""
    required: bool
    choices: tuple[FormChoice, ...]
    _alone: Schema = field(repr=False)
    """The schema of a form that has this field alone."""

    @property
    def title(self) -> str:
        return text_of(self.schema.get("title")) or self.name

    @property
    def description(self) -> str:
        return text_of(self.schema.get("description"))

    @cached_property
    def checked_by(self) -> SchemaParams:
        """What holds values to the schema; raises `DefinitionError` for one that cannot be used."""
        from ferrule.core.schema_params import SchemaParams

        made = SchemaParams("form", self._alone)
        made.compile()
        return made

    def takes(self) -> str:
        """What may be typed, in a few words; what may be chosen is for a surface to say."""
        what = _FORMATS.get(text_of(self.schema.get("format")), phrase("text"))
        if self.kind in ("integer", "number"):
            what = phrase("a whole number") if self.kind == "integer" else phrase("a number")
        low, high = (_bound(self.schema.get(one)) for one in ("minimum", "maximum"))
        if low is not None and high is not None:
            return phrase("{what}, {low} to {high}", what=what, low=f"{low:g}", high=f"{high:g}")
        if low is not None:
            return phrase("{what}, at least {low}", what=what, low=f"{low:g}")
        return phrase("{what}, at most {high}", what=what, high=f"{high:g}") if high is not None else what

    def read(self, text: str) -> Any:
        """The value that was typed; raises `FormError`. Whether the schema takes it, `check` says."""
        match self.kind:
            case "text":
                return text
            case "integer" | "number":
                return _number(text.strip(), self.kind == "integer")
            case "boolean":
                if (value := _FLAGS.get(text.strip().casefold())) is None:
                    raise FormError("flag", phrase("Type y for yes or n for no."))
                return value
            case "one":
                return self.chosen(text)
            case "many" | "lines":
                return [self.chosen(line) for line in text.split("\n") if line]
            case "json":
                return read_json(text)

    def chosen(self, text: str) -> Any:
        """The value of a choice; other text stays as it is."""
        return next((one.value for one in self.choices if one.title == text), text)

    def written(self, value: Any) -> str:
        """The text that `read` takes for a value; empty for what is not among the choices."""
        if self.kind == "one":
            same = (
                one
                for one in self.choices
                if one.value == value and isinstance(one.value, bool) == isinstance(value, bool)
            )
            return next((one.title for one in same), "")
        if self.kind in ("many", "lines") and isinstance(value, list):
            titles = {repr(one.value): one.title for one in self.choices}
            return "\n".join(titles.get(repr(item), str(item)) for item in cast("list[Any]", value))
        return "" if value is None else _plain(value)

    def check(self, value: Any) -> Any:
        """The value, if the schema takes it; raises `FormError`. The usual reasons have words of their own."""
        if isinstance(value, str):
            self._check_size(len(value), "Length")
            if not _has_format(value, text_of(self.schema.get("format"))):
                raise FormError("format", phrase("That is not {takes}.", takes=self.takes()))
        elif isinstance(value, list):
            self._check_size(len(cast("list[Any]", value)), "Items")
        elif (number := _bound(value)) is not None:
            low, high = (_bound(self.schema.get(one)) for one in ("minimum", "maximum"))
            if (low is not None and number < low) or (high is not None and number > high):
                raise FormError("range", phrase("That is out of range: {takes}.", takes=self.takes()))
        from pydantic_core import to_json

        try:
            self.checked_by.load(to_json({self.name: value}))
        except InvalidParamsError as invalid:
            why = invalid.problems[0].message
            raise FormError("schema", phrase("The server does not accept that: {why}", why=why)) from None
        return cast("Any", value)

    def _check_size(self, size: int, what: str) -> None:
        least, most = _bound(self.schema.get(f"min{what}")), _bound(self.schema.get(f"max{what}"))
        too_few, too_many = _SIZES[what]
        if least is not None and size < least:
            raise FormError("size", phrase(too_few, least=f"{least:g}"))
        if most is not None and size > most:
            raise FormError("size", phrase(too_many, most=f"{most:g}"))


def form_fields(schema: Any) -> list[FormField]:
    """The fields for an object's properties, in their order; none for a schema that has no properties."""
    whole = resolve(schema, schema)
    required: Any = whole.get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    shared = {key: schema[key] for key in ("$defs", "definitions") if key in mapping(schema)}
    found: list[FormField] = []
    for name, given in mapping(whole.get("properties")).items():
        one = resolve(given, schema)
        kinds: Any = one.get("type")
        rest = [kind for kind in cast("list[Any]", kinds) if kind != "null"] if isinstance(kinds, list) else []
        one = {**one, "type": rest[0]} if len(rest) == 1 else one
        alone = {"type": "object", "properties": {name: given}, "required": [name], **shared}
        choices, kind = _choices(one), _PLAIN.get(one.get("type"), "json")
        if choices:
            kind = "one"
        elif one.get("type") == "array":
            items = resolve(one.get("items"), schema)
            choices, default = _choices(items), one.get("default")
            listed = cast("list[Any]", default) if isinstance(default, list) else []
            in_lines = all(isinstance(line, str) and line and "\n" not in line for line in listed)
            if choices or (items.get("type") == "string" and in_lines):
                kind = "many" if choices else "lines"
        found.append(FormField(name, kind, one, name in needed, choices, alone))
    return found


def _choices(schema: Schema) -> tuple[FormChoice, ...]:
    """In any of the forms that schemas have: `enum`, `enum` with `enumNames`, `const`, and several const with title.

    A title that is said twice or is blank gives way to JSON.
    """
    forms = [mapping(one) for one in options(schema)]
    values: Any = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    names: Any = schema.get("enumNames")
    if forms and all("const" in one for one in forms):
        values, names = [one["const"] for one in forms], [one.get("title") for one in forms]
    if not isinstance(values, list) or not all(isinstance(one, (str, int, float)) for one in cast("list[Any]", values)):
        return ()
    listed = cast("list[Any]", values)
    given = cast("list[Any]", names) if isinstance(names, list) and len(cast("Any", names)) == len(listed) else listed
    titles = [text_of(title) or _plain(value) for title, value in zip(given, listed, strict=True)]
    if len(set(titles)) < len(titles) or not all(title.strip() for title in titles):
        titles = [json.dumps(value, ensure_ascii=False) for value in listed]
    return tuple(FormChoice(value, title) for value, title in zip(listed, titles, strict=True))


def text_of(value: Any) -> str:
    """A text from a schema, where it is one."""
    return value if isinstance(value, str) else ""


def read_json(text: str) -> Any:
    """JSON, without the numbers that are none, which `json` lets pass; raises `FormError`."""

    def refuse(_constant: str) -> Any:
        raise ValueError

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise FormError("json", "not valid JSON") from None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bound(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(text: str, whole: bool) -> float:
    """As it was written: a large whole number is no `float`."""
    plain = text.replace(",", "") if whole else text
    try:
        if "_" in plain or len(plain) > _MOST_DIGITS:
            raise ValueError
        if whole or plain.lstrip("+-").isdecimal():
            return int(plain)
        if not isfinite(value := float(plain)):
            raise ValueError
    except ValueError:
        words = phrase("That is not a whole number.") if whole else phrase("That is not a number.")
        raise FormError("whole" if whole else "number", words) from None
    return value


def _has_format(value: str, kind: str) -> bool:
    from datetime import date, datetime
    from urllib.parse import urlsplit

    try:
        match kind:
            case "email":
                return _EMAIL.fullmatch(value) is not None
            case "uri":
                return bool(urlsplit(value).scheme) and " " not in value
            case "date":
                return bool(date.fromisoformat(value)) and len(value) == 10
            case "date-time":
                return datetime.fromisoformat(value).tzinfo is not None and "T" in value.upper()
            case _:
                return True
    except ValueError:
        return False
