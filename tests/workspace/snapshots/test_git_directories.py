"""Undo and redo never remove or rewrite anything in a git directory; they put back what a command deleted (P11)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.workspace.history_room import Shop

from ferrule.workspace.git_folders import GitFolders, has_object, packed_objects
from ferrule.workspace.snapshots.changes import Change, Operation, State
from ferrule.workspace.snapshots.git_undo import by_safety

SET_UP = """
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
"""


class Repository(Shop):
    """A workspace that is a repository with one commit."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bash("git init -qb main; echo one > f.txt; git add -A; git commit -qm first")

    def bash(self, script: str) -> None:
        super().bash(SET_UP + script)

    def git(self, *arguments: str, folder: str = ".") -> str:
        done = subprocess.run(
            ["bash", "-c", f'{SET_UP} git "$@"', "git", *arguments],
            cwd=self.tree / folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def of_git(self, folder: str = ".git") -> dict[str, bytes]:
        """Every file of a git directory."""
        found = (self.tree / folder).rglob("*")
        return {str(one.relative_to(self.tree)): one.read_bytes() for one in found if one.is_file()}

    def undo(self) -> str:
        report = self.room.history.undo()
        assert self.git("fsck", "--strict", "--no-dangling") == ""
        return str(report)


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_branch_on_a_commit_that_was_undone_stays_whole(shop: Repository):
    shop.run("echo two >> f.txt; git add -A; git commit -qm second")
    shop.bash("git branch side")
    before = shop.of_git()
    said = shop.undo()
    assert (shop.tree / "f.txt").read_text() == "one\n"
    assert shop.of_git() == before
    commit = shop.git("rev-parse", "--short", "side").strip()
    assert said == (
        "1 change undone.\nGit keeps what was done there:\n"
        f"  1 commit on main: {commit} second; git reset --soft HEAD~1 drops it"
    )


def test_redo_changes_working_files_alone(shop: Repository):
    shop.run("echo two >> f.txt; git add -A; git commit -qm second")
    shop.undo()
    shop.bash("git reset -q --hard HEAD~1; git commit -q --allow-empty -m other")
    before = shop.of_git()
    assert str(shop.room.history.redo()) == "1 change redone."
    assert shop.of_git() == before
    assert (shop.tree / "f.txt").read_text() == "one\ntwo\n"


def test_a_deleted_repository_comes_back_to_the_byte(shop: Repository):
    shop.bash("git branch side; git pack-refs --all; git commit -q --allow-empty -m second; git gc -q")
    before = shop.of_git()
    shop.run("rm -rf .git")
    shop.undo()
    assert shop.of_git() == before


def test_what_the_user_made_since_is_not_touched(shop: Repository):
    shop.bash("git branch side; git branch other")
    shop.run("git branch -D side other")
    shop.bash("git commit -q --allow-empty -m new; git branch side")
    mine = shop.git("rev-parse", "side")
    assert "branch other put back" in shop.undo()
    assert shop.git("rev-parse", "side") == mine
    assert shop.git("rev-parse", "other") == shop.git("rev-parse", "main~1")


def test_a_packed_ref_comes_back_as_a_loose_one(shop: Repository):
    shop.bash("git branch side; git tag v1; git pack-refs --all")
    packed = (shop.tree / ".git/packed-refs").read_bytes()
    shop.run("git branch -D side; git tag -d v1")
    left = (shop.tree / ".git/packed-refs").read_bytes()
    assert left != packed
    said = shop.undo()
    assert (shop.tree / ".git/packed-refs").read_bytes() == left
    assert (shop.tree / ".git/refs/heads/side").read_text() == shop.git("rev-parse", "main")
    assert "branch side put back\ntag v1 put back" in said


def test_a_ref_whose_place_is_taken_is_said_to_be_missing(shop: Repository):
    shop.bash("git branch side")
    shop.run("git branch -D side")
    shop.bash("git branch side/one")
    assert "branch side could not be put back." in shop.undo()
    assert shop.git("rev-parse", "side/one") == shop.git("rev-parse", "main")


def test_empty_folders_are_not_in_the_way_of_a_ref(shop: Repository):
    shop.bash("git branch side")
    shop.run("git branch -D side")
    shop.bash("mkdir -p .git/refs/heads/side/one/two")
    assert "branch side put back" in shop.undo()


def test_a_loose_ref_that_was_only_packed_is_not_put_back(shop: Repository):
    shop.bash("git branch side")
    shop.run("git gc -q; echo x > x.txt")
    shop.bash("git commit -q --allow-empty -m new; git branch -f side; git pack-refs --all")
    mine = shop.git("rev-parse", "side")
    shop.undo()
    assert shop.git("rev-parse", "side") == mine
    assert not (shop.tree / ".git/refs/heads/side").exists()


def test_objects_that_were_pruned_come_back(shop: Repository):
    shop.bash("git branch side; git checkout -q side; git commit -q --allow-empty -m lost; git checkout -q main")
    lost = shop.git("rev-parse", "side").strip()
    shop.run("git branch -D side; git reflog expire --expire=now --all; git gc -q --prune=now")
    assert "fatal: " in shop.git("cat-file", "commit", lost)
    shop.undo()
    assert shop.git("rev-parse", "side").strip() == lost
    assert "lost" in shop.git("cat-file", "commit", lost)


def test_objects_that_were_only_packed_are_not_kept_twice(shop: Repository):
    shop.bash("for n in 1 2 3; do echo $n > $n.txt; git add -A; git commit -qm $n; done")
    shop.run("git gc -q; git commit -q --allow-empty -m more; git repack -adq")
    assert list((shop.room.store / "contents").glob("*/*.git")) == []


def test_a_command_that_only_let_git_look_again_is_not_in_the_history(shop: Repository):
    shop.run("touch f.txt; git status; git log; git gc -q; git commit --dry-run")
    assert shop.room.history.recent() == []


def test_large_files_that_git_keeps_beside_its_objects_come_back(shop: Repository):
    shop.bash("mkdir -p .git/lfs/objects/aa/bb; echo large > .git/lfs/objects/aa/bb/aabb")
    before = shop.of_git()
    for command in ("rm -rf .git/lfs", "rm .git/lfs/objects/aa/bb/aabb"):
        shop.run(command)
        shop.undo()
        assert shop.of_git() == before


@pytest.mark.parametrize("folder", ["bare.git", "meta"])
def test_a_folder_is_a_git_directory_by_what_is_in_it(shop: Repository, folder: str):
    shop.bash(f"git clone -q --bare . {folder}")
    shop.run(f"git -C {folder} update-ref refs/heads/new HEAD; echo x > x.txt")
    before = shop.of_git(folder)
    shop.undo()
    assert shop.of_git(folder) == before
    assert not (shop.tree / "x.txt").exists()
    shop.run(f"rm -rf {folder}")
    shop.undo()
    assert shop.of_git(folder) == before


def test_a_worktree_that_was_removed_is_one_again(shop: Repository):
    shop.bash("git worktree add -q wt; echo mine > wt/mine.txt")
    before = shop.of_git()
    shop.run("git worktree remove --force wt")
    shop.undo()
    assert (shop.tree / "wt/mine.txt").read_text() == "mine\n"
    assert {name: shop.of_git().get(name) for name in before} == before
    assert shop.git("status", "--short", folder="wt") == "?? mine.txt\n"


def test_what_a_command_added_stays_and_is_said(shop: Repository):
    shop.run("git worktree add -q wt; git tag v1; echo x > x.txt; git add x.txt")
    said = shop.undo()
    assert (shop.tree / "wt/.git").exists()
    assert not (shop.tree / "wt/f.txt").exists()
    assert "git tag -d v1 drops it" in said
    assert "x.txt" in said


def test_an_undo_goes_past_commands_that_changed_nothing_but_git(shop: Repository):
    shop.run("echo two >> f.txt", call="1")
    shop.run("git commit -qam second", call="2")
    said = shop.undo()
    assert (shop.tree / "f.txt").read_text() == "one\n"
    assert "second; git reset --soft HEAD~1 drops it" in said
    assert str(shop.room.history.redo()) == "1 change redone."
    assert shop.room.history.diff(2) == ".git: changed by git.\n"


def test_an_object_that_was_damaged_before_it_was_deleted_is_not_put_back(shop: Repository):
    commit = shop.git("rev-parse", "HEAD").strip()
    path = f".git/objects/{commit[:2]}/{commit[2:]}"
    shop.run(f"chmod u+w {path}; echo junk > {path}; rm {path}")
    assert "could not be put back" in str(shop.room.history.undo())
    assert not (shop.tree / path).exists()


def test_owners_and_extended_attributes_come_back(shop: Repository):
    file = shop.tree / "f.txt"
    os.setxattr(file, "user.note", b"kept")
    shop.run("echo two > g; mv g f.txt")
    assert os.listxattr(file) == []
    shop.undo()
    assert os.getxattr(file, "user.note") == b"kept"
    shop.run("rm f.txt")
    shop.undo()
    assert os.getxattr(file, "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may set capabilities")
def test_capabilities_that_a_write_took_away_come_back(shop: Repository):
    file = shop.tree / "f.txt"
    capability = b"\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    os.setxattr(file, "security.capability", capability)
    shop.run("echo two >> f.txt")
    assert os.listxattr(file) == []
    shop.undo()
    assert os.getxattr(file, "security.capability") == capability


def test_git_folders_are_found_by_name_and_by_content():
    there = {"/w/bare/HEAD", "/w/bare/objects", "/w/bare/refs", "/w/half/HEAD", "/w/half/refs"}
    folders = GitFolders(there.__contains__)
    assert folders.of("/w/.git") == "/w/.git"
    assert folders.of("/w/sub/.git/modules/x/HEAD") == "/w/sub/.git"
    assert folders.of("/w/bare/objects/ab/cd") == "/w/bare"
    assert folders.of("/w/half/HEAD") is None
    assert folders.of("/w/.gitignore") is None


def test_objects_come_before_what_names_them_and_go_after_it():
    git = Path("/w/.git")

    def change(inner: str, *, made: bool) -> Change:
        state = State("x", 0o644)
        operation = Operation.CREATE if made else Operation.DELETE
        before, after = (None, state) if made else (state, None)
        return Change(0, git / inner, operation, None, before, after, 0, covered=True, repository=git)

    names = [
        ("HEAD", True), ("refs/heads/a/b", True), ("refs/heads/a", False), (f"objects/ab/{38 * 'c'}", False),
        ("refs/heads/old", False), ("objects/pack/pack-1.idx", True), ("objects/pack/pack-1.pack", True),
    ]  # fmt: skip
    ordered = by_safety([change(inner, made=made) for inner, made in names])
    assert [str(one.path.relative_to(git)) for one in ordered] == [
        "refs/heads/a", "objects/pack/pack-1.pack", "objects/pack/pack-1.idx", "refs/heads/a/b", "HEAD",
        "refs/heads/old", f"objects/ab/{38 * 'c'}",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_objects_are_found_in_packs_and_beside_them(tmp_path: Path, form: str):
    shop = Shop(tmp_path)
    shop.bash(
        f"{SET_UP} git init -q --object-format={form} .; git commit -q --allow-empty -m one; git rev-parse HEAD > id"
    )
    git, name = str(shop.tree / ".git"), bytes.fromhex((shop.tree / "id").read_text())
    assert has_object(git, name)
    shop.bash("git gc -q")
    assert has_object(git, name)
    (index,) = (shop.tree / ".git/objects/pack").glob("*.idx")
    listed = packed_objects(str(index), 10)
    assert listed is not None
    assert name in listed
    assert packed_objects(str(index), 1) is None


# Cases of independent testers


def test_a_ref_is_not_put_where_a_packed_one_has_its_folder(shop: Repository):
    for mine, taken in (("a", "a/b"), ("c/d", "c")):
        shop.bash(f"git branch {mine}")
        shop.run(f"git branch -D {mine}")
        shop.bash(f"git branch {taken}; git pack-refs --all")
        assert f"branch {mine} could not be put back." in shop.undo()
        assert not (shop.tree / ".git/refs/heads" / mine).is_file()
        assert shop.git("branch", "-D", taken).startswith("Deleted branch")


def test_folders_without_which_git_sees_no_repository_come_back(shop: Repository):
    shop.bash("git pack-refs --all; git gc -q; git init -q --bare empty.git")
    shop.run("rm -rf .git/refs empty.git/refs empty.git/objects")
    shop.undo()
    assert "nothing to commit" not in shop.git("status")
    assert shop.git("rev-parse", "--is-bare-repository", folder="empty.git") == "true\n"


def test_nothing_is_put_into_another_repository_of_the_same_name(shop: Repository):
    shop.bash("git checkout -qb x; git commit -q --allow-empty -m x; git checkout -q main")
    shop.run("git branch -D x; echo k > k")
    shop.bash("rm -rf .git; git init -qb main; git add .; git commit -qm fresh")
    before = shop.of_git()
    assert "branch x could not be put back." in shop.undo()
    assert shop.of_git() == before


def test_nothing_of_a_deleted_repository_is_put_into_a_new_one(shop: Repository):
    shop.bash("git init -qb main r; cd r; echo a > a; git add .; git commit -qm a; git branch old; git pack-refs --all")
    shop.run("rm -rf r")
    shop.bash("git init -qb main r; cd r; echo b > b; git add .; git commit -qm b")
    before = shop.of_git("r/.git")
    report = shop.room.history.undo()
    assert report.incomplete
    assert "is not the repository it was; nothing was put back there." in str(report)
    assert shop.of_git("r/.git") == before


def test_no_git_directory_is_begun_where_the_user_removed_it(shop: Repository):
    shop.bash("git branch x")
    shop.run("git branch -D x; echo k > k")
    shop.bash("rm -rf .git")
    assert "nothing was put back there." in str(shop.room.history.undo())
    assert not (shop.tree / ".git").exists()


def test_a_ref_does_not_come_back_without_all_of_its_objects(shop: Repository):
    shop.bash("git checkout -qb big; echo big > big; git add .; git commit -qm big; git checkout -q main")
    blob = shop.git("rev-parse", "big:big").strip()
    shop.run("git branch -D big; git reflog expire --expire=now --all; git gc -q --prune=now")
    group = shop.room.history.recent()[0]
    for row in group.git:
        if row.before is not None and str(row.path).endswith(f"{blob[:2]}/{blob[2:]}"):
            (shop.room.store / "contents" / row.before.content[:2] / row.before.content[2:]).unlink()
    assert "branch big could not be put back." in shop.undo()
    assert shop.git("gc", "-q") == ""


def test_commits_in_nested_repositories_and_submodules_are_said_with_their_folder(shop: Repository):
    shop.bash("git init -qb main r; cd r; echo a > a; git add .; git commit -qm a")
    shop.run("cd r; echo x >> a; git commit -qam agent")
    assert "; git -C r reset --soft HEAD~1 drops it" in shop.undo()
    shop.bash("git -c protocol.file.allow=always submodule add -q ./r sm; git commit -qm sub")
    shop.run("cd sm; echo t >> a; git commit -qam t", call="2")
    said = shop.undo()
    assert " t; git " in said
    assert "reset --soft HEAD~1 drops it" in said


def test_a_folder_that_stays_because_of_its_repository_is_not_said_to_be_removed(shop: Repository):
    shop.run("git init -q n; echo x > n/x")
    shop.undo()
    assert (shop.tree / "n/.git").is_dir()
    assert not (shop.tree / "n/x").exists()
