"""What changed in a repository between two moments, as git would say it."""

# ruff: noqa: E501 - a command and what is said of it stand on one line

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.workspace import git_changes as module
from ferrule.workspace.git import parse_index
from ferrule.workspace.git_changes import git_changes, remains
from ferrule.workspace.git_state import GitState, read_git_state

CLEAN = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    **{f"GIT_{who}_{what}": f"{what}@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_{who}_DATE": "2026-01-02T03:04:05Z" for who in ("AUTHOR", "COMMITTER")},
}


class Repository:
    """A repository, what the last commands changed in it, and what of that can be dropped how."""

    def __init__(self, folder: Path, init: str = "git init -q -b master") -> None:
        self.folder = folder
        self.git = folder / ".git"
        self.before = self.after = GitState()
        self._index = folder.parent / f"{folder.name}.index"
        folder.mkdir(parents=True)
        if init:
            self.run(init)

    def run(self, commands: str) -> None:
        subprocess.run(["bash", "-c", commands], cwd=self.folder, env=CLEAN, capture_output=True, check=False)

    def said(self, commands: str) -> list[str]:
        self.before = read_git_state(self.git)
        self._index.unlink(missing_ok=True)
        if (self.git / "index").exists():
            shutil.copy(self.git / "index", self._index)
        self.run(commands)
        self.after = read_git_state(self.git)
        return git_changes(
            self.git,
            self.before,
            read_git_state(self.git),
            index_before=str(self._index),
            index_after=str(self.git / "index"),
        ).lines

    def remains(self) -> list[str]:
        """With the parts of the states that the journal of changes keeps."""
        states = (self.before.part(self.after), self.after.part(self.before))
        before, after = (GitState.of_data(json.loads(json.dumps(one.as_data()))) for one in states)
        indexes = (self._index, self.git / "index")
        old, new = (parse_index(one.read_bytes()).entries if one.exists() else {} for one in indexes)
        staged = sorted(os.fsdecode(name) for name, one in new.items() if old.get(name) != one)
        return remains(self.git, before, after, shown=".git", staged=staged)

    def drop(self) -> list[str]:
        """Run the commands that are named."""
        named = [line.rpartition("; ")[2] for line in self.remains()]
        commands = [one.rpartition(" ")[0].rpartition(" ")[0] for one in named if one.startswith(("git ", "rm "))]
        for command in commands:
            subprocess.run(["bash", "-c", command], cwd=self.folder, env=CLEAN, capture_output=True, check=True)
        return commands


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "r")
    made.run("echo one > f.txt; git add .; git commit -qm first")
    return made


def test_a_commit(repository: Repository) -> None:
    assert repository.said("echo two >> f.txt; git add -A; git commit -m second") == [
        "1 commit on master: second; f.txt +1"
    ]
    assert [line.replace(repository.before.commit[:7], "OLD") for line in repository.remains()] == [
        f"1 commit on master: {read_git_state(repository.git).commit[:7]} second; git reset --soft HEAD~1 drops it"
    ]


