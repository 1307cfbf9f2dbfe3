"""A quick look at everything in a workspace, and at nothing outside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ferrule.workspace.paths import Paths
from ferrule.workspace.snapshots.changes import Node
from ferrule.workspace.snapshots.tree_store import Scan, below, scan


def look(top: Path, most: int = 1000) -> Scan:
    return scan(Paths([top]).roots, most)


def names(found: Scan, top: Path) -> set[str]:
    return {os.path.relpath(path, top.resolve()) for path in found.seen}


def test_files_links_and_folders_are_seen(tmp_path: Path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("x")
    (tmp_path / "l").symlink_to("d")
    found = look(tmp_path)
    assert {name: found.seen[f"{tmp_path.resolve()}/{name}"].node for name in ("d", "d/a", "l")} == {
        "d": Node.FOLDER,
        "d/a": Node.FILE,
        "l": Node.LINK,
    }
    assert names(found, tmp_path) == {"d", "d/a", "l"}


def test_links_are_not_followed(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("x")
    (tmp_path / "ws" / "l").symlink_to("../secret")
    assert names(look(tmp_path / "ws"), tmp_path / "ws") == {"l"}


def test_pipes_and_sockets_are_passed_over(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert look(tmp_path).seen == {}


def test_folders_of_package_managers_are_named_and_not_entered(tmp_path: Path):
    for name in (".hg", "node_modules", "deep/.jj", "deep/env"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "inner").write_text("x")
    (tmp_path / "deep" / "env" / "pyvenv.cfg").write_text("")
    found = look(tmp_path)
    assert names(found, tmp_path) == {"deep", "deep/env"}
    assert {os.path.relpath(path, tmp_path.resolve()) for path in found.left_out} == {
        ".hg",
        "node_modules",
        "deep/.jj",
        "deep/env",
    }


def test_git_directories_are_left_out_first_where_there_are_too_many_files(tmp_path: Path):
    for folder in (".git", ".git/objects", "src", "bare", "bare/objects", "bare/refs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bare" / "HEAD").touch()
    for number in range(20):
        (tmp_path / "src" / str(number)).touch()
        (tmp_path / ".git" / "objects" / str(number)).touch()
        (tmp_path / "bare" / "objects" / str(number)).touch()
    found = look(tmp_path, most=30)
    assert found.whole
    assert {os.path.relpath(path, tmp_path.resolve()) for path in found.left_out} == {".git", "bare"}
    assert names(found, tmp_path) == {"src", *(f"src/{number}" for number in range(20))}
    assert look(tmp_path, most=200).left_out == set()


def test_the_workspace_itself_may_be_a_virtual_environment(tmp_path: Path):
    (tmp_path / "pyvenv.cfg").write_text("")
    assert names(look(tmp_path), tmp_path) == {"pyvenv.cfg"}


def test_it_stops_at_the_limit_and_says_so(tmp_path: Path):
    for number in range(20):
        (tmp_path / str(number)).touch()
    assert not look(tmp_path, most=10).whole
    assert look(tmp_path, most=20).whole


def test_many_folders_side_by_side_need_no_more_than_one_descriptor(tmp_path: Path):
    import resource

    for number in range(200):
        (tmp_path / str(number)).mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    paths = Paths([tmp_path])
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 40, hard))
    try:
        found = scan(paths.roots, 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(found.seen) == 200


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path):
    (tmp_path / "d").mkdir(mode=0)
    assert look(tmp_path).unreadable == {str(tmp_path.resolve() / "d")}


def test_a_root_inside_another_is_seen_once(tmp_path: Path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").touch()
    assert len(scan(Paths([tmp_path, tmp_path / "d"]).roots, 100).seen) == 2


def test_below_goes_by_folders_and_not_by_the_beginning_of_a_name():
    assert list(below(["/a/b", "/ab", "/a"], ["/a"])) == ["/a/b"]
    assert list(below(["/a/b"], [])) == []


def test_a_folder_to_leave_out_is_named_and_not_entered(tmp_path: Path):
    (tmp_path / "own" / "deep").mkdir(parents=True)
    (tmp_path / "own" / "a").write_text("x")
    (tmp_path / "mine").write_text("x")
    own = f"{tmp_path.resolve()}/own"
    found = scan(Paths([tmp_path]).roots, 1000, {own})
    assert names(found, tmp_path) == {"own", "mine"}
    assert found.left_out == {own}
