"""The bounds every call runs within."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from ferrule import Limits
from ferrule.core.call import DEFAULT_LIMITS


def test_every_bound_has_a_default_that_bounds() -> None:
    assert all(getattr(DEFAULT_LIMITS, field.name) > 0 for field in fields(Limits))


def test_limits_cannot_be_changed_while_calls_run() -> None:
    with pytest.raises(FrozenInstanceError):
        DEFAULT_LIMITS.timeout = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"), [("timeout", -1), ("concurrency", 0), ("threads", "4"), ("timeout", float("nan"))]
)
def test_a_limit_that_cannot_be_one_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_a_cancelled_tool_may_be_given_no_time_at_all() -> None:
    assert Limits(grace=0).grace == 0
