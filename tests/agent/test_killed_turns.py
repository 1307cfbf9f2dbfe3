"""A turn whose process is killed goes on elsewhere: no call starts twice, and none is forgotten (P4, X4)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_turns.py")


def play(first: int, count: int) -> str:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(first), str(count)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_turns_that_are_killed_go_on_where_they_were() -> None:
    assert "killed" in play(0, 4)


@pytest.mark.slow
@pytest.mark.parametrize("first", [10_000, 20_000])
def test_many_turns_with_approvals_results_and_sub_agents_are_killed_at_any_moment(first: int) -> None:
    """Two processes often try to go on with the same state at once."""
    happened = play(first, 60)
    for what in ("killed", "paused", "refused", "two at once"):
        assert what in happened
