"""How a tool asks the person something in the middle of a call, whoever it is that can reach the person.

Whoever runs calls for a client that can show a form (an MCP server, a chat) sets an `Elicitor` around them; a tool,
or a server that tools come from, finds it with `current_elicitor`.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
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


_current: ContextVar[Elicitor | None] = ContextVar("ferrule.elicitor", default=None)


def current_elicitor() -> Elicitor | None:
    """Who can ask the person on behalf of the call that is running; None where nobody can."""
    return _current.get()


def set_elicitor(elicitor: Elicitor | None) -> None:
    """For the calls that the running task makes from now on."""
    _current.set(elicitor)
