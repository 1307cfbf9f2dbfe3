"""Moving things out of the way."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferrule.process.sandbox.guarded import KEPT_DAYS, Quarantine, quarantines


@pytest.fixture(params=["same file system", "another"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if request.param == "another":

        def refuse(*arguments: object, **options: object) -> None:
            raise OSError(errno.EXDEV, "another file system")

        monkeypatch.setattr(os, "rename", refuse)
    (tmp_path / "ws").mkdir()
    opened = os.open(tmp_path / "ws", os.O_RDONLY)
    yield opened
    os.close(opened)


def test_a_folder_is_moved_whole(root: int, tmp_path: Path) -> None:
    (tmp_path / "ws/a/.vscode/deep").mkdir(parents=True)
    (tmp_path / "ws/a/.vscode/deep/tasks").write_text("evil")
    (tmp_path / "ws/a/.vscode/link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "ws/a/.vscode/pipe")
    kept = Quarantine().take(root, "a/.vscode")
    assert not (tmp_path / "ws/a/.vscode").exists()
    assert (kept / "deep/tasks").read_text() == "evil"
    assert (kept / "link").is_symlink()
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_can_no_longer_be_run(root: int, tmp_path: Path) -> None:
    (tmp_path / "ws/hook").write_text("evil")
    (tmp_path / "ws/hook").chmod(0o755)
    kept = Quarantine().take(root, "hook")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_link_on_the_way_is_not_followed(root: int, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config").write_text("mine")
    (tmp_path / "ws/.git").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        Quarantine().take(root, ".git/config")
    assert (tmp_path / "other/config").read_text() == "mine"


def test_two_of_one_name_are_both_kept(root: int, tmp_path: Path) -> None:
    quarantine = Quarantine()
    kept: list[Path] = []
    for text in ("one", "two"):
        (tmp_path / "ws/x").write_text(text)
        kept.append(quarantine.take(root, "x"))
    assert [path.read_text() for path in kept] == ["one", "two"]


def test_what_was_moved_away_long_ago_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old, young = tmp_path / "ferrule-quarantine-old", tmp_path / "ferrule-quarantine-young"
    for one in (old, young, tmp_path / "ws", tmp_path / "ferrule-other"):
        one.mkdir()
        (one / "x").write_text("evil")
    long_ago = time.time() - (KEPT_DAYS + 1) * 86_400
    for one in (old, tmp_path / "ferrule-other"):
        os.utime(one, (long_ago, long_ago))
    assert quarantines() == [old, young]
    opened = os.open(tmp_path / "ws", os.O_RDONLY)
    try:
        kept = Quarantine().take(opened, "x")
    finally:
        os.close(opened)
    assert quarantines() == sorted([young, kept.parent])
    assert (tmp_path / "ferrule-other/x").exists()
