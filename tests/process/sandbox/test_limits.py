"""Control groups, where they can be had."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest
from tests.needs import needs

from ferrule.process.profile import Bounds
from ferrule.process.sandbox import limits as module
from ferrule.process.sandbox.limits import can_count_processes, control_group


def joined(group: Path, script: str) -> list[str]:
    return ["bash", "-c", 'echo 0 >"$0" && eval "$1"', str(group), script]


def test_it_bounds_processes_also_for_root() -> None:
    if os.geteuid() != 0:
        assert not can_count_processes()
        return
    needs(can_count_processes(), "control groups that root may make")
    with control_group(Bounds(processes=5)) as group:
        assert group is not None
        script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done; wait"
        done = subprocess.run(joined(group, script), capture_output=True, text=True)
        assert "Resource temporarily unavailable" in done.stderr
    with control_group(Bounds(processes=5)) as again, control_group(Bounds(processes=5)) as another:
        assert again == group, "an empty one is used again"
        assert another not in (None, group)
    module._remove_idle()
    assert not group.parent.exists()


def test_without_a_bound_there_is_no_group() -> None:
    with control_group(Bounds(processes=None)) as group:
        assert group is None


def test_where_none_can_be_made_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]) -> None:
    monkeypatch.setattr(module, "_parent", lambda: None)
    assert not can_count_processes()


def test_groups_of_the_dead_are_removed() -> None:
    if not can_count_processes():
        return
    parent = module._parent()
    assert parent is not None
    ended = subprocess.Popen(["true"])
    ended.wait()
    (parent / f"ferrule-{ended.pid}-0").mkdir()
    module._numbers = itertools.count()  # the first of a process
    module._remove_idle()
    with control_group(Bounds()):
        assert not (parent / f"ferrule-{ended.pid}-0").exists()


def test_a_group_that_is_still_in_use_is_removed_later() -> None:
    if not can_count_processes():
        return
    with control_group(Bounds()) as joining:
        assert joining is not None
        process = subprocess.Popen(joined(joining, "echo ready; exec sleep 60"), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
    assert joining.parent.exists()
    process.kill()
    process.communicate()
    module._remove_idle()
    with control_group(Bounds()):
        assert not joining.parent.exists()
