"""A plugin: some tools with a name and a version, and what must happen before and after they are used (R7)."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ferrule.core.tool import Tool


@dataclass(slots=True)
class Plugin:
    """Tools that come together. `initialise` runs before the first call and `clean_up` after the last, async or not."""

    name: str
    version: str = ""
    tools: list[Tool[Any]] = field(default_factory=list[Any])
    initialise: Callable[[], Awaitable[None] | None] | None = None
    clean_up: Callable[[], Awaitable[None] | None] | None = None
    source: str = ""
    problems: list[str] = field(default_factory=list[str])
    """What of it could not be loaded or started, and why; the rest works."""


async def run_step(step: Callable[[], Awaitable[None] | None] | None) -> None:
    """Run a plugin's `initialise` or `clean_up`, where it has one."""
    if step is not None and inspect.isawaitable(done := step()):
        await done
