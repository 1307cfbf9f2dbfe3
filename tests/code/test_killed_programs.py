"""A program whose process is killed goes on elsewhere: no call starts twice, and none is forgotten (X4, P4)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("killed_programs.py")


def play(first: int, count: int) -> str:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(first), str(count)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_programs_that_are_killed_go_on_where_they_were() -> None:
    happened = play(0, 1)
    assert "killed" in happened
    assert "paused" in happened


@pytest.mark.slow
def test_many_programs_are_killed_at_any_moment() -> None:
    assert "killed" in play(1000, 5)
