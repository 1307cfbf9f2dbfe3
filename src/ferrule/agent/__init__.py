"""The loop with a model: an agent, its limits, its conversation, and the events of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.agent.agent import Agent
    from ferrule.agent.agent_events import (
        AgentEvent,
        AgentNotice,
        Answered,
        CallAsked,
        Compacted,
        Ending,
        OutputDelta,
        Steered,
        TurnEnded,
        TurnStarted,
        WaitingCall,
    )
    from ferrule.agent.conversation import Conversation
    from ferrule.agent.limits import AgentLimits, Budget
    from ferrule.agent.model_hooks import ModelHook
    from ferrule.agent.saved_sessions import SavedConversation
    from ferrule.agent.step_tools import StepContext
    from ferrule.agent.turn_log import TurnStateError
    from ferrule.agent.turn_store import StoredTurn, TurnStore
    from ferrule.core.model import AssistantMessage, CallDelta, ModelSettings, ToolResults, UserMessage
    from ferrule.registry.search_tools import ToolSearch

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentLimits",
    "AgentNotice",
    "Answered",
    "AssistantMessage",
    "Budget",
    "CallAsked",
    "CallDelta",
    "Compacted",
    "Conversation",
    "Ending",
    "ModelHook",
    "ModelSettings",
    "OutputDelta",
    "SavedConversation",
    "Steered",
    "StepContext",
    "StoredTurn",
    "ToolResults",
    "ToolSearch",
    "TurnEnded",
    "TurnStarted",
    "TurnStateError",
    "TurnStore",
    "UserMessage",
    "WaitingCall",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "agent.agent": ("Agent",),
        "agent.agent_events": (
            "AgentEvent",
            "Answered",
            "CallAsked",
            "Compacted",
            "Ending",
            "AgentNotice",
            "OutputDelta",
            "Steered",
            "TurnEnded",
            "TurnStarted",
            "WaitingCall",
        ),
        "agent.conversation": ("Conversation",),
        "agent.limits": ("AgentLimits", "Budget"),
        "agent.model_hooks": ("ModelHook",),
        "agent.saved_sessions": ("SavedConversation",),
        "agent.step_tools": ("StepContext",),
        "agent.turn_log": ("TurnStateError",),
        "agent.turn_store": ("StoredTurn", "TurnStore"),
        "core.model": (
            "AssistantMessage",
            "CallDelta",
            "ModelSettings",
            "ToolResults",
            "UserMessage",
        ),
        "registry.search_tools": ("ToolSearch",),
    },
)
