"""What a command did inside git directories: said as git would, and listed unless that explains it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.layers.overlay import tried

from ferrule.core.call import Effects
from ferrule.workspace.layers import git_files
from ferrule.workspace.layers.effects import effects_of
from ferrule.workspace.paths import Paths

VALUES = {"NAME": "x", "EMAIL": "x", "DATE": "2026-01-02T03:04:05Z"}
SET = [f"GIT_{who}_{what}={value}" for who in ("AUTHOR", "COMMITTER") for what, value in VALUES.items()]
WHO = f"export {' '.join(SET)} GIT_CONFIG_GLOBAL=/dev/null GIT_EDITOR=true; "


def really(root: Path, commands: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    subprocess.run(["bash", "-c", WHO + commands], cwd=root, env=environment, check=True, capture_output=True)


def effects(root: Path, commands: str) -> Effects:
    return effects_of(Paths([root]), tried(root, f"{WHO}{commands}; true").changes)


def lines(root: Path, commands: str) -> list[str]:
    return effects(root, commands).lines(100)


@pytest.fixture
def repository(root: Path) -> Path:
    really(root, "git init -q -b master; rm -rf .git/hooks; echo one > f.txt; git add .; git commit -qm first")
    return root


def test_p4_a_commit_is_said_as_git_would(repository: Path) -> None:
    told = effects(repository, "echo two >> f.txt; git add -A; git commit -m second")
    assert told.lines() == ["1 commit on master: second; f.txt +1", "change f.txt (+1 -0)", "and 8 files inside .git"]
    assert told.reason == "it would change 1 file and change the git repository"
    assert "COMMIT_EDITMSG" not in told.diff
    assert told.left_out == 0
    data = told.as_data()
    assert data["git"] == ["1 commit on master: second; f.txt +1"]
    assert data["counts"] == {"change": 1}
    assert [one["path"] for one in data["files"] if not one.get("internal")] == ["f.txt"]
    assert sum(bool(one.get("internal")) for one in data["files"]) == 8
    assert len(told.files) == 9  # rules judge all of them


def test_whatever_git_obeys_is_listed(repository: Path) -> None:
    commands = """git tag v1; echo evil > .git/hooks; git config user.name n; mkdir -p .git/info
        echo '* filter=x' > .git/info/attributes; echo odd > .git/odd; echo /elsewhere > .git/objects/info/alternates
        mkdir .git/rebase-merge; echo 'exec evil' > .git/rebase-merge/git-rebase-todo; ln -s /etc .git/refs/tags/link"""
    assert lines(repository, commands) == snapshot(
        [
            "new tag v1 at e1d3182",
            "rebase in progress",
            "change .git/config (+2 -0)",
            "create .git/hooks (+1 -0)",
            "create .git/info/attributes (+1 -0)",
            "create .git/objects/info/alternates (+1 -0)",
            "create .git/odd (+1 -0)",
            "create .git/rebase-merge/git-rebase-todo (+1 -0)",
            "create .git/refs/tags/link (+1 -0) (-> /etc)",
            "create .git/refs/tags/v1 (+1 -0)",
        ]
    )


def test_a_file_that_is_not_what_its_place_says_is_listed(repository: Path) -> None:
    """Only what was checked is left out of the list."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    name = head.stdout.strip()
    commands = f"""git branch fine; echo '#!/bin/sh' > .git/refs/heads/script
        printf '%s evil' {name} > .git/refs/heads/more
        mkdir -p .git/objects/aa; echo text > .git/objects/aa/{"a" * 38}; echo junk > .git/logs/refs/heads/fine
        echo evil > .git/ORIG_HEAD; printf '{name}\\n' > .git/MERGE_HEAD; chmod +x .git/MERGE_HEAD
        echo DIRC > .git/worktrees; echo x > .git/refs/heads/y.lock; chmod 666 .git/HEAD"""
    told = effects(repository, commands)
    assert {one.shown for one in told.internals} == set()  # git is not asked about objects that are not verified
    commands = commands.replace(f"mkdir -p .git/objects/aa; echo text > .git/objects/aa/{'a' * 38};", "")
    told = effects(repository, commands)
    assert [one.shown for one in told.internals] == [".git/refs/heads/fine"]
    assert len(told.files) == 9


