"""A form made from a tool's JSON Schema, and the arguments that somebody's answers to it are.

Text, numbers, choices and flags have a field of their own, a list of texts has one line for each, and whatever else a
schema asks for is written as JSON. An empty field that is not required is left out; what does not fit is said by field.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.schemas import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONG = 60
"""A text whose default is longer than this, or has lines, gets a larger field."""
_PREFIX = "argument."


@dataclass(slots=True)
class FormField:
    """One argument. `kind` is text, long, number, flag, choice, lines or json."""

    name: str
    kind: str
    required: bool
    description: str = ""
    default: str = ""
    choices: list[str] = field(default_factory=list[str])
    whole: bool = False
    least: float | None = None
    most: float | None = None
    problem: str = ""

    @property
    def key(self) -> str:
        """Its name in the form, where others have theirs."""
        return _PREFIX + self.name


def form_of(schema: Mapping[str, Any] | bool) -> list[FormField]:
    """The fields for a tool's parameters, in their order; none for a schema that only says that anything will do."""
    if isinstance(schema, bool):
        return []
    required = set(cast("Sequence[str]", _resolved(schema, schema).get("required") or ()))
    return [_field(name, one, name in required) for name, one in _properties(schema).items()]


def _properties(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = cast("dict[str, Any]", _resolved(schema, schema).get("properties") or {})
    return {name: _resolved(one, schema) for name, one in properties.items()}


def _resolved(given: Any, whole: Mapping[str, Any]) -> dict[str, Any]:
    """A property's schema, with a reference followed and "or null" left out: an empty field says that."""
    one = resolve(given, whole)
    kinds = one.get("type")
    rest = [kind for kind in cast("list[Any]", kinds) if kind != "null"] if isinstance(kinds, list) else []
    return {**one, "type": rest[0]} if len(rest) == 1 else one


def _field(name: str, schema: dict[str, Any], required: bool) -> FormField:
    kind, default = schema.get("type"), schema.get("default")
    made = FormField(name, "json", required, str(schema.get("description", "")))
    if choices := _choices(schema):
        made.kind, made.choices = "choice", list(choices)
        default = next((text for text, value in choices.items() if _is_same(value, default)), None)
    elif kind == "string":
        shown, longest = default if isinstance(default, str) else "", schema.get("maxLength")
        is_long = len(shown) > _LONG or "\n" in shown or (isinstance(longest, int) and longest > 500)
        made.kind = "long" if is_long else "text"
        if name in ("content", "text", "command", "code", "body", "old_string", "new_string", "prompt", "query"):
            made.kind = "long"
    elif kind in ("integer", "number"):
        made.kind, made.whole = "number", kind == "integer"
        made.least, made.most = schema.get("minimum"), schema.get("maximum")
    elif kind == "boolean":
        made.kind, made.choices = "flag", ["true", "false"]
    elif kind == "array" and _has_lines(schema.get("items"), default):
        made.kind = "lines"
        default = "\n".join(cast("list[str]", default)) if isinstance(default, list) else None
    if default is not None:
        made.default = default if isinstance(default, str) else _plain(default)
    return made


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What can be chosen, by the text that stands for it: JSON where two would look the same, or one like nothing."""
    given = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if not isinstance(given, list):
        return {}
    values = cast("list[Any]", given)
    if not all(isinstance(one, (str, int, float)) for one in values):
        return {}
    plain = {_plain(one): one for one in values}
    is_clear = len(plain) == len(values) and all(text.strip() for text in plain)
    return plain if is_clear else {json.dumps(one, ensure_ascii=False): one for one in values}


def _is_same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _has_lines(items: Any, default: Any) -> bool:
    """Whether a list is of texts, and each can stand on a line of its own."""
    if not isinstance(items, dict) or cast("dict[str, Any]", items).get("type") != "string":
        return False
    shown = cast("list[Any]", default) if isinstance(default, list) else []
    return all(isinstance(one, str) and one and "\n" not in one for one in shown)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def arguments_of(
    schema: Mapping[str, Any] | bool, given: Mapping[str, str], words: Mapping[str, str]
) -> tuple[dict[str, Any], list[FormField]]:
    """The arguments that a form's fields say, and the fields with what was written and what is wrong with it.

    `words` are those for `number`, `whole`, `json` and `required`.
    """
    arguments: dict[str, Any] = {}
    fields = form_of(schema)
    if isinstance(schema, bool):
        return arguments, fields
    properties = _properties(schema)
    for one in fields:
        text = given.get(one.key, "").replace("\r\n", "\n")
        is_text = one.kind in ("text", "long")
        one.default = text
        if not (text if is_text else text.strip()):
            if one.required and not is_text:
                one.problem = words["required"]
            elif one.required:
                arguments[one.name] = ""
            continue
        try:
            arguments[one.name] = _value(one, text, properties[one.name])
        except (ValueError, RecursionError):
            one.problem = words["whole" if one.whole else one.kind if one.kind in words else "json"]
    return arguments, fields


def _value(one: FormField, text: str, schema: Mapping[str, Any]) -> Any:
    match one.kind:
        case "text" | "long":
            return text
        case "number":
            return _refuse() if "_" in text else _number(text, one.whole)
        case "flag":
            return {"true": True, "false": False}[text] if text in ("true", "false") else _refuse()
        case "choice":
            return _choices(schema).get(text, text)
        case "lines":
            return [line for line in text.split("\n") if line]
        case _:
            return read_json(text)


def _number(text: str, whole: bool) -> float:
    """As it was written: a large whole number is no `float`."""
    try:
        return int(text)
    except ValueError:
        value = _refuse() if whole else float(text)
    return value if value - value == 0 else _refuse()


def read_json(text: str) -> Any:
    """JSON, without the numbers that are none, which `json` lets pass; raises `ValueError` or `RecursionError`."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(_text: str = "") -> Any:
    raise ValueError