@pytest.mark.parametrize(
    ("commands", "lines"),
    [
        ("git commit --allow-empty -qm nothing", ["1 commit on master: nothing"]),
        ("echo x > f.txt; echo n > new; git add .; git commit -qm two", ["1 commit on master: two; f.txt +1 -1, new +1"]),
        ("git rm -q f.txt; git commit -qm gone", ["1 commit on master: gone; f.txt -1"]),
        ("printf '\\0' > bin; git add .; git commit -qm bin", ["1 commit on master: bin; bin"]),
        (
            "for i in 1 2 3 4 5; do echo $i > $i; git add .; git commit -qm c$i; done",
            ["5 commits on master: c5; c4; c3; …; 5 files +5"],
        ),
        ("git commit --amend -qm 'better'", ["master: 1 commit replaced by 1: better"]),
        ("git checkout -q --orphan new; git commit -qm root", ["new branch new with 1 commit: root", "switched from master to new"]),
        ("git branch a/b", ["new branch a/b at ID"]),
        ("git switch -qc a/b; echo a > a; git add a; git commit -qm a", ["new branch a/b with 1 commit: a; a +1", "switched from master to a/b"]),
        ("git branch x; git branch -m x y", ["new branch y at ID"]),
        ("git checkout -q --detach", ["HEAD detached at ID (was master)"]),
        ("git checkout -q --detach; git commit -q --allow-empty -m loose", ["HEAD detached at ID (was master), with 1 commit: loose"]),
        ("git tag v1; git tag -a v2 -m annotated", ["new tag v1 at ID", "new tag v2 at ID"]),
        ("git notes add -m note", ["refs/notes/commits created at ID"]),
        ("git update-ref refs/x/y HEAD", ["refs/x/y created at ID"]),
        ("git symbolic-ref refs/remotes/origin/HEAD refs/heads/master", ["origin/HEAD created at master"]),
        ("echo z >> f.txt; git stash", ["stashed: WIP on master: ID first"]),
        ("echo z >> f.txt; echo n > n; git add .", ["staged: f.txt, n"]),
        ("git rm -q --cached f.txt", ["staged: f.txt"]),
        ("git update-index --assume-unchanged f.txt", ["flags changed in the index: f.txt"]),
        ("git bisect start; git bisect bad", ["refs/bisect/bad created at ID", "bisect in progress"]),
        ("git worktree add -q ../wt -b w", ["new branch w at ID", "new worktree wt at w"]),
        ("git pack-refs --all; git gc -q", []),
        ("printf x > .git/refs/heads/bad", ["refs/heads/bad created at an invalid value"]),
        ("git read-tree HEAD; git status; git diff", []),
        ("git branch -f other; git push -q . master:refs/remotes/origin/master", ["new branch other at ID", "origin/master created at ID"]),
    ],
)  # fmt: skip
def test_what_a_command_changed(repository: Repository, commands: str, lines: list[str]) -> None:
    head = read_git_state(repository.git).commit
    said = repository.said(commands)
    ids = {head, *read_git_state(repository.git).refs.values(), read_git_state(repository.git).head}
    for one in ids:
        said = [line.replace(one[:7], "ID") if len(one) >= 40 else line for line in said]
    assert said == lines


def test_what_takes_two_steps(repository: Repository) -> None:
    def said(before: str, commands: str) -> list[str]:
        repository.run(before)
        return repository.said(commands)

    assert said("echo n > n; git add n", "git commit -qm n") == ["1 commit on master: n; n +1"]
    assert said("echo m > m; git add m", "git reset -q") == ["unstaged: m"]
    assert said("git add m; git commit -qm m", "git reset -q --soft HEAD~1") == snapshot(
        ["master reset to 417da45: drops 1 commit: m", "staged: m"]
    )
    assert said("git commit -qm m; git branch gone", "git branch -D gone") == snapshot(
        ["branch gone deleted (was ef9924f)"]
    )
    assert said("git tag t", "git tag -d t") == snapshot(["tag t deleted (was ef9924f)"])
    assert said("git tag t HEAD~1", "git tag -f t HEAD") == snapshot(["tag t moved from 417da45 to ef9924f"])
    assert said("echo 1 > m; git stash; echo 2 > m; git stash", "git stash drop stash@{1}") == snapshot(
        ["stash dropped: WIP on master: ef9924f m"]
    )
    assert said("", "git stash pop") == snapshot(["stash dropped: WIP on master: ef9924f m"])
    assert said("git checkout -fq master; git worktree add -q ../wt", "git worktree remove ../wt") == snapshot(
        ["worktree wt removed (was at wt)"]
    )


def test_merges_rebases_and_their_conflicts(repository: Repository) -> None:
    repository.run("git switch -qc side; echo side > f.txt; git commit -qam side; git switch -q master")
    repository.run("git branch clean; git switch -q clean; echo c > c; git add c; git commit -qm clean")
    repository.run("git switch -q master; echo master > f.txt; git commit -qam master")
    assert repository.said("git merge side") == ["merge in progress, conflicts in f.txt"]
    assert repository.remains() == ["merge in progress; git merge --quit drops it"]
    assert repository.said("git merge --abort") == ["merge no longer in progress", "unstaged: f.txt"]
    assert repository.said("git merge -q -m merged clean") == ["2 commits on master: merged; clean; c +1"]
    assert "git reset --soft HEAD" not in repository.remains()[0]  # HEAD~2 is another commit
    assert repository.said("git cherry-pick side") == ["cherry-pick in progress, conflicts in f.txt"]
    assert repository.said("git cherry-pick --abort")[0] == "cherry-pick no longer in progress"
    assert repository.said("git revert --no-edit HEAD~1")[0].startswith('1 commit on master: Revert "master"; f.txt')
    assert repository.said("git reset -q --hard side; git rebase clean") == snapshot(
        ["master: 3 commits replaced by 1: side; f.txt +1 -1"]
    )