def test_a_log_that_loses_lines_and_objects_that_go_are_listed(repository: Path) -> None:
    really(repository, "echo two > f.txt; git commit -qam second; git commit -q --amend -m again")
    told = effects(repository, "git reflog expire --expire=now --all; git prune")
    assert told.lines() == snapshot(
        [
            "1 object removed",
            "delete .git/objects/a9/5c76e44f796d092af06a1061bd4d55041b9e57 (binary, 133 bytes)",
            "change .git/logs/HEAD (+0 -3)",
            "change .git/logs/refs/heads/master (+0 -3)",
        ]
    )
    gc = "git -c gc.reflogExpire=never -c gc.reflogExpireUnreachable=never gc -q --prune=never"
    told = effects(repository, f"{gc}; rm -f .git/info/refs .git/objects/info/commit-graph")
    assert told.lines() == ["git repacked its objects; no ref changed", f"and {len(told.internals)} files inside .git"]


def test_packs_are_verified(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gc = "git -c gc.reflogExpire=never gc -q --prune=never; rm -f .git/info/refs .git/objects/info/commit-graph"
    damaged = f"{gc}; cd .git/objects/pack; chmod u+w *; printf x | dd of=$(echo *.pack) bs=1 seek=30 conv=notrunc"
    assert effects(repository, gc).internals
    assert not effects(repository, damaged).internals
    monkeypatch.setattr(git_files, "_MOST_PACKED", 100)
    told = effects(repository, gc)
    assert "git repacked its objects; no ref changed" in told.lines()
    assert {one.shown for one in told.internals} == {
        ".git/packed-refs",
        ".git/refs/heads/master",
        ".git/objects/info/packs",
    }


def test_repositories_below_are_named_and_so_are_bare_ones(repository: Path) -> None:
    told = effects(
        repository,
        "git clone -q --no-hardlinks --template= --bare .git copy; mkdir sub; cd sub; git init -q --template= -b main; "
        "echo x > x; git add x; git commit -qm inner",
    )
    assert told.lines(40) == snapshot(
        [
            "in copy: a new repository",
            "in copy: new branch master with 1 commit: first; f.txt +1",
            "in sub: a new repository",
            "in sub: new branch main with 1 commit: inner; x +1",
            "create sub/.git/config (+5 -0)",
            "create copy/config (+6 -0)",
            "create sub/x (+1 -0)",
            "and 21 files inside .git",
        ]
    )


def test_a_repository_that_goes_is_listed_whole(repository: Path) -> None:
    told = effects(repository, "rm -rf .git")
    assert told.lines()[0] == "the repository is removed"
    assert not told.internals
    assert {one.action for one in told.files} == {"delete"}


def test_many_lines_of_git_leave_room_for_files(repository: Path) -> None:
    told = effects(repository, "for i in $(seq 30); do git tag t$i; echo > n$i; done").lines()
    assert sum(line.startswith("new tag") for line in told) == 10
    assert told[10:] == [
        "… and 20 more in git",
        "create 30 files: n1, n10, n11, …",
        "and 30 files inside .git",
    ]
    many = "for i in $(seq 30); do git tag a$i; done; git update-ref refs/tags/zzz HEAD"
    really(repository, many)
    gone = effects(repository, "git tag -d zzz; for i in $(seq 30); do git tag b$i; done").lines()
    assert gone[0].startswith("tag zzz deleted")


STEPS = (
    "echo $RANDOM > f.txt; git add .; git commit -qm c",
    "git branch b$RANDOM",
    "git switch -qc s$RANDOM",
    "git commit -q --amend -m a",
    "git gc -q --prune=now",
    "echo x > .git/hooks",
    "git config a.b c",
    "echo s > s; git add s; git stash",
    "echo junk > .git/refs/heads/junk",
    "git worktree add -q wt",
    "git pack-refs --all",
    "git reflog expire --expire=now --all; git prune --expire=now",
    "rm .git/index",
    "echo x > .git/description",
)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4))
def test_every_change_is_listed_or_explained(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        root.mkdir()
        really(root, "git init -q -b master; rm -rf .git/hooks; echo one > f.txt; git add .; git commit -qm first")
        changes = tried(root, WHO + "; ".join((*steps, "true"))).changes
        told = effects_of(Paths([root]), changes)
        shown = told.lines(10_000)
        filled = {one.path.parent for one in changes}
        for one in told.files:
            assert one.internal or one.words in shown
            if one.internal:
                assert told.git
                assert not any(
                    part in one.shown for part in ("hooks", "config", "description", ".git/info/", "junk", "gitdir")
                )
        implied = {str(one.path) for one in changes if one.of_folders and one.path in filled}
        assert {str(one.path) for one in changes} - implied <= {one.path for one in told.files}
