"""What is wrong with a call's arguments, one problem at a time, whoever found it."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError, ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.tool import Tool

PathPart = str | int


@dataclass(slots=True)
class Problem:
    """One thing wrong at one place.

    `code` is a stable word: `type`, `missing`, `unknown`, `enum`, `range`, `length`, `format`, `union`, `json`,
    `limit`, `value`. For `type` and `union`, `expected` holds JSON type names (`integer`, `object`, …).
    """

    path: tuple[PathPart, ...]
    code: str
    message: str
    expected: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The place in the form a model would write it: `items[2].price`."""
        path = self.path
        if len(path) == 1 and isinstance(path[0], str):  # a field of the arguments themselves, as most are
            return path[0]
        return format_path(path)


class InvalidParams(Exception):  # noqa: N818 - a finding, turned into words by the validate stage
    """The arguments do not fit. Carries every problem and, when it could be read, the value itself."""

    def __init__(self, problems: Sequence[Problem], value: Any = None) -> None:
        super().__init__()
        self.problems = list(problems)
        self.value = value

    def __str__(self) -> str:
        return "; ".join(f"{problem.where}: {problem.message}" for problem in self.problems)


def own_problems(tool: Tool[Any], params: Any) -> list[Problem]:
    """What a tool's own check finds: nothing, one problem or several, each a `Problem` or plain text.

    A ValueError or a ToolError from it is a problem with the whole.
    """
    try:
        said: Any = tool.check(params)
        if said is None:
            return []
        several = hasattr(said, "__iter__") and not isinstance(said, (str, bytes, dict))
        listed: list[Any] = list(cast("Any", said)) if several else [said]
    except InvalidParams as invalid:
        return invalid.problems
    except (ValueError, ToolError) as error:
        return [Problem((), "value", str(error))]
    return [_as_problem(tool.name, one) for one in listed]


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
    kind = cast("type[Any]", type(value))
    return _JSON_TYPES.get(kind, kind.__name__)


def show(value: Any, limit: int = 60) -> str:
    """A value as short JSON-like text for a message; strings are quoted, long ones cut."""
    if isinstance(value, str):
        if len(value) <= limit and value.isalnum():
            return f'"{value}"'
        text = value if len(value) <= limit else value[: limit - 1] + "…"
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        if isinstance(value, int) and abs(value) >= 10**limit:
            return f"a number of more than {limit} digits"
        return repr(value)
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    return json_type(value)


def got(value: Any) -> str:
    """`string "x"`, `integer 5`, `an object`: what was there instead of what was expected."""
    if value is None or isinstance(value, (dict, list, bool)):
        return show(value)
    return f"{json_type(value)} {show(value)}"


HALF_PAIR = "a string holds half of a surrogate pair, which is not text"


def not_json(why: str) -> Problem:
    """The text could not be read as JSON at all; `why` is the parser's finding."""
    if "hex escape" in why or "surrogate" in why:
        why += " (a \\u escape that is half of a surrogate pair?)"
    return Problem((), "json", f"they are not valid JSON: {why}")
