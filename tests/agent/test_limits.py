"""Limits of a turn are numbers above zero, or none."""

from __future__ import annotations

import pytest

from ferrule.agent.limits import AgentLimits


def test_none_is_no_limit() -> None:
    assert AgentLimits(steps=None).steps is None


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"cost": -1.0}, {"seconds": float("inf")}, {"tokens": 0}])
def test_a_limit_that_means_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a number above 0"):
        AgentLimits(**wrong)  # type: ignore[arg-type]
