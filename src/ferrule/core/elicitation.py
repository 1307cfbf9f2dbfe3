"""How a tool asks the person something in the middle of a call, whoever it is that can reach the person.

Whoever runs calls for a client that can show a form (an MCP server, a chat) sets an `Elicitor` around them; a tool,
or a server that tools come from, finds it with `current_elicitor`.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ferrule.core.context import running_loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping


@dataclass(slots=True, frozen=True)
class Elicited:
    """What came back: `content` is the filled form where the person accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    why: str = ""
    """Why the person was not asked, where they were not: it completes «it was declined: …»."""


class Elicitor(Protocol):
    """Shows the person a message and a form (a flat JSON Schema of an object), and gives back what they did.

    `server` is the MCP server that asks, and none where a tool does. Where there is a `url`, the person is asked to
    open it instead: accepting means that they agreed to, not that they are done there.
    """

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited: ...


_current: ContextVar[tuple[Elicitor | None, asyncio.AbstractEventLoop | None]] = ContextVar(
    "ferrule.elicitor", default=(None, None)
)


def current_elicitor() -> Elicitor | None:
    """What can ask the user on behalf of the running call; None if nothing can."""
    elicitor, loop = _current.get()
    return elicitor if elicitor is None or loop is None or loop is running_loop() else _Elsewhere(elicitor, loop)


def set_elicitor(elicitor: Elicitor | None) -> None:
    """For the calls that the running task makes from now on."""
    _current.set((elicitor, running_loop()))


class _Elsewhere:
    """One that belongs to another event loop than the tool which asks."""

    def __init__(self, elicitor: Elicitor, loop: asyncio.AbstractEventLoop) -> None:
        self._elicitor = elicitor
        self._loop = loop

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        from ferrule.core.loops import elsewhere

        async def there() -> Elicited:
            return await self._elicitor.elicit(message, schema, server=server, url=url)

        return await elsewhere(there(), self._loop)
