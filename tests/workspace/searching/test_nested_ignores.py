"""`.ferruleignore` in every folder, heeded after ripgrep. The ignore files' test shows that the walk agrees."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.builtin.search_workspace import ask

from ferrule.builtin.grep import grep
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.find_files import find_files
from ferrule.workspace.searching.search import NestedIgnores


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a.log", "src/a.log", "src/b.py", "src/gen/x.py", "src/gen/deep/y.py", "lib/a.log", "lib/gen/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    (tmp_path / "src/.ferruleignore").write_text("*.log\n/gen/\n")
    return tmp_path


def found(root: Path, start: str = ".") -> set[str]:
    paths = Paths([root])
    listed = asyncio.run(find_files(paths, paths.find(start), (), 100, lambda names: None))
    return {name.decode().removeprefix("./") for name in listed.names} - {"src/.ferruleignore"}


def test_it_counts_from_its_folder_on(root: Path) -> None:
    assert found(root) == {"a.log", "src/b.py", "lib/a.log", "lib/gen/x.py"}
    assert found(root, "src") == {"src/b.py"}
    assert found(root, "lib") == {"lib/a.log", "lib/gen/x.py"}


def test_a_search_that_starts_in_what_is_left_out_is_meant(root: Path) -> None:
    assert found(root, "src/gen") == {"src/gen/x.py", "src/gen/deep/y.py"}


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
def test_every_search_of_contents_heeds_it(root: Path, mode: str) -> None:
    result = ask(grep, root, {"pattern": "needle", "output_mode": mode})
    assert [file["path"] for file in result.data["files"]] == ["a.log", "lib/a.log", "lib/gen/x.py", "src/b.py"]
    assert result.data["total_files"] == 4
    assert ask(grep, root, {"pattern": "needle", "path": "src/a.log"}).data["total_files"] == 1  # named, so meant


def test_one_below_cannot_bring_back_what_one_above_leaves_out(root: Path) -> None:
    (root / ".ferruleignore").write_text("*.log\n")
    (root / "lib/.ferruleignore").write_text("!a.log\n")
    assert "lib/a.log" not in found(root)


def test_an_ignore_file_that_keeps_outweighs_it(root: Path) -> None:
    (root / "src/.ignore").write_text("!a.log\n")
    assert "src/a.log" in found(root)


def test_folders_are_looked_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths([root])
    stays = NestedIgnores(paths.find("."))
    looked: list[bytes] = []
    has_rules = stays._has_rules
    monkeypatch.setattr(stays, "_has_rules", lambda folder: looked.append(folder) or has_rules(folder))
    names = [b"./lib/a.log", b"./lib/b", b"./lib/gen/x.py", b"./a.log"]
    assert stays.of(names) == stays.of(names) == names
    assert sorted(looked) == [b"lib", b"lib/gen"]
