"""Turns pydantic's errors into problems a model can act on: true paths, JSON words, the expected form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json

from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.core.problems import HALF_PAIR, InvalidParams, PathPart, Problem, got, not_json
from ferrule.core.schema_walk import schema_at

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


def read_problems(
    error: ValidationError, text: str | bytes, schema: dict[str, Any], hints: dict[str, str]
) -> InvalidParams:
    """Every error of one validation, in order, with union branches folded into one problem a place.

    `hints` keeps what was said before of each missing field.
    """
    errors = error.errors(include_url=False)
    if errors[0]["type"] == "json_invalid":
        return InvalidParams([not_json(str(errors[0].get("ctx", {}).get("error", "")))])
    try:
        value = from_json(text)
    except (ValueError, TypeError):
        return InvalidParams([Problem((), "json", HALF_PAIR)])
    problems: list[Problem] = []
    for item in errors:
        kind, loc = item["type"], item["loc"]
        if len(loc) == 1 and kind == "missing":
            name = str(loc[0])
            if (hint := hints.get(name)) is None:
                hint = hints[name] = _hint(loc, schema)
            problems.append(Problem(loc, "missing", hint))
        else:
            problems.append(_problem(item, kind, _true_path(loc, value, kind), value, schema))
    if len({problem.path for problem in problems}) < len(problems):
        problems = _fold(problems, value)
    return InvalidParams(problems, value)


def _problem(item: Any, kind: str, path: tuple[PathPart, ...], value: Any, schema: dict[str, Any]) -> Problem:
    found: Any = item["input"]
    if expected := _TYPES.get(kind):
        return Problem(
            path, "type", phrase("expected {kind}, got {found}", kind=expected, found=got(found)), (expected,)
        )
    if kind == "missing":
        return Problem(path, "missing", _hint(path, schema))
    if kind == "extra_forbidden" or kind == "unexpected_keyword_argument":
        return _unknown(path, schema)
    if kind == "union_tag_invalid":
        tag = str(item["ctx"]["discriminator"]).strip("'")
        known, given = item["ctx"]["expected_tags"], item["ctx"]["tag"]
        message = phrase("must be one of {known}; got {found}", known=known, found=got(given))
        return Problem((*path, tag), "enum", message)
    if kind == "union_tag_not_found":
        tag = str(item["ctx"]["discriminator"]).strip("'")
        return Problem((*path, tag), "missing", phrase("required, but missing"))
    code = _CODES.get(kind, "value")
    if code == "enum":
        known = item["ctx"]["expected"]
        return Problem(path, "enum", phrase("must be {known}; got {found}", known=known, found=got(found)))
    message = item["msg"]
    if kind == "value_error":
        return Problem(path, code, str(item.get("ctx", {}).get("error", message)))
    message = message.removeprefix("Input should ").removeprefix("Value error, ")
    if message.startswith(("be ", "have ", "match ")):
        message = f"should {message}"
    return Problem(path, code, f"{message}; got {got(found)}")


def _unknown(path: tuple[PathPart, ...], schema: dict[str, Any]) -> Problem:
    known = list(schema_at(path[:-1], schema).get("properties", ()))
    name = str(path[-1])
    if close := nearest(name, known, most=1):
        return Problem(path, "unknown", phrase("unknown field. Did you mean `{name}`?", name=close[0]))
    fields = ", ".join(f"`{field}`" for field in known)
    if not fields:
        return Problem(path, "unknown", phrase("unknown field. It takes none"))
    return Problem(path, "unknown", phrase("unknown field. Known fields: {fields}", fields=fields))


def _hint(path: tuple[PathPart, ...], schema: dict[str, Any]) -> str:
    """That a field is missing, and what it should hold, from the schema."""
    prop = schema_at(path, schema)
    if not prop:
        return phrase("required, but missing")
    kind = prop.get("type") or " or ".join(str(option["type"]) for option in prop.get("anyOf", []) if "type" in option)
    if "enum" in prop:
        kind = "one of " + ", ".join(f'"{choice}"' for choice in prop["enum"][:12])
    about = prop.get("description", "")
    if kind and about:
        return phrase("required, but missing (expected {kind}: {about})", kind=kind, about=about)
    return phrase("required, but missing (expected {kind})", kind=kind) if kind else phrase("required, but missing")


def _true_path(loc: tuple[PathPart, ...], value: Any, kind: str) -> tuple[PathPart, ...]:
    """Pydantic names union branches and validators in a path; keep only what leads through the value."""
    if len(loc) == 1 and isinstance(value, dict):  # a field of the arguments themselves, as most are
        return loc if kind == "missing" or loc[0] in value else ()
    path: list[PathPart] = []
    here = value
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if _leads_on(part, here):
            here = here[part]
        elif not (last and kind == "missing"):
            continue
        path.append(part)
    return tuple(path)


def _leads_on(part: PathPart, here: Any) -> bool:
    if isinstance(here, dict):
        return part in here
    return isinstance(here, list) and isinstance(part, int) and part < len(cast("list[Any]", here))


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
            known.message = phrase(
                "expected {kind}, got {found}",
                kind=joined(" or ", known.expected),
                found=got(_value_at(problem.path, value)),
            )
    return rest


def _value_at(path: tuple[PathPart, ...], value: Any) -> Any:
    for part in path:
        value = value[part]
    return value
