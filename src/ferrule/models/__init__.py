"""Models: every provider by name, one on this machine, and what a model of your own must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.core.model import (
        CallStarted,
        Finished,
        Model,
        ModelError,
        ModelFault,
        ModelRequest,
        Preparing,
        Retrying,
        TextDelta,
        ThinkingDelta,
        Usage,
    )
    from ferrule.models.providers import Provider, all_providers, custom_provider, open_model

__all__ = [
    "CallStarted",
    "Finished",
    "Model",
    "ModelError",
    "ModelFault",
    "ModelRequest",
    "Preparing",
    "Provider",
    "Retrying",
    "TextDelta",
    "ThinkingDelta",
    "Usage",
    "all_providers",
    "custom_provider",
    "open_model",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "core.model": (
            "CallStarted",
            "Finished",
            "Model",
            "ModelError",
            "ModelFault",
            "ModelRequest",
            "Preparing",
            "Retrying",
            "TextDelta",
            "ThinkingDelta",
            "Usage",
        ),
        "models.providers": (
            "Provider",
            "custom_provider",
            "open_model",
            "all_providers",
        ),
    },
)
