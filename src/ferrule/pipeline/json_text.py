"""What JSON parsers let pass and a tool must not see: doubled keys, deep nesting, endless numbers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ferrule.core.problems import HALF_PAIR, InvalidParams, Problem, json_type

if TYPE_CHECKING:
    from ferrule.pipeline.limits import Limits


def check_text(text: str | bytes, flat_size: int | None, limits: Limits, *, duplicates: bool) -> None:
    """Raise `InvalidParams` for text outside the limits.

    Counting characters first spares almost every call a second parse: each key needs a colon and each level an
    opening bracket, so where the counts are small nothing can be wrong.
    """
    is_text = isinstance(text, str)
    colons = text.count(":") if is_text else text.count(b":")
    if colons == flat_size and len(text) <= limits.number_digits:
        return
    openers = text.count("{") + text.count("[") if is_text else text.count(b"{") + text.count(b"[")
    if openers > limits.argument_depth and (depth := _depth(text)) > limits.argument_depth:
        raise InvalidParams(
            [
                Problem(
                    (),
                    "limit",
                    f"they are nested {depth} deep, where at most {limits.argument_depth} is taken",
                )
            ]
        )
    if len(text) > limits.number_digits:
        _check_numbers(text, limits.number_digits)
    if ("NaN" in text or "Infinity" in text) if is_text else (b"NaN" in text or b"Infinity" in text):
        _check_constants(text)
    if duplicates and colons > 1 and colons != flat_size:
        _check_keys(text)


def plain_problem(arguments: Any, error: Exception) -> Problem:
    """Why Python values could not become JSON, in words about the values."""
    if isinstance(error, RecursionError) or "ircular" in str(error):
        return Problem((), "limit", "they are nested too deep or refer to themselves")
    if "surrogate" in str(error):
        return Problem((), "json", HALF_PAIR)
    return Problem((), "json", f"they are {json_type(arguments)} values that have no JSON form")


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
    if not re.search(f"[0-9]{{{digits + 1}}}", plain):
        return

    def measure(number: str) -> None:
        if len(number.lstrip("-")) > digits:
            raise InvalidParams(
                [Problem((), "limit", f"a number has {len(number):,} digits, where at most {digits} are taken")]
            )

    try:
        json.loads(plain, parse_int=measure, parse_float=measure)
    except (ValueError, RecursionError):
        return  # not JSON: the parser that reads it for real says so


def _check_constants(text: str | bytes) -> None:
    def refuse(name: str) -> None:
        raise InvalidParams([Problem((), "json", f"`{name}` is not JSON; numbers must be finite")])

    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return


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
                raise InvalidParams(
                    [Problem((), "json", f"the key `{key[:200]}` stands twice in one object; give it once")]
                )
            seen.add(key)
