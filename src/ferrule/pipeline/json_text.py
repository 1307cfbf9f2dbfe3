"""What JSON parsers let pass and a tool must not see: doubled keys, deep nesting, endless numbers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase
from ferrule.core.problems import HALF_PAIR, InvalidParams, Problem, json_type

if TYPE_CHECKING:
    from ferrule.pipeline.limits import Limits

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
