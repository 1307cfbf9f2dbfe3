"""What happens while calls run, for anyone who wants to watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferrule.core.result import ToolResult


@dataclass(slots=True, frozen=True)
class Pending:
    """A call has been accepted and is about to go through its stages; `parent_id` is the call that made it."""

    call_id: str
    tool: str
    summary: str = ""
    parent_id: str | None = None


@dataclass(slots=True, frozen=True)
class Progress:
    """How far a running call has come."""

    call_id: str
    tool: str
    done: float
    total: float | None = None
    message: str = ""


@dataclass(slots=True, frozen=True)
class PartialOutput:
    """A piece of output from a call that is still running; `dropped` pieces before it were not delivered."""

    call_id: str
    tool: str
    content: object
    dropped: int = 0


@dataclass(slots=True, frozen=True)
class Done:
    """The call has its result; always the last event of a call."""

    call_id: str
    tool: str
    result: ToolResult


CallEvent = Pending | Progress | PartialOutput | Done
