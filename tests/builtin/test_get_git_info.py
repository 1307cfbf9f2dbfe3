"""getGitInfo, through the real pipeline on real repositories. What hostile ones try is in tests/workspace."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from inline_snapshot import snapshot
from tests.builtin.search_workspace import ask, words

from ferrule.builtin.surroundings import get_git_info
from ferrule.core.lint import lint_tool

CLEAN = {
    "PATH": os.defpath,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
}


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=CLEAN, capture_output=True, check=True)


def test_what_a_model_reads_of_it() -> None:
    assert lint_tool(get_git_info) == []
    assert get_git_info.description.text == snapshot("""\
Get the branch, commit, remote and changed files of the git repository you are in.

Use this before you speak of the state of a repository. It never changes anything, and runs no hook, filter or
other program that the repository names.

Usage notes:
- `branch` is null when HEAD is detached, `commit` is null before the first one. `added` holds new files, also those git does not track yet; a folder of only such files is named once, with `/`.
- Each list holds at most 500 names; `notes` says what is left out. A repository that begins above the workspace does not count.

Examples:
- which git branch is this, and what has changed: {}\
""")


def test_what_it_gives(tmp_path: Path) -> None:
    assert ask(get_git_info, tmp_path).data == snapshot(
        {
            "isRepo": False,
            "branch": None,
            "commit": None,
            "remote": None,
            "status": {"modified": [], "added": [], "deleted": []},
        }
    )
    assert ask(get_git_info, tmp_path).display_content == "not a git repository"
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("1")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "remote", "add", "upstream", "https://me:token@example.org/x.git")
    (tmp_path / "a").write_text("22")
    (tmp_path / "b").unlink()
    (tmp_path / "c").write_text("1")
    result = ask(get_git_info, tmp_path)
    assert result.data == snapshot(
        {
            "isRepo": True,
            "branch": "main",
            "commit": "b92a9bbb57b0b58f29d600c0546a924b0c3e8647",
            "remote": "https://example.org/x.git",
            "status": {"modified": ["a"], "added": ["c"], "deleted": ["b"]},
        }
    )
    assert result.display_content == "main, 3 changes"


def test_bad_cases(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / ".git").write_text(f"gitdir: {tmp_path}/elsewhere\n")
    assert words(get_git_info, tmp_path / "ws") == snapshot("""\
Error (permission_error): `.git` leads to a repository outside the workspace that does not belong to it.

Suggestion: Go on without git, or ask the user to look at `.git`.\
""")
