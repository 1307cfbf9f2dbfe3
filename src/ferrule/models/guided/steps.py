"""What comes next in a turn: a call for the next part of the request, a remedy for one that failed, or words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.core.conversation import AssistantMessage, UserMessage
from ferrule.registry.mentions import Named, mentions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.call import RawCall
    from ferrule.core.conversation import Message
    from ferrule.core.result import ToolResult

_THEN = re.compile(
    r"[,;.，；。]?\s*(?:\b(?:and then|then|after that|afterwards)\b|然后|接着|之后再|随后)[,，]?\s*", re.IGNORECASE
)
_READ_FIRST = re.compile(r"\bread (?:it|the file) first\b", re.IGNORECASE)
_MOST_PARTS = 5


@dataclass(slots=True, frozen=True)
class Done:
    """A call of this turn and what it gave."""

    call: RawCall
    result: ToolResult


@dataclass(slots=True, frozen=True)
class TurnSoFar:
    """The last thing the person said, and what was done about it."""

    request: str
    done: tuple[Done, ...]

    @property
    def outcomes(self) -> tuple[Done, ...]:
        """What there is to tell of: a call that had to wait for another is told once, when it was made again."""
        waited = [at for at, one in enumerate(self.done) if _asks_to_read(one) and at + 1 < len(self.done)]
        return tuple(one for at, one in enumerate(self.done) if at not in waited and at - 1 not in waited)

    @property
    def part(self) -> str:
        """The part of the request that is next; empty when all were tried."""
        parts = parts_of(self.request)
        tried = len(self.done) - 2 * sum(map(_asks_to_read, self.done))
        return parts[tried] if 0 <= tried < len(parts) else ""

    @property
    def remedy(self) -> str:
        """What the last call needs before it can work, as a request; empty when nothing is known to help."""
        if not self.done or not _asks_to_read(self.done[-1]):
            return ""
        named = next((one.text for one in mentions(self.request) if one.kind is Named.FILE), "")
        return f"read the file {named}" if named else ""

    @property
    def again(self) -> RawCall | None:
        """The call that failed for want of what was done just now."""
        if len(self.done) < 2 or not _asks_to_read(self.done[-2]) or not self.done[-1].result.success:
            return None
        return self.done[-2].call


def turn_so_far(messages: Sequence[Message]) -> TurnSoFar:
    """Read a conversation from its end."""
    start = max((at for at, one in enumerate(messages) if isinstance(one, UserMessage)), default=0)
    request = ""
    done: list[Done] = []
    calls: Sequence[RawCall] = ()
    for message in messages[start:]:
        if isinstance(message, UserMessage):
            request = message.text
        elif isinstance(message, AssistantMessage):
            calls = message.calls
        else:
            done += [Done(call, result) for call, result in zip(calls, message.results, strict=False)]
    return TurnSoFar(request, tuple(done))


def parts_of(request: str) -> list[str]:
    """A request split where it says «then»; what is quoted is never split."""
    quoted = [(one.start, one.end) for one in mentions(request) if one.kind in (Named.QUOTED, Named.COMMAND)]
    parts: list[str] = []
    start = 0
    for found in _THEN.finditer(request):
        inside = any(begin < found.end() and found.start() < end for begin, end in quoted)
        if not inside and request[start : found.start()].strip() and len(parts) < _MOST_PARTS - 1:
            parts.append(request[start : found.start()].strip())
            start = found.end()
    rest = request[start:].strip()
    return [*parts, rest] if rest else parts


def _asks_to_read(one: Done) -> bool:
    error = one.result.error
    return error is not None and bool(_READ_FIRST.search(f"{error.message} {error.suggestion or ''}"))
