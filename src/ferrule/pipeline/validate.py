"""Stages one and two, both pure: look up the tool, and validate the arguments straight from their JSON text."""

from __future__ import annotations

import copy
import json
import logging
import re
from collections import Counter
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError, ErrorKind, Stage, StoppedError
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.nearest import nearest
from ferrule.core.phrases import Phrase, advice, joined, phrase
from ferrule.core.problems import (
    HALF_PAIR,
    InvalidParamsError,
    PathPart,
    Problem,
    format_path,
    json_type,
    own_problems,
    show,
)
from ferrule.core.schemas import schema_at
from ferrule.core.secrets import is_secret_name
from ferrule.core.shown_text import cut, one_line
from ferrule.core.tool import Invocation
from ferrule.pipeline.cleaning import clean_exception, clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferrule.core.call import Limits, RawCall
    from ferrule.core.tool import Tool
    from ferrule.registry.registry import ToolSource


def lookup(source: ToolSource, call: RawCall) -> Tool[Any]:
    """The tool that a call names. For an unknown name, the error suggests the nearest ones."""
    if not isinstance(call.name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - models send anything
        raise _unknown(source, call.name)
    entry = source.entry(call.name, call.version)
    if entry is not None and entry.enabled:
        return entry.tool
    if entry is not None:
        raise StoppedError(
            Stage.LOOKUP,
            ErrorKind.NOT_FOUND,
            phrase("The tool `{name}` is switched off.", name=call.name),
            phrase("Use another tool, or go on without it."),
        )
    if call.version is not None and (current := source.get(call.name)) is not None:
        raise StoppedError(
            Stage.LOOKUP,
            ErrorKind.NOT_FOUND,
            phrase("The tool `{name}` has no version {version}.", name=call.name, version=show(call.version)),
            phrase("Its current version is {version}.", version=current.version),
        )
    if why := source.why_left_out(call.name):
        raise StoppedError(
            Stage.LOOKUP,
            ErrorKind.PERMISSION,
            phrase("The tool `{name}` {why}.", name=call.name, why=why),
            advice("Go on with the tools you were given.", "`ferrule tools` lists the tools that are there."),
        )
    raise _unknown(source, call.name)


def _unknown(source: ToolSource, name: Any) -> StoppedError:
    message = phrase("There is no tool {name}.", name=_quoted(name))
    names = source.names()
    close = nearest(name, names) if isinstance(name, str) else []
    if close:
        suggestion = phrase("Did you mean {names}?", names=joined(" or ", [f"`{one}`" for one in close]))
    elif not names:
        suggestion = phrase("No tools are available.")
    elif len(names) <= 20:
        suggestion = phrase("The tools are: {names}.", names=", ".join(f"`{one}`" for one in names))
    else:
        suggestion = advice(
            "Choose one of the {count} tools you were given.",
            "`ferrule tools` lists the {count} tools that are there.",
            count=len(names),
        )
    return StoppedError(Stage.LOOKUP, ErrorKind.NOT_FOUND, message, suggestion, {"nearest": close})


def _quoted(name: Any) -> str:
    return f"`{name}`" if isinstance(name, str) and len(name) <= 80 and one_line(name) == name else show(name)


# What JSON parsers accept and a tool must not get: duplicate keys, deep nesting, endless numbers.


_DIGITS = "0123456789"
_DIGIT = lazy_pattern("[0-9]")
_HUGE = (lazy_pattern(r"e\+?[0-9]{3}"), lazy_pattern(r"E\+?[0-9]{3}"))
"""An exponent that may be more than a float can hold. Two patterns are twice as fast as one with a choice."""


def check_text(text: str | bytes, flat_size: int | None, limits: Limits, *, duplicates: bool) -> None:
    """Raise `InvalidParamsError` for text outside the limits.

    Counting characters first saves almost every call a second parse: each key needs a colon and each level an opening
    bracket, so small counts rule problems out. `flat_size` is the number of keys that were read, if known.
    """
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    colons, digits = plain.count(":"), limits.number_digits
    # If every key was read into a field of the schema, none is a duplicate or too deep, and no number is infinite.
    is_known = flat_size is not None and (colons == flat_size or _most_keys(plain) == flat_size)
    if is_known and len(plain) <= digits:
        return
    objects: list[list[tuple[str, Any]]] = []
    hooks: dict[str, Any] = {}
    if len(plain) > digits and _may_have_run(plain, digits + 1):
        hooks["parse_int"] = hooks["parse_float"] = partial(_check_digits, digits)
    if not is_known:
        openers = plain.count("{") + plain.count("[")
        if openers > limits.argument_depth and (depth := _depth(plain)) > limits.argument_depth:
            most = limits.argument_depth
            said = phrase("they are nested {depth} deep, where at most {most} is allowed", depth=depth, most=most)
            raise InvalidParamsError([Problem((), "limit", said)])
        if "NaN" in plain or "Infinity" in plain:
            hooks["parse_constant"] = _refuse_constant
        if any(one.search(plain) for one in _HUGE):
            hooks["parse_float"] = partial(_check_size, hooks.get("parse_float", float))
        if duplicates and colons > 1:
            hooks["object_pairs_hook"] = objects.append
    if not hooks:
        return
    try:
        json.loads(plain, **hooks)
    except (ValueError, RecursionError):
        return  # not JSON, as the actual parser will say
    if sum(map(len, objects)) > sum(map(len, map(dict, objects))):
        keys = next(keys for pairs in objects if len(set(keys := [key for key, _ in pairs])) < len(keys))
        doubled = next(key for key, times in Counter(keys).items() if times > 1)
        said = phrase("the key `{key}` appears twice in one object; give it once", key=doubled[:200])
        raise InvalidParamsError([Problem((), "json", said)])


def _check_digits(most: int, number: str) -> None:
    if len(number.lstrip("-")) > most:
        size = f"{len(number):,}"
        said = phrase("a number has {size} digits, where at most {most} are allowed", size=size, most=most)
        raise InvalidParamsError([Problem((), "limit", said)])


def _check_size(first: Callable[[str], object], number: str) -> None:
    first(number)
    if abs(float(number)) == float("inf"):
        raise InvalidParamsError([Problem((), "limit", phrase("the number {number} is too large", number=number[:20]))])


def _refuse_constant(name: str) -> None:
    raise InvalidParamsError([Problem((), "json", phrase("`{name}` is not JSON; numbers must be finite", name=name))])


def _most_keys(text: str) -> int:
    """How many keys there are at most: the colons that follow a quote, or white space, which may separate the two.

    Most colons inside strings follow neither, so that URLs and times of day need no second parse.
    """
    return sum(text.count(end) for end in ('":', " :", "\n:", "\t:", "\r:"))


def plain_problem(arguments: Any, error: Exception) -> Problem:
    """Why Python values could not become JSON, in words about the values."""
    if isinstance(error, RecursionError) or "ircular" in str(error):
        return Problem((), "limit", phrase("they are nested too deep or refer to themselves"))
    if "surrogate" in str(error):
        return Problem((), "json", HALF_PAIR)
    said = phrase("they are {kind} values that have no JSON form", kind=json_type(arguments))
    return Problem((), "json", said)


def _depth(text: str) -> int:
    """How deep the brackets nest, not counting those inside strings."""
    deepest = level = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', text, re.DOTALL):
        character = text[token.start()]
        if character in "[{":
            level += 1
            deepest = max(deepest, level)
        elif character in "]}":
            level -= 1
    return deepest


def _may_have_run(text: str, length: int) -> bool:
    """Whether there are `length` digits in a row. They cover one of every `length` places, so few are checked."""
    if _DIGIT.search(text[length - 1 :: length]) is None:
        return False
    for place in range(length - 1, len(text), length):
        if text[place] in _DIGITS:
            before, after = text[place - length + 1 : place], text[place : place + length]
            if len(before) - len(before.rstrip(_DIGITS)) + len(after) - len(after.lstrip(_DIGITS)) >= length:
                return True
    return False


# Repairs of common mistakes of models, only where the intention is clear. Each is noted.


_ROUNDS = 6  # every repair of the text once, then the values, then the values inside repaired ones
_NOTHING = object()
# Only a comma after a value is one too many; after another comma or a bracket, a value may be missing.
_STRING_OR_TRAILING_COMMA = lazy_pattern(r'("(?:[^"\\]|\\.)*+")|(?<=[\w"}\]])(\s*),(\s*[}\]])', re.DOTALL)
_STRING = lazy_pattern(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_INTEGER = lazy_pattern(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = lazy_pattern(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?")
_CONTROL = lazy_pattern(r"[\x00-\x1f]")
_FENCE = lazy_pattern(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


def repair(
    tool: Tool[Any], text: str | bytes, invalid: InvalidParamsError, limits: Limits, *, repairs: bool = True
) -> tuple[Any, tuple[str, ...], InvalidParamsError | None]:
    """Parameters from repaired arguments, and notes about the repairs; or the error with what is left.

    Repaired text must keep the same limits. Without `repairs`, only null for an optional field of a strict tool is read
    as not given, which is what providers make models send there.
    """
    notes: list[str] = []
    repairs = repairs and tool.repair
    for _ in range(_ROUNDS if repairs or tool.strict else 0):
        if invalid.problems[0].code == "json":
            mended = _mend_text(text, notes) if repairs else None
            if mended is None:
                break
            text = mended
            check_text(text, None, limits, duplicates=True)
        else:
            value = _mend_value(invalid, tool.input_schema, notes, repairs=repairs)
            if value is _NOTHING:
                break
            from ferrule.core.params import to_text

            text = to_text(value)
            check_text(text, None, limits, duplicates=False)
        try:
            return tool.params.load(text), tuple(notes), None
        except InvalidParamsError as still:
            invalid = still.with_traceback(None)  # which refers to this frame
        except Exception:  # noqa: BLE001 - a custom validator that accepts only the original
            break
    return None, (), invalid


def read_values(tool: Tool[Any], call: RawCall, limits: Limits, notes: list[str], *, repairs: bool = True) -> Any:
    """The arguments as plain values, from text that is repaired if need be; None if it cannot be read."""
    arguments = call.arguments
    text: str | bytes = arguments if isinstance(arguments, (str, bytes)) else as_json(tool, arguments)
    for _ in range(_ROUNDS):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            mended = _mend_text(text, notes) if repairs and tool.repair else None
            if mended is None:
                return None
            text = mended
        else:
            try:
                check_text(text, None, limits, duplicates=True)
            except InvalidParamsError as invalid:
                raise _invalid(tool, invalid.problems) from None
            return value
    return None


def _mend_text(text: str | bytes, notes: list[str]) -> str | None:
    """Text that is not JSON with one repair; None if none applies."""
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


def _mend_value(invalid: InvalidParamsError, schema: Any, notes: list[str], *, repairs: bool) -> Any:
    """A copy of the value with all possible repairs, or `_NOTHING` if there are none."""
    value: Any = _NOTHING
    repaired: list[tuple[PathPart, ...]] = []
    for problem in invalid.problems:
        path = problem.path
        if problem.code in ("missing", "unknown") or (found := _value_at(invalid.value, path)) is _NOTHING:
            continue
        is_unset = found is None and path and _is_optional(path, schema)
        reading = _only_reading(found, problem) if repairs and not is_unset else _NOTHING
        # A place may have several problems, and what was repaired around it may hold it no longer.
        if (reading is _NOTHING and not is_unset) or any(path[: len(one)] == one for one in repaired):
            continue
        repaired.append(path)
        value = copy.deepcopy(invalid.value) if value is _NOTHING else value
        if is_unset:
            del _value_at(value, path[:-1])[path[-1]]
            notes.append(f"`{problem.where}`: null for an optional field read as not given")
            continue
        if path:
            _value_at(value, path[:-1])[path[-1]] = reading
        else:
            value = reading
        secret = any(isinstance(part, str) and is_secret_name(part) for part in path)
        notes.append(f"`{problem.where}`: {'read as another type' if secret else _story(found, reading)}")
    return value


def _only_reading(found: Any, problem: Problem) -> Any:
    """The one value of the expected types and choices that was meant, or `_NOTHING` if that is not clear."""
    if problem.code not in ("type", "union", "enum"):
        return _NOTHING
    readings: list[Any] = []
    for kind in problem.expected:
        reading = _read_as(found, kind)
        if reading is not _NOTHING:
            readings.append(reading)
    if problem.choices:
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
        raise ValueError("a key appears twice, so there is more than one reading")
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


_SHOWN_PROBLEMS = 20
_SHOWN_UNKNOWN = 10

logger = logging.getLogger("ferrule.calls")
_SHOWN_CHARACTERS = 1000
_SHOWN_VALUE = 300


def validate(tool: Tool[Any], call: RawCall, limits: Limits, *, repairs: bool = True) -> Invocation:
    """Read the arguments into the tool's parameters, and repair harmless mistakes whose intention is clear.

    Nothing is repaired without `repairs`, or if the tool says `repair=False`.
    """
    arguments = call.arguments
    is_text = isinstance(arguments, (str, bytes))
    text: str | bytes = arguments if is_text else as_json(tool, arguments)
    if len(text) > limits.argument_bytes:
        said = phrase(
            "{size} bytes of arguments, where at most {most} are allowed",
            size=f"{len(text):,}",
            most=f"{limits.argument_bytes:,}",
        )
        raise _invalid(tool, [Problem((), "limit", said)])
    params: Any = None
    notes: tuple[str, ...] = ()
    refused: tuple[list[Problem], int] | None = None
    try:
        try:
            params = tool.params.load(text)
        except InvalidParamsError as invalid:
            short = is_text and len(text) <= limits.number_digits and len(text) <= 2 * limits.argument_depth
            if not short or invalid.problems[0].code == "json":
                check_text(text, None, limits, duplicates=False)  # its message is better than the parser's
            params, notes, left = repair(tool, text, invalid, limits, repairs=repairs)
            if left is not None:
                refused = left.problems, left.more
                del left  # it refers to this frame; the cycle would keep the call until a garbage collection
        if refused is None:
            # The number of keys that were read tells something about the text only if the text was not repaired.
            known = None if notes else tool.params.flat_size(params)
            check_text(text, known, limits, duplicates=is_text)
            if tool.has_check and (problems := own_problems(tool.name, tool.check, params)):
                refused = problems, 0
    except InvalidParamsError as error:
        refused = error.problems, error.more
    except DefinitionError as error:
        raise _defined_wrongly(tool, error) from error
    except Exception as error:  # custom checks and validators can raise anything
        raise _check_failed(tool, error) from error
    if refused is not None:
        raise _invalid(tool, *refused)
    return Invocation(tool, params, call.id, notes)


def validate_around(
    tool: Tool[Any], arguments: Any, places: list[tuple[PathPart, ...]], limits: Limits, notes: list[str],
    *, repairs: bool = True,
) -> Any:  # fmt: skip
    """Check everything but the given places, whose values are not known yet; raises `StoppedError`.

    Returns the arguments, with repairs if need be. What is wrong with an object around such a place may be due to it.
    """

    def is_certain(problem: Problem) -> bool:
        path, vague = problem.path, problem.code in ("value", "union")
        return not any(path[: len(one)] == one or (vague and one[: len(path)] == path) for one in places)

    for _ in range(4):
        text = as_json(tool, arguments)
        try:
            check_text(text, None, limits, duplicates=False)
            tool.params.load(text)
        except InvalidParamsError as invalid:
            rest = [problem for problem in invalid.problems if is_certain(problem)]
            if not rest:
                return arguments
            repairs = repairs and tool.repair
            mended: Any = _NOTHING
            if repairs or tool.strict:
                mended = _mend_value(InvalidParamsError(rest, invalid.value), tool.input_schema, notes, repairs=repairs)
            if mended is _NOTHING:
                raise _invalid(tool, rest) from None
            arguments = mended
        except DefinitionError:
            raise
        except Exception as error:
            raise _check_failed(tool, error) from error
        else:
            return arguments
    raise _invalid(tool, [Problem((), "value", phrase("they do not fit, even after repairs"))])


def _check_failed(tool: Tool[Any], error: Exception) -> StoppedError:
    stopped = StoppedError(
        Stage.VALIDATE,
        ErrorKind.EXECUTION,
        phrase(
            "`{name}` was not run: its own check of the arguments failed. {error}",
            name=tool.name,
            error=clean_exception(error),
        ),
        phrase("Try other arguments or another tool; its author has to fix this one."),
    )
    stopped.crash = error
    return stopped


def as_json(tool: Tool[Any], arguments: Mapping[str, Any] | None) -> bytes:
    """Arguments that came as Python values, as JSON text."""
    if arguments is None:
        return b"{}"
    from ferrule.core.params import NO_JSON_FORM, to_text

    try:
        return to_text(arguments)
    except NO_JSON_FORM as error:
        raise _invalid(tool, [plain_problem(arguments, error)]) from None


def _defined_wrongly(tool: Tool[Any], error: DefinitionError) -> StoppedError:
    logger.warning("Tool %s cannot be called: %s", tool.name, error)
    return StoppedError(
        Stage.VALIDATE,
        ErrorKind.EXECUTION,
        phrase("The tool `{name}` is not defined correctly and cannot be called.", name=tool.name),
        phrase("Use another tool; its author has to fix this one."),
        {"reason": clean_text(str(error))},
    )


def _invalid(tool: Tool[Any], problems: list[Problem], more: int = 0) -> StoppedError:
    try:
        form = tool.expected_form
    except DefinitionError as error:
        return _defined_wrongly(tool, error)
    listed: list[dict[str, str]] = []
    total, shown = len(problems) + more, problems
    lines: list[str] = [_head(tool.name, total)]
    if total > _SHOWN_UNKNOWN:
        unknown = count()
        shown = [one for one in problems if one.code != "unknown" or next(unknown) < _SHOWN_UNKNOWN][:_SHOWN_PROBLEMS]
    for problem in shown:
        one = listed_problem(problem)
        listed.append(one)
        lines.append((_known_line if problem.code in _BY_SCHEMA else _line)(one["path"], one["message"]))
    display = ""
    if total == 1 and problems[0].code in ("json", "limit"):
        message = phrase(
            "The arguments of `{name}` were not accepted: {why}.", name=tool.name, why=listed[0]["message"]
        )
    else:
        if total > len(shown):
            lines.append(phrase("- and {count} more", count=f"{total - len(shown):,}"))
        message = joined("\n", lines)
        display = phrase("`{path}`: {message}", path=listed[0]["path"], message=listed[0]["message"])
        if total > 1:
            display = joined("; ", [display, _others(total - 1)])
    return StoppedError(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        message,
        _again(tool.name, form),
        {"problems": listed},
        display,
    )


def _line(path: str, message: str) -> Phrase:
    return phrase("- `{path}`: {message}", path=path, message=message)


_BY_SCHEMA = ("missing", "unknown")
"""Problems whose messages contain only names of the schema, so that caching them pays."""
_known_line = lru_cache(maxsize=256, typed=True)(_line)


@lru_cache(maxsize=256)
def _head(name: str, number: int) -> Phrase:
    if number == 1:
        return phrase("The arguments of `{name}` have 1 problem:", name=name)
    return phrase("The arguments of `{name}` have {count} problems:", name=name, count=f"{number:,}")


@lru_cache(maxsize=256)
def _others(number: int) -> Phrase:
    return phrase("and {count} more", count=f"{number:,}")


@lru_cache(maxsize=256)
def _again(name: str, form: str) -> Phrase:
    return phrase("Call `{name}` again with {form}.", name=name, form=form)


def listed_problem(problem: Problem) -> dict[str, str]:
    """A problem for the model: short, and without values of secrets."""
    where, code, message = format_path(problem.path), problem.code, problem.message
    if code == "value":  # may be what a custom validator raised
        message = clean_text(message)
    if "got " in message:
        message = _without_secret(problem, message)
    if len(where) + len(message) > _SHOWN_CHARACTERS:
        if isinstance(message, Phrase) and len(message) > _SHOWN_CHARACTERS:
            message = message.mapped(lambda value: cut(value, _SHOWN_VALUE))  # and can still be translated
        # Keys and values can be of any length.
        where, message = cut(where, _SHOWN_CHARACTERS), cut(message, _SHOWN_CHARACTERS)
    return {"path": where, "code": code, "message": message}


def _without_secret(problem: Problem, message: str) -> str:
    """The message without the value that it quotes, if that is a secret."""
    for part in problem.path:
        if isinstance(part, str) and is_secret_name(part):
            hidden = phrase("a value that is not shown")
            if isinstance(message, Phrase) and "found" in message.values:
                return phrase(message.template, **{**message.values, "found": hidden})
            if problem.rule:
                return phrase("{rule}; got {found}", rule=problem.rule, found=hidden)
            return re.sub(r"\bgot .*", "got a value that is not shown", message, flags=re.DOTALL)
    return message
