"""Opening by real names alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.process.folder_index import open_plain, opened


def test_real_names_lead_there(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("hello")
    root = os.open(tmp_path, os.O_RDONLY)
    with opened(root, "a/b/c", os.O_RDONLY) as file:
        assert os.read(file, 10) == b"hello"
    with opened(root, "") as same:
        assert os.fstat(same).st_ino == os.fstat(root).st_ino
    os.close(root)


@pytest.mark.parametrize("path", ["link/c", "a/link", "link", "a/b/out"])
def test_a_link_anywhere_is_an_error_and_nothing_stays_open(tmp_path: Path, path: str) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("hello")
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "a/link").symlink_to("b/c")
    (tmp_path / "a/b/out").symlink_to("/etc/passwd")
    root = os.open(tmp_path, os.O_RDONLY)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        open_plain(root, path, os.O_RDONLY)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    os.close(root)