def test_an_octopus(repository: Repository) -> None:
    for name in "abc":
        repository.run(f"git switch -qc {name} master; echo {name} > {name}; git add .; git commit -qm {name}")
    repository.run("git switch -q master")
    said = repository.said("git merge -q -m all a b c")
    assert said[0].startswith("4 commits on master: all; ")
    assert said[0].endswith("…; a +1, b +1, c +1")


def test_a_new_repository_and_its_first_commit(tmp_path: Path) -> None:
    made = Repository(tmp_path / "new", init="")
    assert made.said("git init -q -b master") == ["a new repository"]
    assert made.remains() == ["a new repository; rm -rf .git drops it"]
    assert made.said("echo x > x; git add x; git commit -qm first") == ["1 commit on master: first; x +1"]
    assert made.remains()[0].endswith("git update-ref -d HEAD drops it")
    assert made.said("rm -rf .git") == ["the repository is removed"]


def test_what_hides_in_a_subject_is_visible(repository: Repository) -> None:
    (repository.folder / "message").write_bytes("a \x1b[31m red \u202e gpj; f.txt +1".encode() + b" \xff\n\nbody")
    assert repository.said("git commit -q --allow-empty --cleanup=verbatim -F message") == snapshot(
        ['1 commit on master: "a \\\\x1b[31m red \\\\u{202e} gpj; f.txt +1 ÿ"']
    )


def test_names_that_are_not_utf8(repository: Repository) -> None:
    commands = "touch $'\\xff\\n\\x1b'; git add .; git commit -qm odd; git branch $'b\\xfe'"
    assert repository.said(commands) == snapshot(
        ["1 commit on master: odd; �⏎\\x1b", "new branch b� with 1 commit: odd; �⏎\\x1b"]
    )


