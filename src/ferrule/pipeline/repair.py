"""Mends what models often get wrong, only where there is one reading, and says what was done."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import phrase
from ferrule.core.problems import HALF_PAIR, InvalidParams, PathPart, Problem, json_type, schema_at, show
from ferrule.core.secrets import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.tool import Tool
    from ferrule.pipeline.stages import Limits


# What JSON parsers let pass and a tool must not see: doubled keys, deep nesting, endless numbers.


_DIGITS = "0123456789"
_DIGIT = re.compile("[0-9]")
# An exponent of three digits: it may mean more than a float can hold.
# Two patterns, because one that begins with a letter is searched for at twice the speed of one with a choice.
_HUGE: tuple[Any, Any] = (re.compile(r"e\+?[0-9]{3}"), re.compile(r"E\+?[0-9]{3}"))
_HUGE_BYTES: tuple[Any, Any] = (re.compile(rb"e\+?[0-9]{3}"), re.compile(rb"E\+?[0-9]{3}"))


def check_text(text: str | bytes, flat_size: int | None, limits: Limits, *, duplicates: bool) -> None:
    """Raise `InvalidParams` for text outside the limits.

    Counting characters first spares almost every call a second parse: each key needs a colon and each level an
    opening bracket, so where the counts are small nothing can be wrong.
    """
    is_text = isinstance(text, str)
    colons = text.count(":") if is_text else text.count(b":")
    if flat_size is not None and (colons == flat_size or _most_keys(text) == flat_size):
        # Every key was read into a place that the schema knows: none is doubled or too deep, and no number is infinite.
        if len(text) > limits.number_digits:
            _check_numbers(text, limits.number_digits)
        return
    openers = text.count("{") + text.count("[") if is_text else text.count(b"{") + text.count(b"[")
    if openers > limits.argument_depth and (depth := _depth(text)) > limits.argument_depth:
        said = phrase(
            "they are nested {depth} deep, where at most {most} is taken", depth=depth, most=limits.argument_depth
        )
        raise InvalidParams([Problem((), "limit", said)])
    if len(text) > limits.number_digits:
        _check_numbers(text, limits.number_digits)
    if ("NaN" in text or "Infinity" in text) if is_text else (b"NaN" in text or b"Infinity" in text):
        _check_constants(text)
    small, large = _HUGE if is_text else _HUGE_BYTES
    if small.search(text) or large.search(text):
        _check_floats(text)
    if duplicates and colons > 1:
        _check_keys(text)


def _most_keys(text: str | bytes) -> int:
    """How many keys there are at most: the colons behind a quote, or behind a blank, which may stand between the two.

    Most colons inside a string stand behind neither, so that an address or a time of day costs no second parse.
    """
    if isinstance(text, str):
        return sum(text.count(end) for end in ('":', " :", "\n:", "\t:", "\r:"))
    return sum(text.count(end) for end in (b'":', b" :", b"\n:", b"\t:", b"\r:"))


def plain_problem(arguments: Any, error: Exception) -> Problem:
    """Why Python values could not become JSON, in words about the values."""
    if isinstance(error, RecursionError) or "ircular" in str(error):
        return Problem((), "limit", phrase("they are nested too deep or refer to themselves"))
    if "surrogate" in str(error):
        return Problem((), "json", HALF_PAIR)
    said = phrase("they are {kind} values that have no JSON form", kind=json_type(arguments))
    return Problem((), "json", said)


def _depth(text: str | bytes) -> int:
    """How deep the brackets nest, not counting those inside strings."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    deepest = level = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', plain, re.DOTALL):
        character = plain[token.start()]
        if character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest


def _check_numbers(text: str | bytes, digits: int) -> None:
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    if not _may_have_run(plain, digits + 1):
        return

    def measure(number: str) -> None:
        if len(number.lstrip("-")) > digits:
            size = f"{len(number):,}"
            said = phrase("a number has {size} digits, where at most {most} are taken", size=size, most=digits)
            raise InvalidParams([Problem((), "limit", said)])

    try:
        json.loads(plain, parse_int=measure, parse_float=measure)
    except (ValueError, RecursionError):
        return  # not JSON: the parser that reads it for real says so


def _check_constants(text: str | bytes) -> None:
    def refuse(name: str) -> None:
        raise InvalidParams([Problem((), "json", phrase("`{name}` is not JSON; numbers must be finite", name=name))])

    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return


def _check_floats(text: str | bytes) -> None:
    def refuse(number: str) -> None:
        if float(number) in (float("inf"), float("-inf")):
            said = phrase("the number {number} is larger than any that can be kept", number=number[:20])
            raise InvalidParams([Problem((), "limit", said)])

    try:
        json.loads(text, parse_float=refuse)
    except (ValueError, RecursionError):
        return


def _may_have_run(text: str, length: int) -> bool:
    """Whether `length` digits stand in a row. Such a row covers one of every `length` places, so few are looked at."""
    if _DIGIT.search(text[length - 1 :: length]) is None:
        return False
    for place in range(length - 1, len(text), length):
        if text[place] in _DIGITS:
            before, after = text[place - length + 1 : place], text[place : place + length]
            if len(before) - len(before.rstrip(_DIGITS)) + len(after) - len(after.lstrip(_DIGITS)) >= length:
                return True
    return False


def _check_keys(text: str | bytes) -> None:
    objects: list[list[tuple[str, Any]]] = []
    try:
        json.loads(text, object_pairs_hook=objects.append)
    except (ValueError, RecursionError):
        return
    if sum(map(len, objects)) == sum(map(len, map(dict, objects))):
        return
    for pairs in objects:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                said = phrase("the key `{key}` stands twice in one object; give it once", key=key[:200])
                raise InvalidParams([Problem((), "json", said)])
            seen.add(key)


_ROUNDS = 6  # every text repair once, then the values, then the values inside mended ones
_NOTHING = object()
# Only a comma after a value is one too many; after another comma or a bracket, a value may be missing.
_STRING_OR_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|(?<=[\w"}\]])(\s*),(\s*[}\]])', re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?")
_CONTROL = re.compile(r"[\x00-\x1f]")
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


def repair(tool: Tool[Any], text: str | bytes, invalid: InvalidParams, limits: Limits) -> tuple[Any, tuple[str, ...]]:
    """Parameters from mended arguments, and notes on what was mended; raises `InvalidParams` with the problems left.

    Mended text is held to the same limits.
    """
    notes: list[str] = []
    for _ in range(_ROUNDS):
        if invalid.problems[0].code == "json":
            mended = _mend_text(text, notes)
            if mended is None:
                raise invalid
            text = mended
            check_text(text, None, limits, duplicates=True)
        else:
            value = _mend_value(invalid, tool.input_schema, notes)
            if value is _NOTHING:
                raise invalid
            from ferrule.pipeline.json_form import to_text

            text = to_text(value)
            check_text(text, None, limits, duplicates=False)
        try:
            return tool.params.load(text), tuple(notes)
        except InvalidParams as still:
            invalid = still
        except Exception:  # noqa: BLE001 - a validator of the author's own, which took only what it was given before
            break
    raise invalid


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
