"""The one stream of an agent's events."""

from __future__ import annotations

from typing import get_args

from ferrule.agent.agent_events import AgentEvent, Ending
from ferrule.core.events import CallEvent


def test_the_stream_carries_a_call_s_own_events_as_they_are() -> None:
    assert set(get_args(CallEvent)) <= set(get_args(AgentEvent))


def test_endings_are_the_words_that_scripts_read() -> None:
    assert [ending.value for ending in Ending] == ["done", "interrupted", "limit", "loop", "failed"]
