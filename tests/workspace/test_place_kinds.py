"""What is at a place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.workspace.paths import Paths, require_file_or_folder, require_folder, require_regular
from ferrule.workspace.problems import PathError


def test_each_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "inner").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    paths = Paths([tmp_path])
    require_folder(paths, paths.find("."), "x")
    for name in (".", "file", "inner"):
        require_file_or_folder(paths, paths.find(name))
    with pytest.raises(PathError, match="is a file, not a folder"):
        require_folder(paths, paths.find("file"), "x")
    for require in (require_file_or_folder, lambda paths, place: require_folder(paths, place, "x")):
        with pytest.raises(PathError, match="is a pipe, and is not opened"):
            require(paths, paths.find("pipe"))
    require_regular(paths.find("file"), (tmp_path / "file").stat())
    with pytest.raises(PathError, match="is a directory"):
        require_regular(paths.find("."), tmp_path.stat())
