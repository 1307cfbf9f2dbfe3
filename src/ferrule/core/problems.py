"""What is wrong with a call's arguments, one problem at a time, whoever found it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from inspect import iscoroutine
from itertools import filterfalse
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError, ToolError
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.nearest import nearest
from ferrule.core.phrases import Phrase, glued, joined, phrase
from ferrule.core.shown_text import cut, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping, Sequence


PathPart = str | int
Path = tuple[PathPart, ...]

SHOWN = 12
"""Choices and fields that are listed before only their number is told."""


@dataclass(slots=True)
class Problem:
    """One thing wrong at one place.

    `code` is a stable word: `type`, `missing`, `unknown`, `enum`, `range`, `length`, `format`, `union`, `json`,
    `limit`, `value`. For `type` and `union`, `expected` holds JSON type names (`integer`, `object`, …), and `choices`
    the values of which one would do. `form` is what would do, as it reads after "expected", and `rule` the message
    without the value that was found.
    """

    path: Path
    code: str
    message: str
    expected: tuple[str, ...] = ()
    choices: Sequence[Any] = ()
    form: str = ""
    rule: str = ""

    @property
    def where(self) -> str:
        """The place in the form a model would write it: `items[2].price`."""
        return format_path(self.path)


class InvalidParamsError(Exception):
    """The arguments do not fit. Carries the problems and, when it could be read, the value itself.

    `more` is how many problems there are besides: only so many are worked out.
    """

    def __init__(self, problems: Sequence[Problem], value: Any = None, *, more: int = 0) -> None:
        self.problems = problems if isinstance(problems, list) else list(problems)
        self.value = value
        self.more = more

    def __str__(self) -> str:
        return "; ".join(f"{problem.where}: {problem.message}" for problem in self.problems)


def own_problems(tool: str, check: Callable[[Any], Any], params: Any) -> list[Problem]:
    """What a tool's own check finds: nothing, one problem or several, each a `Problem` or plain text.

    A ValueError or a ToolError from it is a problem with the whole.
    """
    try:
        said: Any = check(params)
        if said is None:
            return []
        several = hasattr(said, "__iter__") and not isinstance(said, (str, bytes, dict))
        listed: list[Any] = list(cast("Any", said)) if several else [said]
    except InvalidParamsError as invalid:
        return invalid.problems
    except ToolError as error:
        return [Problem((), "value", error.message)]
    except ValueError as error:
        return [Problem((), "value", str(error))]
    return [_as_problem(tool, one) for one in listed]


def _as_problem(tool: str, said: Any) -> Problem:
    if isinstance(said, Problem):
        return said
    if isinstance(said, str):
        return Problem((), "value", said)
    what = repr(said)
    if iscoroutine(said):
        said.close()
        what = "a coroutine; it must not be async"
    raise DefinitionError(
        f"`{tool}`: its check returned {what}. Return or yield Problem(…), or nothing if all is well."
    )


def format_path(path: Sequence[PathPart]) -> str:
    """`("items", 2, "price")` becomes `items[2].price`; the empty path is `arguments`."""
    if not path:
        return "arguments"
    if len(path) == 1 and isinstance(path[0], str):  # a field of the arguments themselves, as most are
        return path[0]
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not text:
            text = part
        else:
            text += f".{part}"
    return text


_JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


def json_type(value: Any) -> str:
    """The JSON name of a value's type, as a model knows it."""
    name = _JSON_TYPES.get(type(value))  # pyright: ignore[reportUnknownArgumentType]
    return name or type(value).__name__


def show(value: Any, limit: int = 60) -> str:
    """A value as short JSON-like text for a message; strings are quoted, long ones cut."""
    if isinstance(value, str):
        if len(value) <= limit and value.isalnum():
            return f'"{value}"'
        return quoted(cut(value, limit))
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        if isinstance(value, int) and abs(value) >= 10**limit:
            return phrase("a number of more than {limit} digits", limit=limit)
        if isinstance(value, float) and not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return repr(value)
    if isinstance(value, dict):
        return phrase("an object") if value else phrase("an empty object")
    if isinstance(value, list):
        return phrase("an array") if value else phrase("an empty array")
    return json_type(value)


def got(value: Any) -> str:
    """`string "x"`, `integer 5`, `an object`: what was there instead of what was expected."""
    shown = show(value)
    if not isinstance(value, str):
        if value is None or isinstance(value, (dict, list, bool)):
            return shown
        if isinstance(shown, Phrase):
            return joined(" ", [json_type(value), shown])
    return f"{json_type(value)} {shown}"


def or_list(words: Sequence[str]) -> str:
    """`a, b or c`."""
    if len(words) < 2:
        return words[0] if words else phrase("something else")
    return phrase("{some} or {last}", some=joined(", ", words[:-1]), last=words[-1])


