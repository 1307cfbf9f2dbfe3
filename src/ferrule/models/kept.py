"""What a provider wants to see again, kept with a message: signed thinking, encrypted reasoning.

Only the model that wrote it is sent it again; for another one it would be unreadable at best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.models.loose_json import an_item, items, words

if TYPE_CHECKING:
    from ferrule.core.conversation import AssistantMessage


def keep(provider: str, model: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """For `AssistantMessage.kept`; nothing where there is nothing to keep."""
    return {provider: {"model": model, "parts": parts}} if parts else {}


def recall(message: AssistantMessage, provider: str, model: str) -> list[dict[str, Any]]:
    """What was kept for this model, in the order it came."""
    kept = an_item(message.kept.get(provider))
    return items(kept.get("parts")) if words(kept.get("model")) == model else []
