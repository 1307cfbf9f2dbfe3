"""Models: every provider by name, one on this machine, and what a model of your own must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.core.model import (
        AssistantMessage,
        CallDelta,
        CallStarted,
        Finished,
        Message,
        Model,
        ModelError,
        ModelEvent,
        ModelFault,
        ModelPrice,
        ModelRequest,
        ModelSettings,
        Preparing,
        Retrying,
        TextDelta,
        ThinkingDelta,
        ToolResults,
        Usage,
        UserMessage,
    )
    from ferrule.models.providers import Provider, all_providers, custom_provider, open_model

__all__ = [
    "AssistantMessage",
    "CallDelta",
    "CallStarted",
    "Finished",
    "Message",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelFault",
    "ModelPrice",
    "ModelRequest",
    "ModelSettings",
    "Preparing",
    "Provider",
    "Retrying",
    "TextDelta",
    "ThinkingDelta",
    "ToolResults",
    "Usage",
    "UserMessage",
    "all_providers",
    "custom_provider",
    "open_model",
]

_OF_PROVIDERS = ("Provider", "all_providers", "custom_provider", "open_model")
_OF_MODELS = [name for name in __all__ if name not in _OF_PROVIDERS]

__getattr__, __dir__ = lazy_names(__name__, {"core.model": _OF_MODELS, "models.providers": _OF_PROVIDERS})