def test_nothing_of_the_repository_is_obeyed(repository: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for key in ("core.fsmonitor", "diff.external", "core.pager", "alias.log", "core.sshCommand", "diff.x.textconv"):
        repository.run(f"git config {key} '!touch {ran}'; git config diff.x.command 'touch {ran}'")
    repository.run("echo '* diff=x filter=x' > .gitattributes; git config filter.x.clean 'touch " + str(ran) + "; cat'")
    ran.unlink(missing_ok=True)
    before = read_git_state(repository.git)
    repository.run("git -c core.fsmonitor= -c filter.x.clean=cat add -A; git -c core.fsmonitor= commit -qm all")
    ran.unlink(missing_ok=True)
    said = git_changes(
        repository.git, before, read_git_state(repository.git), index_before="", index_after=f"{repository.git}/index"
    ).lines
    assert said[0] == "1 commit on master: all; .gitattributes +1"
    assert not ran.exists()


def test_sha256(tmp_path: Path) -> None:
    made = Repository(tmp_path / "r", "git init -q -b master --object-format=sha256")
    assert made.said("echo x > x; git add x; git commit -qm first") == ["1 commit on master: first; x +1"]
    assert made.said("echo y >> x; git commit -qam second") == ["1 commit on master: second; x +1"]


def test_a_shallow_clone_a_borrowing_one_and_a_worktree(repository: Repository, tmp_path: Path) -> None:
    repository.run("for i in 1 2 3; do echo $i > f.txt; git commit -qam $i; done")
    origin = repository.folder
    for name, how in (("shallow", f"--depth=1 file://{origin}"), ("shared", f"--shared {origin}")):
        made = Repository(tmp_path / name, f"git clone -q {how} .")
        assert made.said("echo x > f.txt; git commit -qam x") == ["1 commit on master: x; f.txt +1 -1"]
        assert made.said("git commit -q --amend -m y") == ["master: 1 commit replaced by 1: y"]
    repository.run("git worktree add -q ../wt -b w")
    made = Repository(tmp_path / "other", "")
    made.folder, made.git = tmp_path / "wt", repository.git / "worktrees" / "wt"
    assert made.said("echo w > w; git add .; git commit -qm w") == ["1 commit on w: w; w +1"]
    assert repository.said("cd ../wt; git switch -q --detach") == [
        f"worktree wt switched from w to {read_git_state(made.git).head[:7]}"
    ]


def test_many_refs_are_all_named_and_cost_little(repository: Repository) -> None:
    said = repository.said(
        "id=$(git rev-parse HEAD); for i in $(seq 900); do echo create refs/heads/b/$i $id; done | git update-ref --stdin"
    )
    assert len(said) == 900
    repository.run("git pack-refs --all")
    assert len(read_git_state(repository.git).refs) == 901
    said = repository.said(
        "id=$(git rev-parse HEAD); for i in $(seq 1200); do echo create refs/tags/$i $id; done | git update-ref --stdin"
    )
    assert len(said) == 1001
    assert said[-1] == "… and 200 more"


def test_where_git_cannot_tell_refs_are_still_named(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_git_state(repository.git)
    repository.run("git commit -q --allow-empty -m two; git branch b")
    after = read_git_state(repository.git)

    def told() -> tuple[list[str], bool]:
        said = git_changes(repository.git, before, after)
        return said.lines, said.explained

    moved = [
        f"master moved from {before.commit[:7]} to {after.commit[:7]}",
        f"new branch b at {after.commit[:7]}",
    ]
    damaged = repository.git / "objects" / after.commit[:2] / after.commit[2:]
    content = damaged.read_bytes()
    damaged.chmod(0o644)
    damaged.write_bytes(b"damaged")
    assert told() == (moved, False)
    damaged.write_bytes(content)
    assert told()[1]
    monkeypatch.setattr(module, "SECONDS", 0.0)
    assert told() == (moved, False)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert told() == (moved, False)


def test_refs_in_a_form_that_is_not_understood_are_not_guessed_at(repository: Repository) -> None:
    before = read_git_state(repository.git)
    (repository.git / "HEAD").write_text("ref: refs/heads/.invalid\n")  # as reftable storage has it
    unknown = read_git_state(repository.git)
    assert unknown.head == ""
    said = git_changes(repository.git, unknown, unknown)
    assert (said.lines, said.explained) == ([], False)
    assert git_changes(repository.git, before, unknown).explained is False


DROPPED: list[tuple[str, list[str]]] = [
    ("echo a >> f.txt; git commit -qam a; echo b >> f.txt; git commit -qam b", ["git reset --soft HEAD~2"]),
    (
        "git switch -qc x; echo a > a; git add a; git commit -qm a",
        ["git symbolic-ref HEAD refs/heads/master", "git branch -D x"],
    ),
    ("git tag v1", ["git tag -d v1"]),
    ("echo a > 'a b'; git add .", ["git restore --staged -- 'a b'"]),
    ("echo a >> f.txt; git stash", ["git stash drop"]),
    ("git branch y", ["git branch -D y"]),
    ("git notes add -m n", ["git update-ref -d refs/notes/commits"]),
    ("git worktree add -q ../wt -b w", ["git worktree remove -f wt", "git branch -D w"]),
    ("git bisect start", ["git bisect reset HEAD"]),
    ("git checkout -q --detach", ["git symbolic-ref HEAD refs/heads/master"]),
]


@pytest.mark.parametrize(("commands", "dropping"), DROPPED)
def test_the_commands_that_drop_what_remains_work(repository: Repository, commands: str, dropping: list[str]) -> None:
    repository.said(commands)
    assert repository.drop() == dropping
    assert read_git_state(repository.git) == repository.before
    # What was committed is staged then.
    assert [line for line in repository.remains() if not line.startswith("staged: ")] == []


@pytest.mark.parametrize(
    ("commands", "since"),
    [
        ("git commit -q --allow-empty -m agent", "git commit -q --allow-empty -m user"),
        ("git branch x", "git switch -q x; git commit -q --allow-empty -m user"),
        ("git tag t", "git tag -f t HEAD~0; git commit -q --allow-empty -m user; git tag -f t"),
        ("git reset -q --hard HEAD~1", "git commit -q --allow-empty -m user"),
    ],
)
def test_no_command_is_given_that_would_drop_what_someone_did_since(
    repository: Repository, commands: str, since: str
) -> None:
    repository.run("git commit -q --allow-empty -m second")
    repository.said(commands)
    repository.run(since)
    assert [line for line in repository.remains() if not line.endswith("; changed since then")] == []
    assert "user" not in " ".join(repository.remains())


def test_stashes_of_the_user_are_not_the_commands(repository: Repository) -> None:
    repository.run("echo old >> f.txt; git stash -q")
    repository.said("echo a1 >> f.txt; git stash -q; echo a2 >> f.txt; git stash -q")
    repository.run("echo mine >> f.txt; git stash -q")
    assert repository.drop() == ["git stash drop 'stash@{2}'", "git stash drop 'stash@{1}'"]
    assert [one[:3] for one in read_git_state(repository.git).stashes[1:]] == [repository.before.stashes[0][:3]]


@pytest.mark.parametrize(
    ("shown", "called"), [(".git", "git"), ("a b/.git", "git -C 'a b'"), ("meta", "git --git-dir=meta")]
)
def test_commands_are_for_the_repository_that_changed(repository: Repository, shown: str, called: str) -> None:
    repository.said("git tag t")
    before, after = repository.before.part(repository.after), repository.after.part(repository.before)
    (line,) = remains(repository.git, before, after, shown=shown)
    assert line.endswith(f"; {called} tag -d t drops it")


def test_a_branch_that_is_not_checked_out_is_moved_back(repository: Repository) -> None:
    repository.run("git branch b")
    repository.said("git switch -q b; git commit -q --allow-empty -m two; git switch -q master")
    old = repository.before.commit
    assert repository.drop() == [f"git branch -f b {old}"]
    assert read_git_state(repository.git) == repository.before


OPERATIONS: list[Callable[[int], str]] = [
    lambda n: f"echo {n} > f{n % 3}.txt; git add -A; git commit -qm 'c{n}'",
    lambda n: "git commit -q --amend --allow-empty -m amended",
    lambda n: f"git branch b{n % 4}",
    lambda n: f"git branch -D b{n % 4}",
    lambda n: f"git checkout -q b{n % 4}",
    lambda n: "git checkout -q --detach",
    lambda n: "git checkout -q master",
    lambda n: f"git tag -f t{n % 3}",
    lambda n: f"git tag -d t{n % 3}",
    lambda n: f"git merge -q b{n % 4}",
    lambda n: "git merge --abort",
    lambda n: f"git rebase -q b{n % 4}",
    lambda n: "git rebase --abort",
    lambda n: "git reset -q --hard HEAD~1",
    lambda n: f"echo {n} > s; git add s; git stash",
    lambda n: "git stash drop",
    lambda n: "git pack-refs --all",
    lambda n: "git gc -q --prune=now",
    lambda n: f"git update-ref refs/odd/{n % 2} HEAD",
    lambda n: f"git notes add -f -m {n}",
    lambda n: f"git branch -m b{n % 4} b{(n + 1) % 4}",
]


@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11)), min_size=1, max_size=6))
def test_every_ref_that_differs_is_named(steps: list[tuple[Callable[[int], str], int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Repository(Path(folder) / "r")
        made.run("echo one > f.txt; git add .; git commit -qm first; git branch b0; git branch b1")
        made.run("echo two > f.txt; git commit -qam second")
        half = len(steps) // 2
        made.run("; ".join(step(number) for step, number in steps[:half]))
        lines = made.said("; ".join(step(number) for step, number in steps[half:]))
        before, after = made.before, read_git_state(made.git)
        for name in {*before.refs, *after.refs}:
            if before.refs.get(name) != after.refs.get(name):
                words = "stash" if name == "refs/stash" else name.removeprefix("refs/heads/").removeprefix("refs/tags/")
                assert any(words in line for line in lines), (name, lines)
        if before.head != after.head:
            assert any("switched" in line or "HEAD" in line for line in lines), lines
        for one in before.operations ^ after.operations:
            assert any(one in line for line in lines), (one, lines)
        assert GitState.of_data(json.loads(json.dumps(after.as_data()))) == after
        assert not remains(made.git, after, after, shown=".git")
