"""Limits, set by a shell that becomes the command."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

from ferrule.process.profile import Bounds
from ferrule.process.sandbox.limits import bounded, with_what_runs


def test_they_hold_for_the_command() -> None:
    bounds = Bounds(processes=None, memory=300 << 20, file_size=1 << 20, open_files=77)
    script = "ulimit -n; ulimit -f; ulimit -d"
    done = subprocess.run(bounded(bounds, ["bash", "-c", script]), capture_output=True, text=True)
    assert done.stdout.split() == ["77", "1024", str(300 << 10)]


def test_without_limits_nothing_stands_between() -> None:
    assert bounded(Bounds(None, None, None, None), ["a", "b"]) == ("a", "b")


def test_arguments_reach_the_command_as_they_are() -> None:
    odd = ["", "a b", "$(x)", "'", '"', "\n", "-e", "*"]
    done = subprocess.run(bounded(Bounds(), ["printf", r"%s\0", *odd]), capture_output=True, text=True)
    assert done.stdout.split("\0")[:-1] == odd


def test_it_is_the_command_that_runs_in_the_end() -> None:
    done = subprocess.run(bounded(Bounds(), ["sh", "-c", "exit 7"]))
    assert done.returncode == 7
    assert subprocess.run(bounded(Bounds(), ["/nothing/here"]), stderr=subprocess.DEVNULL).returncode == 127


def test_a_limit_is_only_ever_lowered() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    done = subprocess.run(
        bounded(Bounds(open_files=hard * 2), ["bash", "-c", "ulimit -n"]), capture_output=True, text=True
    )
    assert done.stdout == f"{hard}\n"


def test_nothing_runs_where_a_limit_cannot_be_set(tmp_path: Path) -> None:
    done = subprocess.run(
        bounded(Bounds(), ["echo", "ran"], tmp_path / "no group" / "tasks"), capture_output=True, text=True
    )
    assert done.stdout == ""
    assert done.returncode != 0


def test_what_runs_already_is_counted_in() -> None:
    counted = with_what_runs(Bounds(processes=10)).processes
    assert counted is not None
    assert counted > 10 + len(list(Path("/proc/self/task").iterdir())) - 1
    assert with_what_runs(Bounds(processes=None)).processes is None
    assert os.getuid() == Path("/proc/self").stat().st_uid
