"""What a call does, said to the person while it runs: «reading `a.py`».

A tool declares its words as `doing`, a pattern with its parameters' names in braces. The pattern is what is translated;
the values never are.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ferrule.core.call import RawCall
    from ferrule.core.tool import Tool

CALLING = "calling `{tool}`"
_MOST = 120


def doing(tool: Tool[Any] | None, call: RawCall) -> tuple[str, str, Mapping[str, str]]:
    """The words in English, their pattern, and the values that belong into it."""
    values = {"tool": _short(call.name)}
    if tool is not None and (pattern := tool.doing):
        named = [name for _, name, _, _ in Formatter().parse(pattern) if name]
        given = _arguments(call)
        if not given.keys() >= set(named):
            given = {**_defaults(tool), **given}
        if given.keys() >= set(named):
            values |= {name: _short(given[name]) for name in named}
            return pattern.format(**values), pattern, values
    return CALLING.format(**values), CALLING, values


def _arguments(call: RawCall) -> Mapping[str, Any]:
    """What the model wrote, if it can be read: this is shown, never run."""
    given = call.arguments
    if isinstance(given, (str, bytes)):
        from pydantic_core import from_json

        try:
            given = from_json(given)
        except ValueError:
            return {}
    return cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}


def _defaults(tool: Tool[Any]) -> dict[str, Any]:
    schema = tool.input_schema if tool.fault is None else {}
    known: dict[str, Any] = schema.get("properties", {}) if isinstance(schema, dict) else {}
    return {name: one["default"] for name, one in known.items() if one.get("default") is not None}


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
