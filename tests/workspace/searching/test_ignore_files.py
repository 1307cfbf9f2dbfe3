"""Ignore files: our reading of them agrees with ripgrep's."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.workspace import ignore_files
from ferrule.workspace.ignore_files import Ignored, IgnoreRule, enclosing_ignore_files
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.find_files import Walk, find_files

FILES = ("a.py", "b.log", "build/out.txt", "src/a.py", "src/build/x.py", "src/deep/b.log", "keep/b.log", ".hidden/x")


def plant(root: Path, rules: dict[str, str]) -> None:
    for name in (*FILES, "node_modules/m/i.js", ".git/HEAD"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    for name, text in rules.items():
        (root / name).write_text(text)


def by_walk(root: Path) -> set[str]:
    paths = Paths([root])
    entries = Walk(paths, paths.find(".")).all()
    return {str(entry.path.relative_to(root)) for _, entry in entries if entry.kind == "file"}


def by_ripgrep(root: Path) -> set[str]:
    paths = Paths([root])
    found = asyncio.run(find_files(paths, paths.find("."), (), 1000, lambda names: None))
    return {os.fsdecode(name).removeprefix("./") for name in found.names}


LINES = st.sampled_from(
    ["*.log", "build/", "/build", "!b.log", "src/", "*.py", "!src/a.py", "**/deep", "src/**/x.py", "# no", "", "b*"]
)
RULES = st.dictionaries(
    st.sampled_from(
        [".gitignore", ".ignore", "src/.gitignore", "keep/.ignore", ".ferruleignore", "src/.ferruleignore"]
    ),
    st.lists(LINES, max_size=3).map("\n".join),
    max_size=4,
)


@given(RULES)
@settings(max_examples=60, deadline=None)
def test_it_agrees_with_ripgrep(tmp_path_factory: pytest.TempPathFactory, rules: dict[str, str]) -> None:
    root = tmp_path_factory.mktemp("ignore")
    plant(root, rules)
    assert by_walk(root) == by_ripgrep(root)


def test_git_and_node_modules_never_count_and_hidden_files_do(tmp_path: Path) -> None:
    plant(tmp_path, {})
    assert by_walk(tmp_path) == by_ripgrep(tmp_path) == set(FILES)


def test_a_workspace_in_a_larger_repository_heeds_its_rules(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n/ws/build\n")
    inner = tmp_path / "ws"
    inner.mkdir()
    plant(inner, {})
    (inner / ".git" / "HEAD").unlink()
    (inner / ".git").rmdir()
    assert enclosing_ignore_files(inner) == (str(tmp_path / ".gitignore"),)
    assert by_walk(inner) == by_ripgrep(inner) == {name for name in FILES if ".log" not in name} - {"build/out.txt"}


def test_an_ignore_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").mkdir()
    os.mkfifo(tmp_path / ".ignore")
    (tmp_path / ".ferruleignore").write_bytes(b"\xff[\n[z-a]\nx\n")
    ignored = Ignored(tmp_path)
    assert ignored(tmp_path / "x", is_folder=False)
    assert not ignored(tmp_path / "y", is_folder=False)


def test_more_files_in_a_folder_are_no_more_looks_for_ignore_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A tree of a hundred thousand files is listed in seconds only so."""
    (tmp_path / ".gitignore").write_text("*.log\n")
    looked: list[str] = []
    rules = ignore_files._rules  # pyright: ignore[reportPrivateUsage]

    def counting(file: str) -> tuple[IgnoreRule, ...]:
        looked.append(file)
        return rules(file)

    monkeypatch.setattr(ignore_files, "_rules", counting)
    ignored = Ignored(tmp_path)
    assert not ignored(tmp_path / "a" / "b" / "0.txt", is_folder=False)
    once = len(looked)
    assert [ignored(tmp_path / "a" / "b" / f"{n}.log", is_folder=False) for n in range(50)] == [True] * 50
    assert len(looked) == once
