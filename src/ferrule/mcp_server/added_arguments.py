"""Arguments that an agent writes into every tool's schema for itself, and then sends along with the call.

Gemini CLI asks its model for `wait_for_previous`, heeds it, and leaves it in. It is nothing that the tool was asked, so
it goes where the tool would refuse it; where a tool has it or takes anything, it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_ADDED = frozenset({"wait_for_previous"})


def without_added(arguments: Mapping[str, Any] | None, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments that are meant for the tool."""
    if not arguments or _ADDED.isdisjoint(arguments) or schema.get("additionalProperties") is not False:
        return arguments
    known = schema.get("properties", {})
    return {name: value for name, value in arguments.items() if name in known or name not in _ADDED}
