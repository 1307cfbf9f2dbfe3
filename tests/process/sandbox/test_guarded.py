"""Finding guarded places, and finding them again quickly."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.sandbox import guarded as module
from ferrule.process.sandbox.guarded import GuardedTree


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[GuardedTree]:
    made = GuardedTree(str(tmp_path), frozenset({"named/file"}))
    yield made
    made.close()


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")


def test_every_repository_and_every_folder_are_looked_at(tree: GuardedTree, tmp_path: Path) -> None:
    for where in (".", "a/b", "a/.git/modules/sub"):
        subprocess.run(
            ["git", "init", "-q", *(["--bare"] if "modules" in where else []), str(tmp_path / where)], check=True
        )
    make(
        tmp_path,
        "ferrule.toml",
        "a/b/.vscode/x",
        "a/c/.vscode/x",
        "a/c/.husky/pre-commit",
        "a/.envrc",
        "a/.git/HEAD",
        "a/.git/info/attributes",
        "info/attributes",
        "node_modules/x/.vscode/x",
        "named/file",
        "w/.git",
        "a/.git/worktrees/t/config.worktree",
    )
    found = tree.look()
    assert set(found.marks) == {
        ".git/config", ".git/hooks", "a/b/.git/config", "a/b/.git/hooks", "a/.git/modules/sub/config",
        "a/.git/modules/sub/hooks",
        "ferrule.toml", "a/b/.vscode", "a/c/.vscode", "a/c/.husky", "a/.envrc", "a/.git/info/attributes", "named/file",
        "w/.git",
        "a/.git/worktrees/t/config.worktree",
    }  # fmt: skip
    assert found.repositories == {"", "a", "a/b", "w"}
    assert found.complete


def test_a_folder_that_looks_like_a_repository_hides_nothing_below_it(tree: GuardedTree, tmp_path: Path) -> None:
    make(tmp_path, "HEAD", "objects/x", "refs/x", "config", "sub/.git/config", ".vscode/x")
    assert set(tree.look().marks) == {"config", "sub/.git/config", ".vscode"}


@pytest.mark.parametrize(
    ("line", "guarded"),
    [
        ("hooksPath = .githooks", ".githooks"),
        ('HOOKSPATH="tools/../scripts/hooks" ; ours', "scripts/hooks"),
        ("hookspath = /elsewhere/hooks", None),
        ("hooksPath = ../out", None),
        ("hooksPath = .", None),
    ],
)
def test_the_folder_that_git_takes_hooks_from_is_guarded(
    tree: GuardedTree, tmp_path: Path, line: str, guarded: str | None
) -> None:
    make(tmp_path, ".git/HEAD", ".githooks/pre-commit", "scripts/hooks/pre-commit")
    (tmp_path / ".git/config").write_text(f"[core]\n\t{line}\n")
    assert set(tree.look().marks) == {".git/config"} | ({guarded} if guarded else set())


def test_links_are_not_followed(tree: GuardedTree, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / ".git").symlink_to("/")
    assert set(tree.look().marks) == {".git"}


def test_too_many_folders_are_said_not_to_be_all(
    tree: GuardedTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_FOLDERS", 3)
    for name in "abcd":
        (tmp_path / name).mkdir()
    assert not tree.look().complete


def test_setting_back_the_time_of_a_folder_hides_nothing(tree: GuardedTree, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = (tmp_path / "a").stat()
    tree.look()
    make(tmp_path, "a/.git/config")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "a/.git/config" in tree.look().marks


NAMES = st.sampled_from(
    ["a", "b", ".git", "config", "hooks", "HEAD", "objects", "refs", ".vscode", "ferrule.toml", "modules"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@given(steps=st.lists(st.tuples(st.sampled_from(["make", "remove", "move", "look"]), PATHS, PATHS), max_size=25))
def test_looking_again_finds_what_a_fresh_look_finds(
    steps: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The law behind the speed: however the tree changed, nothing is missed for having been seen before."""
    import contextlib
    import shutil

    folder = tmp_path_factory.mktemp("tree")
    tree = GuardedTree(str(folder))
    for what, one, other in steps:
        with contextlib.suppress(OSError, shutil.Error):
            if what == "make":
                make(folder, one)
            elif what == "remove":
                shutil.rmtree(folder / one)
            elif what == "move":
                (folder / one).rename(folder / other)
            else:
                tree.look()
    again = tree.look()
    module._remembered.clear()
    fresh = GuardedTree(str(folder))
    assert fresh.look() == again
    fresh.close()
    tree.close()
