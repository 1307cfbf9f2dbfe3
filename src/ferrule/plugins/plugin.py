"""A plugin: some tools with a name and a version, and what must happen before and after they are used (R7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ferrule.core.tool import Tool


@dataclass(slots=True)
class Plugin:
    """Tools that come together. `initialise` runs before the first call and `clean_up` after the last."""

    name: str
    version: str = ""
    tools: list[Tool[Any]] = field(default_factory=list[Any])
    initialise: Callable[[], Awaitable[None]] | None = None
    clean_up: Callable[[], Awaitable[None]] | None = None
    source: str = ""