def one_of(values: Sequence[Any]) -> str:
    """`one of 1, 2 and 3 more`."""
    known = joined(", ", [show(one) for one in values[:SHOWN]])
    if len(values) <= SHOWN:
        return phrase("one of {known}", known=known)
    return phrase("one of {known} and {count} more", known=known, count=len(values) - SHOWN)


def counted(number: Any, unit: str) -> str:
    """`1 item`, `3 characters`."""
    one, many = _UNITS[unit]
    return one if number == 1 else phrase(many.template, count=number)


_UNITS: dict[str, tuple[Phrase, Phrase]] = {
    "character": (phrase("1 character"), phrase("{count} characters")),
    "byte": (phrase("1 byte"), phrase("{count} bytes")),
    "digit": (phrase("1 digit"), phrase("{count} digits")),
    "item": (phrase("1 item"), phrase("{count} items")),
    "different item": (phrase("1 different item"), phrase("{count} different items")),
    "field": (phrase("1 field"), phrase("{count} fields")),
}


# The words for the commonest problems


def wrong_choice(path: Path, choices: Sequence[Any], value: Any) -> Problem:
    """None of the values that are allowed."""
    close: list[str] = []
    if len(choices) <= SHOWN:
        form = or_list([show(choice) for choice in choices])
    else:
        form = one_of(choices)
        names = [one for one in choices if isinstance(one, str)]
        close = nearest(value, names) if isinstance(value, str) else []
    problem = out_of_form(path, "enum", form, value)
    problem.choices = choices
    if close:
        meant = or_list([show(one) for one in close])
        problem.message = phrase("{problem}. Did you mean {meant}?", problem=problem.message, meant=meant)
    return problem


def out_of_form(path: Path, code: str, form: str, value: Any) -> Problem:
    """A value that must be `a date like …`, or `at least 2`, and is not."""
    problem = against_rule(path, code, phrase("must be {form}", form=form), value)
    problem.form = form
    return problem


def against_rule(path: Path, code: str, rule: str, value: Any) -> Problem:
    """A value that `must match …`, and does not."""
    return Problem(path, code, phrase("{rule}; got {found}", rule=rule, found=got(value)), rule=rule)


def wrong_size(path: Path, unit: str, limit: Any, size: int | None, *, least: bool) -> Problem:
    """Less or more of something than there may be: `must have at least 3 items, not 2`."""
    amount = counted(limit, unit)
    rule = (
        phrase("must have at least {amount}", amount=amount)
        if least
        else phrase("must have at most {amount}", amount=amount)
    )
    message = phrase("{rule}, not {size}", rule=rule, size=size) if size is not None else rule
    return Problem(path, "length", message, rule=rule)


def missing_field(path: Path, hint: str, choices: tuple[Any, ...] = ()) -> Problem:
    """A field that must be given; `hint` says what it holds, `choices` what one with few values may be."""
    return Problem(path, "missing", phrase("required, but missing{hint}", hint=hint), (), choices)


def unknown_field(
    path: Path, known: Collection[str], given: Container[str], other_names: Mapping[str, str] | None = None
) -> Problem:
    """A field that does not exist. `other_names` leads from names that also mean a field to the one that is shown."""
    name = str(path[-1])
    meant = other_names.get(name) if other_names else None
    if meant is None or meant not in known:
        left = tuple(filterfalse(given.__contains__, known))
        meant = _closest(name, left) if len(name) <= _LONGEST_KEPT else next(iter(nearest(name, left, most=1)), None)
        if meant is None:
            return Problem(path, "unknown", _known_fields(tuple(known)))
    elif meant in given:
        said = phrase("another name for `{name}`, which is already given. Give only one", name=meant)
        return Problem(path, "unknown", said)
    return Problem(path, "unknown", phrase("unknown field. Did you mean `{name}`?", name=meant))


_LONGEST_KEPT = 100


@lru_cache(maxsize=512)
def _closest(name: str, known: tuple[str, ...]) -> str | None:
    """Models make the same mistakes again."""
    return next(iter(nearest(name, known, most=1)), None)


@lru_cache(maxsize=512)
def _known_fields(known: tuple[str, ...]) -> Phrase:
    if not known:
        return phrase("unknown field. It takes none")
    fields = ", ".join(f"`{field}`" for field in known[:SHOWN])
    if len(known) > SHOWN:
        fields = phrase("{fields} and {count} more", fields=fields, count=len(known) - SHOWN)
    return phrase("unknown field. Known fields: {fields}", fields=fields)


HALF_PAIR = phrase("a string contains half of a surrogate pair, which is not text")
NO_PLACE = phrase("do not fit this tool's schema, and are too large to say where. Send less at once")

