"""The layers of a tool's description and the one text a model reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True, frozen=True)
class Example:
    """A call worth showing: what it is for, and its arguments."""

    description: str
    params: Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class Description:
    """One line, then as much more as helps."""

    short: str
    long: str = ""
    usage_notes: tuple[str, ...] = ()
    important_notes: tuple[str, ...] = ()
    examples: tuple[Example, ...] = field(default=())

    @property
    def text(self) -> str:
        """What is sent to a model: short, long, then the two lists of notes."""
        parts = [self.short]
        if self.long:
            parts.append(self.long)
        if self.usage_notes:
            parts.append("Usage notes:\n" + "\n".join(f"- {note}" for note in self.usage_notes))
        if self.important_notes:
            parts.append("IMPORTANT:\n" + "\n".join(f"- {note}" for note in self.important_notes))
        return "\n\n".join(part for part in parts if part)
