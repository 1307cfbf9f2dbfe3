"""A conversation with a model, in nobody's form: what was said, what was asked for, what came back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.call import RawCall
    from ferrule.core.result import Attachment, ToolResult


@dataclass(slots=True, frozen=True)
class UserMessage:
    """What the person said."""

    text: str
    attachments: tuple[Attachment, ...] = ()


@dataclass(slots=True, frozen=True)
class AssistantMessage:
    """What the model said, and the calls it asked for.

    `kept` is what its provider wants to see again word for word (signed thinking, item ids), by the provider's name;
    nobody else looks into it, and another provider is never sent it.
    """

    text: str = ""
    calls: tuple[RawCall, ...] = ()
    thinking: str = ""
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True, frozen=True)
class ToolResults:
    """What the calls of the message before gave, one result for each call, in the same order."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ToolResults
