"""Reads JSON that a server sent without trusting its shape: what is not as expected counts as not there."""

from __future__ import annotations

from typing import Any, cast

Item = dict[str, Any]


def an_item(value: Any) -> Item:
    return cast("Item", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Item]:
    """The objects in a list."""
    return [cast("Item", one) for one in cast("list[Any]", value) if isinstance(one, dict)] if _is_list(value) else []


def words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A number of tokens; never below zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e15:
        return 0
    return max(0, int(value))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
