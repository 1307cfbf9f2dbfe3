"""Git's configuration, read strictly."""

# ruff: noqa: E501 - a text that is pinned stands on one line
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.sandbox.git_config import harmless, of_person, read_settings, runs_nothing_new

FRESH = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n[remote "origin"]\n\turl = https://host/x.git\n'


def test_a_fresh_repository_is_harmless() -> None:
    settings = harmless(FRESH)
    assert settings is not None
    assert [(one.section, one.part, one.name, one.value) for one in settings][2:] == [
        ("remote", "origin", "url", "https://host/x.git")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[core]\nfsmonitor = evil", "[CORE]\nFSMonitor=evil", "[core] fsmonitor = evil", "[core]hooksPath=x",
        "[core]\n\\\nfsmonitor = x", "[core]\nbare = false \\\n x", "[include]\npath = x", '[includeIf "x"]\npath = y',
        "[alias]\nx = !y", '[filter "x"]\nclean = y', "[core.x]\ny = z", "fsmonitor = x", "[core\nx", "[core]\n= x",
        "[diff]\nexternal = x", '[remote "o"]\nurl = ext::sh -c x', '[remote "o"]\nurl = --upload-pack=x', "\ufeff[core]\nbare=1",
        '[remote "o"]\nuploadpack = x', "[core]\nsshCommand = x", "[core]\neditor = x", "[gpg]\nprogram = x",
        '[core]\nbare = "true\nfsmonitor = x"', "[core]\x0bfsmonitor=x", "[core]\rfsmonitor=x", "x" * (1 << 21),
    ],
)  # fmt: skip
def test_what_may_run_something_is_not_harmless(text: str) -> None:
    assert harmless(text) is None


def test_comments_and_quotes_are_understood() -> None:
    settings = read_settings('# a\n; b\n[user] name = "Ada \\\\ L" \n email = a@b # mine\n')
    assert settings is not None
    assert [one.value for one in settings] == ["Ada \\ L", "a@b"]


def test_of_a_person_only_name_and_habits_are_kept() -> None:
    text = '[user]\nname = A "B"\nsigningkey = x\n[core]\neditor = evil\nautocrlf = input\n[url "x"]\ninsteadOf = y\n'
    assert of_person(text) == '[user]\n\tname = "A \\"B\\""\n[core]\n\tautocrlf = "input"\n'
    assert of_person("[broken") == ""


@given(st.text(alphabet='[]"=\\#; \n\tabcore.usernm!', max_size=60))
def test_git_reads_no_more_than_we_do(text: str) -> None:
    """Where we call a file harmless, git finds in it only what we found."""
    settings = harmless(text)
    if settings is None:
        return
    done = subprocess.run(
        ["git", "config", "--file", "-", "--list", "--name-only"], input=text, text=True, capture_output=True
    )
    ours = {".".join(filter(None, (one.section, one.part, one.name))) for one in settings}
    assert set(done.stdout.splitlines()) <= ours


def test_what_we_write_git_reads(tmp_path: Path) -> None:
    (tmp_path / "c").write_text(of_person('[user]\nname = "Ada # ; \\\\ L"\n'))
    done = subprocess.run(["git", "config", "-f", str(tmp_path / "c"), "user.name"], capture_output=True, text=True)
    assert done.stdout == "Ada # ; \\ L\n"


OLD = '[core]\n\tbare = false\n\tpager = less -R # mine\n[alias]\n\tst = status\n[remote "o"]\n\turl = https://host/x.git\n'


@pytest.mark.parametrize(
    "added",
    [
        '[remote "up"]\n\turl = git@host:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/up/*',
        '[branch "main"]\n\tremote = o\n\tmerge = refs/heads/main', '[branch "main"]\n\tremote = .',
        "[user]\n\tname = Ada", '[remote "up"]\n\turl = ssh://git@host:22/x', '[branch "a b"]\n\tdescription = "a ; b"',
    ],
)  # fmt: skip
def test_remotes_branches_and_the_user_run_nothing_new(added: str) -> None:
    assert runs_nothing_new(OLD, f"{OLD}{added}\n")
    assert runs_nothing_new(f"{OLD}{added}\n", OLD)
    assert not runs_nothing_new(OLD, OLD.replace("less", "evil") + added)
    assert not runs_nothing_new(OLD, f"[alias]\n\tx = !evil\n{OLD}{added}\n")


@pytest.mark.parametrize(
    "added",
    [
        '[remote "up"]\n\turl = file:///x', '[remote "up"]\n\turl = ../x', '[remote "up"]\n\turl = ext::sh',
        '[remote "up"]\n\turl = "https://x" ext::sh', '[remote "up"]\n\turl = https://x\\ty', '[remote "up"]\n\turl =',
        '[remote "o"]\n\turl = /x', '[remote "o"]\n\tpushurl = ./x', '[remote "x"]\n\tfetch = a:b',
        '[branch "main"]\n\tremote = ./x', '[branch "main"]\n\tpushRemote = x', "[remote]\n\turl = https://x",
        '[user "x"]\n\tname = y', "[user]\n\tsigningkey = x", '[remote "o"]\n\tvcs = x', '[remote "o"]\n\tproxy = x',
        "# \u2028[user]\n\tname = !evil", "# \x0c[user]\n\tname = !evil", "# \x85[user]\n\tname = !evil",
        "# \r[user]\n\tname = !evil", '[user]\n\tname = "a\\\n\tb"', "[include]\n\tpath = x", "\u00a0[user]\n\tname = x",
        '[remote "o"]\n\tpromisor = true',
    ],
)  # fmt: skip
def test_what_may_run_something_is_no_harmless_change(added: str) -> None:
    assert not runs_nothing_new(f"{OLD}[alias]\n\ty = z\n", f"{OLD}[alias]\n\ty = z\n{added}\n")


def test_a_branch_is_not_left_following_a_folder() -> None:
    followed = f'{OLD}[branch "main"]\n\tremote = o\n'
    assert not runs_nothing_new(followed, followed.replace("url = https://host/x.git", "tagopt = --tags"))
    assert runs_nothing_new(followed, OLD.partition("[remote")[0])


SOME = st.lists(
    st.sampled_from([
        "[core]", "[alias]", "[user]", '[remote "o"]', '[branch "m"]', "[include]", "\tname = a", "\turl = https://h/x",
        "\turl = x", "\tpager = evil", "\tpath = x", "\tremote = o", "# x", "; \u2028[user]", "\x0c", "\\", '"', "\r",
        "\tname = !evil", "\tx = !evil \\", "\tname", " [user] name = b", "\u00a0",
    ]),
    max_size=8,
)  # fmt: skip


@given(SOME, SOME, SOME, st.sampled_from(["\n", "\r\n", "\r", ""]))
def test_for_git_a_harmless_change_is_about_remotes_branches_and_the_user_alone(
    start: list[str], old: list[str], new: list[str], end: str
) -> None:
    """The law behind merging by key, with git's own reading as the judge."""

    def read(lines: list[str]) -> list[str]:
        text = "".join(line + (end or "\n") for line in lines)
        done = subprocess.run(
            ["git", "config", "--file", "-", "--list", "-z"], input=text.encode(), capture_output=True, check=False
        )
        listed = done.stdout.decode().split("\0")
        return [one for one in listed if not one.startswith(("remote.o.url", "branch.m.remote", "user.name"))]

    before, after = ("".join(line + (end or "\n") for line in [*start, *lines]) for lines in (old, new))
    if runs_nothing_new(before, after):
        assert read([*start, *new]) in (read([*start, *old]), [""])  # or git cannot read it any more