# Text that is no JSON. The parser's finding leads to the place; the words are our own.

_FINDING = lazy_pattern(r"(.*) at line ([0-9]+) column ([0-9]+)$", re.DOTALL)
_TOKEN = lazy_pattern(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_OUTLINED = 200_000
_OUTLINE = 48
_PYTHON = {"None": "null", "True": "true", "False": "false"}
_FINDINGS: tuple[tuple[str, str], ...] = (
    ("EOF while parsing a string", phrase("a string is not closed")),
    ("EOF while parsing a list", phrase("an array is not closed")),
    ("EOF while parsing an object", phrase("an object is not closed")),
    ("EOF while parsing", phrase("a value is not complete")),
    ("expected `:`", phrase("a `:` is missing between a key and its value")),
    ("expected `,` or `}`", phrase("a `,` or `}` is missing")),
    ("expected `,` or `]`", phrase("a `,` or `]` is missing")),
    ("key must be a string", phrase("a key must be in double quotes")),
    ("trailing comma", phrase("a comma has nothing after it")),
    ("trailing characters", phrase("there is something after the end of the value")),
    ("invalid escape", phrase("a string contains a `\\` that starts no escape; write `\\\\` for a backslash")),
    ("hex escape", phrase("a string contains a \\u escape that is half of a surrogate pair")),
    ("control character", phrase("a string contains a raw control character; write it as an escape such as `\\n`")),
    ("invalid number", phrase("a number is malformed")),
    ("invalid unicode", phrase("they are not UTF-8 text")),
    ("expected", phrase("a value is malformed")),
)


def not_json(finding: str, text: str | bytes) -> Problem:
    """The text could not be read as JSON at all; `finding` is what the parser said, which ends with the place."""
    if "recursion limit" in finding:
        return Problem((), "limit", phrase("they are nested too deep"))
    if "number out of range" in finding:
        return Problem((), "limit", phrase("a number has too many digits"))
    what = json_fault(finding, text)
    if finding.startswith("EOF"):
        what = phrase("they end too early: {what}", what=what)
    return Problem((), "json", phrase("they are not valid JSON: {what}", what=what))


def json_fault(finding: str, text: str | bytes) -> str:
    """What is wrong in text that is no JSON, and after what: "a value is missing (after `{"a":`)"."""
    found = _FINDING.fullmatch(finding)
    said = found[1] if found else finding
    what = next((words for mark, words in _FINDINGS if mark in said), phrase("they cannot be read"))
    if found is None:
        return what
    line, column = int(found[2]), int(found[3])
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not said.startswith("EOF"):
        start = 0
        for _ in range(line - 1):
            start = data.find(b"\n", start) + 1
        at = max(0, start + column - 1)
        what = _clearer(data, at, said) or what
        data = data[:at]
    return glued(what, _place(data, line, column))


def _clearer(data: bytes, at: int, said: str) -> str | None:
    """What the text itself shows at the place, where it is a common slip."""
    around = data[max(0, at - 5) : at + 20].decode("utf-8", "replace")
    here = data[at : at + 2].decode("utf-8", "replace")
    if not said.startswith(("expected", "key", "trailing")):
        return None
    if here[:1] in ("'", "`", "“", "‘"):
        return phrase("strings and keys must be in double quotes")
    if here in ("//", "/*") or here[:1] == "#":
        return phrase("JSON has no comments")
    for python, plain in _PYTHON.items():
        if re.search(rf"(?<![\w\"]){python}(?![\w\"])", around):
            return phrase("JSON uses `{plain}`, not `{python}`", plain=plain, python=python)
    if said == "expected value" and here[:1] in ("}", "]", ","):
        return phrase("a value is missing")
    return None


def _place(before: bytes, line: int, column: int) -> str:
    """Where that is: the keys and brackets before it. Values are not quoted, for they may be secret or long."""
    if not before.strip():
        return ""
    outline = _outline(before) if len(before) <= _OUTLINED else ""
    if outline.strip("… "):
        return phrase(" (after `{outline}`)", outline=outline.strip())
    return phrase(" (line {line}, column {column})", line=line, column=column)


def _outline(before: bytes) -> str:
    tokens: list[str] = _TOKEN.findall(before.decode("utf-8", "replace"))
    outline = ""
    for part, following in zip(reversed(tokens), [":", *reversed(tokens)], strict=False):
        if part in "{}[],:":
            shown = f"{part} " if part in ",:" else part
        elif part[0] == '"' and following == ":" and part is not tokens[-1]:
            shown = part if len(part) <= 30 else f'{cut(part, 30)}"'
        else:
            shown = "…"
        if len(outline) + len(shown) > _OUTLINE:
            outline = f"…{outline}"
            break
        outline = shown + outline
    return outline
