"""Mends what models often get wrong, only where there is one reading, and says what was done."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.problems import InvalidParams, PathPart, Problem, json_type, show
from ferrule.core.schema_walk import schema_at
from ferrule.core.secrets import is_secret_name
from ferrule.pipeline.json_text import check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.tool import Tool
    from ferrule.pipeline.limits import Limits

_ROUNDS = 6  # every text repair once, then the values, then the values inside mended ones
_NOTHING = object()
# Only a comma after a value is one too many; after another comma or a bracket, a value may be missing.
_STRING_OR_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|(?<=[\w"}\]])(\s*),(\s*[}\]])', re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?")
_CONTROL = re.compile(r"[\x00-\x1f]")
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


def repair(
    tool: Tool[Any], text: str | bytes, invalid: InvalidParams, limits: Limits
) -> tuple[Any, tuple[str, ...]] | list[Problem]:
    """Parameters from mended arguments and notes on what was mended, or the problems that are left.

    Mended text is held to the same limits; `InvalidParams` when it breaks one.
    """
    notes: list[str] = []
    for _ in range(_ROUNDS):
        if invalid.problems[0].code == "json":
            mended = _mend_text(text, notes)
            if mended is None:
                return invalid.problems
            text = mended
            check_text(text, None, limits, duplicates=True)
        else:
            value = _mend_value(invalid, tool.input_schema, notes)
            if value is _NOTHING:
                return invalid.problems
            from ferrule.pipeline.json_form import to_text

            text = to_text(value)
            check_text(text, None, limits, duplicates=False)
        try:
            return tool.params.load(text), tuple(notes)
        except InvalidParams as still:
            invalid = still
        except Exception:  # noqa: BLE001 - a validator of the author's own, which took only what it was given before
            return invalid.problems
    return invalid.problems


def readable(text: str | bytes) -> Any:
    """The value of JSON text, mended where it must be; None when it cannot be read."""
    for _ in range(_ROUNDS):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            mended = _mend_text(text, [])
            if mended is None:
                return None
            text = mended
    return None


def mend_around(invalid: InvalidParams, schema: Any) -> Any:
    """The value with what can be mended mended, or None when nothing could be."""
    value = _mend_value(invalid, schema, [])
    return None if value is _NOTHING else value


def _mend_text(text: str | bytes, notes: list[str]) -> str | None:
    """Text that is not JSON, made JSON; None when nothing here is sure to be meant."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            return None
    for mend, note in _TEXT_REPAIRS:
        mended = mend(text)
        if mended != text:
            notes.append(note)
            return mended
    return None


def _without_fence(text: str) -> str:
    found = _FENCE.fullmatch(text)
    return found[1] if found else text


def _without_trailing_commas(text: str) -> str:
    return _STRING_OR_TRAILING_COMMA.sub(lambda found: found[1] or found[2] + found[3], text)


def _with_escaped_controls(text: str) -> str:
    def escape(string: re.Match[str]) -> str:
        return _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", string[0])

    return _STRING.sub(escape, text)


_TEXT_REPAIRS: tuple[tuple[Callable[[str], str], str], ...] = (
    (lambda text: text if text.strip() else "{}", "empty arguments read as {}"),
    (_without_fence, "a code fence around the arguments was removed"),
    (_with_escaped_controls, "raw control characters in a string were escaped"),
    (_without_trailing_commas, "a trailing comma was removed"),
)


def _mend_value(invalid: InvalidParams, schema: Any, notes: list[str]) -> Any:
    """A copy of the value with every mendable place mended, or `_NOTHING` when there was none."""
    value: Any = _NOTHING
    for problem in invalid.problems:
        if problem.code == "missing" or problem.code == "unknown":
            continue
        found = _value_at(invalid.value, problem.path)
        if found is _NOTHING:
            continue
        if found is None and problem.path and _is_optional(problem.path, schema):
            value = copy.deepcopy(invalid.value) if value is _NOTHING else value
            _drop(value, problem.path)
            notes.append(f"`{problem.where}`: null for an optional field read as not given")
            continue
        reading = _only_reading(found, problem)
        if reading is not _NOTHING:
            value = copy.deepcopy(invalid.value) if value is _NOTHING else value
            value = _put(value, problem.path, reading)
            secret = any(isinstance(part, str) and is_secret_name(part) for part in problem.path)
            notes.append(f"`{problem.where}`: {'read as another type' if secret else _story(found, reading)}")
    return value


def _only_reading(found: Any, problem: Problem) -> Any:
    """What a value must mean, if every expected type and every choice allow one meaning in all."""
    if problem.code not in ("type", "union", "enum"):
        return _NOTHING
    readings = [reading for kind in problem.expected if (reading := _read_as(found, kind)) is not _NOTHING]
    readings += [choice for choice in problem.choices if _is_reading(found, choice)]
    if not readings:
        return _NOTHING
    first = readings[0]
    same = all(one == first and isinstance(one, bool) is isinstance(first, bool) for one in readings)
    return first if same else _NOTHING


def _is_reading(found: Any, choice: Any) -> bool:
    """Whether a value is one of the choices in another type: `"2"` for 2, 2.0 for 2."""
    reading = _read_as(found, json_type(choice)) if isinstance(choice, (str, int, float)) else _NOTHING
    return reading is not _NOTHING and reading == choice


def _read_as(found: Any, kind: str) -> Any:
    if isinstance(found, str):
        return _read_string_as(found, kind)
    if kind == "integer" and isinstance(found, float) and found.is_integer() and abs(found) < 2**53:
        return int(found)
    if kind == "string" and isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    if kind == "object" and found is None:
        return {}
    return _NOTHING


def _read_string_as(found: str, kind: str) -> Any:
    text = found.strip()
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number" and _NUMBER.fullmatch(text):
        return json.loads(text)
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("object", "array") and text[:1] == ("{" if kind == "object" else "["):
        try:
            parsed: Any = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError):
            return _NOTHING
        return cast("Any", parsed) if isinstance(parsed, dict if kind == "object" else list) else _NOTHING
    return _NOTHING


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice, so there is more than one reading")
    return made


def _story(found: Any, reading: Any) -> str:
    if isinstance(reading, (dict, list)):
        shape = "object" if isinstance(reading, dict) else "array"
        return f"JSON text read as the {shape} it holds" if found is not None else "null read as {}"
    return f"{show(found)} read as {show(reading)}"


def _is_optional(path: tuple[PathPart, ...], schema: Any) -> bool:
    parent = schema_at(path[:-1], schema)
    return path[-1] in parent.get("properties", {}) and path[-1] not in parent.get("required", ())


def _value_at(value: Any, path: tuple[PathPart, ...]) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return _NOTHING
    return value


def _put(value: Any, path: tuple[PathPart, ...], new: Any) -> Any:
    if not path:
        return new
    _value_at(value, path[:-1])[path[-1]] = new
    return value


def _drop(value: Any, path: tuple[PathPart, ...]) -> None:
    del _value_at(value, path[:-1])[path[-1]]
