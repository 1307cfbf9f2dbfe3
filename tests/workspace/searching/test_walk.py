"""Listing folders."""

from __future__ import annotations

import os
from pathlib import Path

from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.find_files import Walk


def test_folders_come_first_and_links_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "secret").mkdir(parents=True)
    (root / "z" / "inner").mkdir(parents=True)
    (root / "a").write_text("12345")
    (root / "out").symlink_to(outside)
    os.mkfifo(root / "pipe")
    paths = Paths([root])
    walk = Walk(paths, paths.find("."))
    listed = [(level, entry.path.name, entry.kind) for level, entry in walk.all()]
    assert listed == [
        (0, "z", "directory"),
        (1, "inner", "directory"),
        (0, "a", "file"),
        (0, "out", "link"),
        (0, "pipe", "other"),
    ]
    assert [entry.path.name for _, entry in walk.all(depth=1)] == ["z", "a", "out", "pipe"]
    assert next(entry.size for _, entry in walk.all() if entry.path.name == "a") == 5


def test_what_else_to_leave_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "b").write_text("")
    paths = Paths([tmp_path])
    walk = Walk(paths, paths.find("."), lambda path: path.name == "a")
    assert [entry.path.name for _, entry in walk.all()] == ["b"]
    assert walk.ignored == 1
