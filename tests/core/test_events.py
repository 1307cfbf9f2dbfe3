"""What happens while calls run and tools come and go (P9, R5)."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from ferrule import Done, PartialOutput, Pending, Progress, ToolResult


def test_events_name_their_call_and_tool() -> None:
    result = ToolResult("c", "t", True, "", "")
    for event in (Pending("c", "t"), Progress("c", "t", 1), PartialOutput("c", "t", "x"), Done("c", "t", result)):
        assert (event.call_id, event.tool) == ("c", "t")


def test_events_cannot_be_changed_by_whoever_hears_them_first() -> None:
    with pytest.raises(FrozenInstanceError):
        Pending("c", "t").tool = "other"  # type: ignore[misc]


def test_nothing_was_dropped_unless_said() -> None:
    assert PartialOutput("c", "t", "x").dropped == 0
    assert Progress("c", "t", 1).total is None
