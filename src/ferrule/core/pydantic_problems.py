"""Turns pydantic's errors into problems a model can act on: true paths, JSON words, the expected form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.nearest import nearest
from ferrule.core.problems import InvalidParams, PathPart, Problem, got, json_type

if TYPE_CHECKING:
    from pydantic import ValidationError

_TYPES: dict[str, str] = {
    "int_type": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "decimal_type": "number",
    "bool_type": "boolean",
    "string_type": "string",
    "bytes_type": "string",
    "list_type": "array",
    "tuple_type": "array",
    "set_type": "array",
    "frozen_set_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
    "dataclass_type": "object",
    "none_required": "null",
}
_CODES: dict[str, str] = {
    "greater_than": "range",
    "greater_than_equal": "range",
    "less_than": "range",
    "less_than_equal": "range",
    "multiple_of": "range",
    "finite_number": "range",
    "string_too_short": "length",
    "string_too_long": "length",
    "too_short": "length",
    "too_long": "length",
    "string_pattern_mismatch": "format",
    "enum": "enum",
    "literal_error": "enum",
    "json_invalid": "json",
}


def read_problems(error: ValidationError, text: str | bytes, schema: dict[str, Any]) -> InvalidParams:
    """Every error of one validation, in order, with union branches folded into one problem a place."""
    errors = error.errors(include_url=False)
    if errors[0]["type"] == "json_invalid":
        return InvalidParams([Problem((), "json", str(errors[0].get("ctx", {}).get("error", "invalid JSON")))])
    from pydantic_core import from_json

    value = from_json(text)
    problems: list[Problem] = []
    for item in errors:
        path = _true_path(item["loc"], value, item["type"])
        problems.append(_problem(item, path, value, schema))
    return InvalidParams(_fold(problems, value), value)


def _problem(item: Any, path: tuple[PathPart, ...], value: Any, schema: dict[str, Any]) -> Problem:
    kind: str = item["type"]
    found: Any = item["input"]
    if kind == "missing":
        return Problem(path, "missing", "required, but missing" + _hint(path, schema))
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return _unknown(path, value, schema)
    if kind in _TYPES:
        expected = _TYPES[kind]
        return Problem(path, "type", f"expected {expected}, got {got(found)}", (expected,))
    code = _CODES.get(kind, "value")
    if code == "enum":
        return Problem(path, "enum", f"must be {item['ctx']['expected']}; got {got(found)}")
    message = item["msg"]
    if kind == "value_error":
        return Problem(path, code, str(item.get("ctx", {}).get("error", message)))
    message = message.removeprefix("Input should ").removeprefix("Value error, ")
    if message.startswith(("be ", "have ", "match ")):
        message = f"should {message}"
    return Problem(path, code, f"{message}; got {got(found)}")


def _unknown(path: tuple[PathPart, ...], value: Any, schema: dict[str, Any]) -> Problem:
    known = _known_fields(path[:-1], schema)
    name = str(path[-1])
    if close := nearest(name, known, most=1):
        return Problem(path, "unknown", f"unknown field. Did you mean `{close[0]}`?")
    fields = ", ".join(f"`{field}`" for field in known)
    return Problem(path, "unknown", "unknown field. " + (f"Known fields: {fields}" if known else "It takes none"))


def _hint(path: tuple[PathPart, ...], schema: dict[str, Any]) -> str:
    """What a missing field should hold, from the schema."""
    prop = _at(path, schema)
    if not prop:
        return ""
    kind = prop.get("type") or " or ".join(
        str(option["type"]) for option in prop.get("anyOf", []) if "type" in option
    )
    if "enum" in prop:
        kind = "one of " + ", ".join(f'"{choice}"' for choice in prop["enum"][:12])
    about = prop.get("description", "")
    if kind and about:
        return f" (expected {kind}: {about})"
    return f" (expected {kind})" if kind else ""


def _known_fields(path: tuple[PathPart, ...], schema: dict[str, Any]) -> list[str]:
    return list(_at(path, schema).get("properties", {}))


def _at(path: tuple[PathPart, ...], schema: dict[str, Any]) -> dict[str, Any]:
    """The part of the schema that describes this place, or an empty one where that is not clear."""
    here = schema
    definitions = schema.get("$defs", {})
    for part in path:
        here = _resolve(here, definitions)
        if isinstance(part, int):
            here = here.get("items")
        else:
            here = here.get("properties", {}).get(part, here.get("additionalProperties"))
        if not isinstance(here, dict):
            return {}
    return _resolve(here, definitions)


def _resolve(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    if len(options) == 1:
        return _resolve(options[0], definitions)
    return schema


def _true_path(loc: tuple[PathPart, ...], value: Any, kind: str) -> tuple[PathPart, ...]:
    """Pydantic names union branches and validators in a path; keep only what leads through the value."""
    path: list[PathPart] = []
    here = value
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if isinstance(here, dict) and part in here:
            here = here[part]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):  # pyright: ignore[reportUnknownArgumentType]
            here = here[part]  # pyright: ignore[reportUnknownVariableType]
        elif not (last and kind == "missing"):
            continue
        path.append(part)
    return tuple(path)


def _fold(problems: list[Problem], value: Any) -> list[Problem]:
    """Several type errors at one place come from one union: say them as one."""
    folded: dict[tuple[PathPart, ...], Problem] = {}
    rest: list[Problem] = []
    for problem in problems:
        known = folded.get(problem.path)
        if problem.code != "type":
            rest.append(problem)
        elif known is None:
            folded[problem.path] = problem
            rest.append(problem)
        elif problem.expected[0] not in known.expected:
            known.expected = (*known.expected, problem.expected[0])
            known.message = f"expected {' or '.join(known.expected)}, got {got(_value_at(problem.path, value))}"
    return rest


def _value_at(path: tuple[PathPart, ...], value: Any) -> Any:
    for part in path:
        value = value[part]
    return value


__all__ = ["json_type", "read_problems"]
