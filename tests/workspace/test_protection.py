"""Which walls stand: tried, and not taken on trust (S1)."""

from __future__ import annotations

import os
import threading

import pytest

from ferrule.process import landlock
from ferrule.workspace import confined
from ferrule.workspace.confined import PathWall, path_wall, search_wall


def test_a_link_out_is_stopped_by_the_kernel_or_by_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    assert path_wall() is (PathWall.KERNEL if confined.kernel_confines() else PathWall.WALK)
    monkeypatch.setattr(confined, "_confines", False)
    assert path_wall() is PathWall.WALK


def test_a_link_out_that_is_followed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined, "open_beneath", lambda folder, path, flags: os.open(path, flags, dir_fd=folder))
    assert path_wall() is PathWall.NONE


def test_a_search_is_held_where_the_kernel_can(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search_wall() is (landlock.kernel_version() > 0)
    monkeypatch.setattr(landlock, "kernel_version", lambda: 0)
    assert search_wall() is False


def test_rules_that_hold_nothing_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "confine_thread", lambda confinement: True)
    assert search_wall() is False


def test_trying_binds_no_thread_that_lives_on() -> None:
    before = threading.active_count()
    search_wall()
    assert threading.active_count() <= before  # threads of earlier tests may end meanwhile
    os.close(os.open("/etc/hosts", os.O_RDONLY))
