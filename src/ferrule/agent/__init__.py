"""The loop with a model: an agent, its limits, its conversation, and the events of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.agent.agent import Agent, AgentLimits
    from ferrule.agent.agent_events import (
        AgentEvent,
        AgentNotice,
        Answered,
        CallAsked,
        Compacted,
        Ending,
        Steered,
        TurnEnded,
        TurnStarted,
    )
    from ferrule.agent.conversation import Conversation
    from ferrule.agent.saved_sessions import SavedConversation
    from ferrule.core.model import AssistantMessage, ToolResults, UserMessage

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentLimits",
    "AgentNotice",
    "Answered",
    "AssistantMessage",
    "CallAsked",
    "Compacted",
    "Conversation",
    "Ending",
    "SavedConversation",
    "Steered",
    "ToolResults",
    "TurnEnded",
    "TurnStarted",
    "UserMessage",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "agent.agent": (
            "Agent",
            "AgentLimits",
        ),
        "agent.agent_events": (
            "AgentEvent",
            "Answered",
            "CallAsked",
            "Compacted",
            "Ending",
            "AgentNotice",
            "Steered",
            "TurnEnded",
            "TurnStarted",
        ),
        "agent.conversation": ("Conversation",),
        "agent.saved_sessions": ("SavedConversation",),
        "core.model": (
            "AssistantMessage",
            "ToolResults",
            "UserMessage",
        ),
    },
)
