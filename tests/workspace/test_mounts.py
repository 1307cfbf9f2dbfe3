"""Mounts on the way to a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.workspace import paths as mounts
from ferrule.workspace.paths import mount_between


def test_the_first_mount_below_a_folder_is_found() -> None:
    assert mount_between(Path("/"), Path("/proc/self/status")) == Path("/proc")
    assert mount_between(Path("/"), Path("/proc")) == Path("/proc")
    assert mount_between(Path("/proc"), Path("/proc/self/status")) is None
    assert mount_between(Path("/"), Path("/no/such/folder")) is None


def test_names_are_read_as_the_kernel_escapes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "mountinfo"
    listed.write_bytes(b"45 44 254:0 / /ws/my\\040disk\\134x rw - ext4 /dev/vda rw\n46 44 0:1 / /ws/b rw - bind x rw\n")
    monkeypatch.setattr(mounts, "_MOUNTS", listed)
    assert mount_between(Path("/ws"), Path("/ws/my disk\\x/f")) == Path("/ws/my disk\\x")
    assert mount_between(Path("/ws"), Path("/ws/b")) == Path("/ws/b")
    assert mount_between(Path("/ws"), Path("/ws/bb")) is None


def test_without_a_list_the_device_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "none")
    assert mount_between(Path("/"), Path("/proc/self")) == Path("/proc")
    assert mount_between(tmp_path, tmp_path / "a/b") is None
