"""Stage two: the arguments, checked straight from their JSON text. Pure: nothing happens yet."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import DefinitionError, ErrorKind, Stage, Stopped
from ferrule.core.phrases import Phrase, joined, phrase
from ferrule.core.problems import InvalidParams, Problem, own_problems
from ferrule.core.secrets import is_secret_name
from ferrule.core.tool import Invocation
from ferrule.pipeline.cleaning import clean_exception, clean_text
from ferrule.pipeline.repair import check_text, mend_around, plain_problem, repair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.call import RawCall
    from ferrule.core.problems import PathPart
    from ferrule.core.tool import Tool
    from ferrule.pipeline.stages import Limits

_SHOWN_PROBLEMS = 20

logger = logging.getLogger("ferrule.calls")
_SHOWN_CHARACTERS = 1000
_SHOWN_VALUE = 300


def validate(tool: Tool[Any], call: RawCall, limits: Limits) -> Invocation:
    """Read the arguments into the tool's parameters, mending harmless mistakes that have one reading only."""
    arguments = call.arguments
    is_text = isinstance(arguments, (str, bytes))
    text: str | bytes = arguments if is_text else as_json(tool, arguments)
    if len(text) > limits.argument_bytes:
        said = phrase(
            "{size} bytes of arguments, where at most {most} are taken",
            size=f"{len(text):,}",
            most=f"{limits.argument_bytes:,}",
        )
        raise _invalid(tool, [Problem((), "limit", said)])
    repairs: tuple[str, ...] = ()
    try:
        try:
            params = tool.params.load(text)
        except InvalidParams as invalid:
            short = is_text and len(text) <= limits.number_digits and len(text) <= 2 * limits.argument_depth
            if not short or invalid.problems[0].code == "json":
                check_text(text, None, limits, duplicates=False)  # a limit says more than the parser's own words
            params, repairs = repair(tool, text, invalid, limits)
        # The count of keys says something of the text that came in only if that is what was read.
        known = None if repairs else tool.params.flat_size(params)
        check_text(text, known, limits, duplicates=is_text)
        problems = own_problems(tool.name, tool.check, params) if tool.has_check else []
    except InvalidParams as invalid:
        raise _invalid(tool, invalid.problems) from None
    except DefinitionError as error:
        raise _defined_wrongly(tool, error) from error
    except Exception as error:  # a check or a validator of the author's own can raise anything
        raise _check_failed(tool, error) from error
    if problems:
        raise _invalid(tool, problems)
    return Invocation(tool, params, call.id, repairs)


def validate_around(tool: Tool[Any], arguments: Any, places: list[tuple[PathPart, ...]], limits: Limits) -> Any:
    """Check everything but the given places, whose values are not known yet; raises `Stopped`.

    Gives the arguments, mended where they had to be.
    """
    for _ in range(4):
        text = as_json(tool, arguments)
        try:
            check_text(text, None, limits, duplicates=False)
            tool.params.load(text)
        except InvalidParams as invalid:
            rest = [p for p in invalid.problems if not any(p.path[: len(place)] == place for place in places)]
            if not rest:
                return arguments
            mended = mend_around(InvalidParams(rest, invalid.value), tool.input_schema)
            if mended is None:
                raise _invalid(tool, rest) from None
            arguments = mended
        except DefinitionError:
            raise
        except Exception as error:
            raise _check_failed(tool, error) from error
        else:
            return arguments
    raise _invalid(tool, [Problem((), "value", phrase("they do not fit, whatever is mended"))])


def _check_failed(tool: Tool[Any], error: Exception) -> Stopped:
    logger.info("The check of tool %s failed", tool.name, exc_info=error)
    return Stopped(
        Stage.VALIDATE,
        ErrorKind.EXECUTION,
        phrase(
            "`{name}` was not run: its own check of the arguments failed. {error}",
            name=tool.name,
            error=clean_exception(error),
        ),
        phrase("Try other arguments or another tool; its author has to mend this one."),
    )


