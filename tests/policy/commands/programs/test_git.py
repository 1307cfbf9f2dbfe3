"""`git`."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git -C a --no-pager log -5",
        "git branch -a",
        "git branch --list 'a*'",
        "git tag -l",
        "git config --get a.b",
        "git remote -v",
        "git stash list",
        "git grep -n x",
        "git diff --stat",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "git -c a=b status",
        "git branch x",
        "git branch -D x",
        "git tag v",
        "git config a.b c",
        "git config --uns a.b",
        "git stash",
        "git grep -nOless x",
        "git diff --output=x",
        "git push",
        "git alias",
        "git --git-dir=x log",
        "git remote add a b",
        "git log --ext-diff",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "git push -f",
        "git push --force-w",
        "git reset --hard",
        "git clean -xdf",
        "git checkout -- .",
        "git config core.hooksPath x",
    ],
)
def test_what_cannot_be_taken_back_is_a_danger(command: str):
    assert analyse(command).dangers


@pytest.mark.parametrize(
    "command", ["git push", "git commit -m x", "git reset a", "git checkout main", "git branch -d x", "git stash"]
)
def test_ordinary_work_is_no_danger(command: str):
    assert analyse(command).dangers == ()
