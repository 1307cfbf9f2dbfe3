"""Files that a workspace brings: read when they are files, refused in words when they are something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.workspace.confined import read_given


def test_a_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"some words")
    (tmp_path / "link").symlink_to("real")
    assert read_given(tmp_path / "real") == read_given(tmp_path / "link") == b"some words"


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null"])
def test_a_device_is_not_read(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OSError, match="it is not a regular file"):
        read_given(tmp_path / "link")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        read_given(tmp_path / "pipe")


def test_a_file_that_is_too_long_is_not_read_whole(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 11)
    assert read_given(tmp_path / "long", 11) == b"x" * 11
    with pytest.raises(OSError, match="it has more than 10 bytes"):
        read_given(tmp_path / "long", 10)


def test_what_is_not_there_or_a_folder_is_the_systems_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_given(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_given(tmp_path)
