"""Git's configuration, read strictly."""

# ruff: noqa: E501 - a text that is pinned stands on one line
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.sandbox.git_config import harmless, of_person, read_settings

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