def as_json(tool: Tool[Any], arguments: Mapping[str, Any] | None) -> bytes:
    """Arguments that came as Python values, as the JSON text they stand for."""
    if arguments is None:
        return b"{}"
    from ferrule.pipeline.json_form import NO_JSON_FORM, to_text

    try:
        return to_text(arguments)
    except NO_JSON_FORM as error:
        raise _invalid(tool, [plain_problem(arguments, error)]) from None


def _cut(text: str) -> str:
    """A model may send a key or a value of any length, and must not get all of it back."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _cut_value(text: str) -> str:
    """What is filled into a phrase that is too long, so that it stays one."""
    return text if len(text) <= _SHOWN_VALUE else text[: _SHOWN_VALUE - 1] + "…"


def _defined_wrongly(tool: Tool[Any], error: DefinitionError) -> Stopped:
    logger.warning("Tool %s cannot be called: %s", tool.name, error)
    return Stopped(
        Stage.VALIDATE,
        ErrorKind.EXECUTION,
        phrase("The tool `{name}` is defined wrongly and cannot be called.", name=tool.name),
        phrase("Use another tool; its author has to mend this one."),
        {"reason": str(error)},
    )


def _invalid(tool: Tool[Any], problems: list[Problem]) -> Stopped:
    try:
        form = tool.expected_form
    except DefinitionError as error:
        return _defined_wrongly(tool, error)
    listed = [listed_problem(problem) for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) == 1 and problems[0].code in ("json", "limit"):
        message = phrase(
            "The arguments of `{name}` were not accepted: {why}.", name=tool.name, why=listed[0]["message"]
        )
    else:
        lines = [(_known_line if one["code"] in _BY_SCHEMA else _line)(one["path"], one["message"]) for one in listed]
        if len(problems) > _SHOWN_PROBLEMS:
            lines.append(phrase("- and {count} more", count=len(problems) - _SHOWN_PROBLEMS))
        message = joined("\n", [_head(tool.name, len(problems)), *lines])
    return Stopped(
        Stage.VALIDATE,
        ErrorKind.VALIDATION,
        message,
        _again(tool.name, form),
        {"problems": listed},
    )


def _line(path: str, message: str) -> Phrase:
    return phrase("- `{path}`: {message}", path=path, message=message)


_BY_SCHEMA = ("missing", "unknown")
"""Problems whose words hold nothing of the arguments but a name, and which models have again and again."""
_known_line = lru_cache(maxsize=256, typed=True)(_line)


@lru_cache(maxsize=256)
def _head(name: str, count: int) -> Phrase:
    if count == 1:
        return phrase("The arguments of `{name}` have 1 problem:", name=name)
    return phrase("The arguments of `{name}` have {count} problems:", name=name, count=count)


@lru_cache(maxsize=256)
def _again(name: str, form: str) -> Phrase:
    return phrase("Call `{name}` again with {form}.", name=name, form=form)


def listed_problem(problem: Problem) -> dict[str, str]:
    """A problem as it may leave: short, and without the value of a secret."""
    where, message = problem.where, _fit(problem)
    if len(where) + len(message) > _SHOWN_CHARACTERS:
        if isinstance(message, Phrase) and len(message) > _SHOWN_CHARACTERS:
            message = message.mapped(_cut_value)
        where, message = _cut(where), _cut(message)
    return {"path": where, "code": problem.code, "message": message}


def _fit(problem: Problem) -> str:
    """A problem's message as it may leave: what code raised is cleaned, and a secret's value is not quoted."""
    message = clean_text(problem.message) if problem.code == "value" else problem.message
    if "got " not in message:
        return message
    for part in problem.path:
        if isinstance(part, str) and is_secret_name(part):
            hidden = phrase("a value that is not shown")
            if isinstance(message, Phrase) and "found" in message.values:
                return phrase(message.template, **{**message.values, "found": hidden})
            if problem.rule:
                return phrase("{rule}; got {found}", rule=problem.rule, found=hidden)
            return re.sub(r"\bgot .*", "got a value that is not shown", message, flags=re.DOTALL)
    return message
