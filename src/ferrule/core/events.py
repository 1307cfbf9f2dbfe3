"""What happens while calls run, for anyone who wants to watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferrule.core.result import PartialOutput, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.call import Effects
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Invocation


@dataclass(slots=True, frozen=True)
class Pending:
    """A call has been accepted and is about to go through its stages; `parent_id` is the call that made it."""

    call_id: str
    tool: str
    summary: str = ""
    parent_id: str | None = None


@dataclass(slots=True, frozen=True)
class Done:
    """The call has its result; always the last event of a call."""

    call_id: str
    tool: str
    result: ToolResult


@dataclass(slots=True, frozen=True)
class Question:
    """What the user is shown of a call that needs approval. The runtime's `ask` gets the same, and answers it.

    `rule` is what "always" would remember; if it is empty, "always" means once. `covers` is a call that the rule would
    allow, and `not_covers` a similar one that would still ask. `rules` are the rules that a settings file could keep.
    """

    invocation: Invocation
    reason: str
    rule: str
    warning: str | None = None
    covers: str = ""
    not_covers: str = ""
    rules: tuple[str, ...] = ()
    effects: Effects | None = None
    """What the call did when it was tried, and what it was kept from. A yes keeps the changes."""
    preview: str = ""
    """What a yes would change, as a diff or a sentence; empty if that is not known."""
    exact: tuple[str, ...] = ()
    """The rules for this very call and as little else as rules can say."""

    @property
    def call_id(self) -> str:
        return self.invocation.call_id

    @property
    def tool(self) -> str:
        return self.invocation.tool.name

    @property
    def summary(self) -> str:
        """The call in one line."""
        return self.invocation.summary

    @property
    def disguises(self) -> list[str]:
        """What in the call and in the names of files is not what it looks like, in words."""
        return disguised_in(self.summary, (one.shown for one in self.effects.files) if self.effects else ())

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "call_id": self.call_id,
            "tool": self.tool,
            "summary": str(self.summary),
            "reason": str(self.reason),
            "warning": str(self.warning or ""),
            "preview": str(self.preview),
            "always": str(self.rule),
        }


def disguised_in(summary: str, names: Iterable[str]) -> list[str]:
    """What in a call and in the names of files that it changes, as `FileEffect` shows them, misleads, in words."""
    from ferrule.core.shown_text import disguises

    misleads = any("\\u{" in name for name in names)
    return [*disguises(summary), *(["misleading characters in file names"] if misleads else [])]


CallEvent = Pending | Question | Progress | PartialOutput | Done
"""What `Runtime.subscribe` and `Runtime.stream` give: all events of a call, from `Pending` to `Done`."""
