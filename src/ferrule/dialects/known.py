"""The dialects by name; each is imported when it is first asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from ferrule.dialects.payload import DialectError

if TYPE_CHECKING:
    from ferrule.dialects.dialect import Dialect

_PLACES = {
    "openai": ("openai_chat", "OpenAIChat"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "anthropic": ("anthropic", "Anthropic"),
    "gemini": ("gemini", "Gemini"),
    "mcp": ("mcp", "MCP"),
}
KNOWN = tuple(_PLACES)
"""The names of all dialects."""


@cache
def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    if name not in _PLACES:
        known = ", ".join(KNOWN)
        raise DialectError(f"There is no dialect {name!r}. Known dialects: {known}.")
    module, cls = _PLACES[name]
    return getattr(import_module(f"ferrule.dialects.{module}"), cls)()
