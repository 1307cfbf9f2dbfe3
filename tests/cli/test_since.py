"""Moments as people write them."""

from __future__ import annotations

import time
from datetime import datetime

import click
import pytest

from ferrule.cli.options import SINCE


@pytest.mark.parametrize(
    ("said", "seconds"), [("30s", 30), ("5m", 300), ("2h", 7200), ("3d", 259_200), ("1w", 604_800)]
)
def test_a_span_counts_back_from_now(said: str, seconds: int) -> None:
    assert SINCE.convert(said, None, None) == pytest.approx(time.time() - seconds, abs=5)


def test_a_date_is_its_first_moment_here() -> None:
    assert SINCE.convert("2026-01-31", None, None) == datetime(2026, 1, 31).astimezone().timestamp()


def test_anything_else_is_refused() -> None:
    with pytest.raises(click.BadParameter):
        SINCE.convert("soon", None, None)
