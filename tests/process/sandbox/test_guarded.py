"""Finding guarded places, and finding them again quickly."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.process import folder_index as module
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
    of_git = {"config", "hooks", "branches"}  # `branches` is in the templates of older versions of git
    assert {path for path in found.marks if Path(path).name not in of_git} == {
        "ferrule.toml", "a/b/.vscode", "a/c/.vscode", "a/c/.husky", "a/.envrc", "a/.git/info/attributes", "named/file",
        "w/.git",
        "a/.git/worktrees/t/config.worktree",
    }  # fmt: skip
    repositories = (".git", "a/b/.git", "a/.git/modules/sub")
    assert found.marks.keys() >= {f"{one}/{name}" for one in repositories for name in ("config", "hooks")}
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
    ["a", "b", ".git", "config", "hooks", "HEAD", "objects", "refs", ".vscode", "info", "attributes", "modules"]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
STEPS = st.tuples(st.sampled_from(["make", "folder", "remove", "move", "swap", "look"]), PATHS, PATHS)


@pytest.mark.parametrize("watched_from", [1, 3, 1_000])
@given(steps=st.lists(STEPS, max_size=25))
def test_looking_again_finds_what_a_fresh_look_finds(
    watched_from: int, steps: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The law behind the speed: however the tree changed, nothing is missed for having been seen before."""
    import contextlib
    import shutil

    folder = tmp_path_factory.mktemp("tree")
    tree = GuardedTree(str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WATCHED_FROM", watched_from)
        for what, one, other in steps:
            with contextlib.suppress(OSError, shutil.Error):
                if what == "make":
                    make(folder, one)
                elif what == "folder":
                    (folder / one).mkdir(parents=True)
                elif what == "remove":
                    shutil.rmtree(folder / one)
                elif what == "move":
                    (folder / one).rename(folder / other)
                elif what == "swap":  # each is a folder that was there before, with all that is in it
                    (folder / one).rename(folder.parent / "aside")
                    (folder / other).rename(folder / one)
                    (folder.parent / "aside").rename(folder / other)
                else:
                    tree.look()
        again = tree.look()
    module._remembered.clear()
    fresh = GuardedTree(str(folder))
    assert fresh.look() == again
    fresh.close()
    tree.close()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder.parent / "aside", ignore_errors=True)


@pytest.fixture
def watched(tree: GuardedTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuardedTree:
    """A tree that the kernel watches."""
    monkeypatch.setattr(module, "_WATCHED_FROM", 1)
    for name in ("a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    tree.look()
    return tree


def test_a_look_at_what_did_not_change_asks_the_kernel_nothing_of_any_folder(
    watched: GuardedTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def visited(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(module.FolderIndex, "_visit", visited)
    assert watched.look().folders == {"", "a", "a/b", "c"}


def test_what_is_not_watched_is_looked_at_by_its_time(
    watched: GuardedTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that others change too, or when the user's editors watch all that may be watched."""

    def cannot(*_: object) -> int:
        return module._CANNOT

    monkeypatch.setattr(module._Watches, "add", cannot)
    make(tmp_path, "new/x")
    watched.look()
    make(tmp_path, "new/.envrc", "a/b/.envrc")
    assert {"new/.envrc", "a/b/.envrc"} <= watched.look().marks.keys()


def test_when_the_kernel_could_not_tell_all_everything_is_looked_at(
    watched: GuardedTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "a/b/.envrc")
    monkeypatch.setattr(module, "_EVENT", _Overflowing())
    watched.look()
    monkeypatch.undo()
    assert "a/b/.envrc" in watched.look().marks


class _Overflowing:
    size = 1 << 20

    def unpack_from(self, data: bytes, at: int) -> tuple[int, int, int, int]:
        return -1, module._OVERFLOW, 0, 0


def test_a_fork_looks_for_itself(watched: GuardedTree, tmp_path: Path) -> None:
    make(tmp_path, "a/b/.envrc")
    child = os.fork()
    if child == 0:
        os._exit(0 if "a/b/.envrc" in watched.look().marks else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert "a/b/.envrc" in watched.look().marks  # what the kernel told was not taken from us


def test_when_something_is_mounted_everything_is_looked_at(
    watched: GuardedTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mounted:
        def poll(self, milliseconds: int) -> list[int]:
            return [milliseconds]

    before = module._watches._turn
    monkeypatch.setattr(module._watches, "_changed_mounts", Mounted())
    assert watched.look().folders == {"", "a", "a/b", "c"}
    assert module._watches._turn == before + 1
