"""What a provider wants back is given to the model that wrote it, and to no other."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.model import AssistantMessage
from ferrule.models.wire_form import keep, recall


def test_only_the_same_model_of_the_same_provider_gets_it() -> None:
    message = AssistantMessage("hi", kept=keep("anthropic", "claude", [{"type": "thinking"}]))
    assert recall(message, "anthropic", "claude") == [{"type": "thinking"}]
    assert recall(message, "anthropic", "another") == []
    assert recall(message, "gemini", "claude") == []


def test_nothing_is_kept_of_nothing() -> None:
    assert keep("anthropic", "claude", []) == {}


@pytest.mark.parametrize("kept", [{}, {"a": 5}, {"a": {"model": "m", "parts": 5}}, {"a": {"model": "m", "parts": [5]}}])
def test_a_saved_session_may_hold_anything(kept: Any) -> None:
    assert recall(AssistantMessage("hi", kept=kept), "a", "m") == []
