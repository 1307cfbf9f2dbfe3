"""Git is asked where its hooks, included files and the like are, and those places are guarded (S1, S2)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule.process.sandbox import obeyed
from ferrule.process.sandbox.guarded import obeyed_below


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    (made / "ws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(made))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.delenv(name, raising=False)
    git(made / "ws", "init", "-q")
    return made


def git(folder: Path, *words: str) -> None:
    subprocess.run(("git", *words), cwd=folder, check=True, capture_output=True)


def found(home: Path) -> set[str]:
    start = f"{home / 'ws'}/"
    return {path.removeprefix(start) for path in obeyed_below(str(home / "ws"))} - {".git/config"}


PLACES: dict[str, tuple[Callable[[Path], None], str]] = {
    "hooks of the repository": (lambda home: git(home / "ws", "config", "core.hooksPath", "hooks"), "hooks"),
    "with a whole path": (lambda home: git(home / "ws", "config", "core.hooksPath", f"{home}/ws/a/b"), "a/b"),
    "from the home": (lambda home: git(home / "ws", "config", "core.hooksPath", "~/ws/h"), "h"),
    "hooks of the user": (lambda home: git(home, "config", "--global", "core.hooksPath", "~/ws/h"), "h"),
    "relative hooks of the user": (lambda home: git(home, "config", "--global", "core.hooksPath", "rel"), "rel"),
    "hooks beside everything": (lambda home: git(home / "ws", "config", "core.hooksPath", "."), "pre-commit"),
    "inside the git directory": (lambda home: git(home / "ws", "config", "core.hooksPath", ".git/mine"), ".git/mine"),
    "an included file": (lambda home: git(home / "ws", "config", "include.path", "../conf/git"), "conf/git"),
    "what the user includes": (lambda home: git(home, "config", "--global", "include.path", "ws/inc"), "inc"),
    "what they include on a condition": (
        lambda home: git(home, "config", "--global", "includeIf.onbranch:other.path", "~/ws/inc"),
        "inc",
    ),
    "attributes": (lambda home: git(home, "config", "--global", "core.attributesFile", "~/ws/attr"), "attr"),
    "templates": (lambda home: git(home, "config", "--global", "init.templateDir", "~/ws/tpl"), "tpl"),
    "a program": (lambda home: git(home / "ws", "config", "diff.x.textconv", "./tools/conv"), "tools/conv"),
    "a script": (lambda home: git(home / "ws", "config", "filter.x.clean", "python3 clean.py"), "clean.py"),
    "an alias": (lambda home: git(home, "config", "--global", "alias.x", "!sh bin/do.sh"), "bin/do.sh"),
    "an alias that is a function": (
        lambda home: git(home, "config", "--global", "alias.x", "!f() { ./go.sh; }; f"),
        "go.sh",
    ),
    "what a shell in a setting runs": (
        lambda home: git(home / "ws", "config", "core.pager", "sh -c './a.sh|./b.sh'"),
        "b.sh",
    ),
    "from the top of the repository": (
        lambda home: git(home, "config", "--global", "alias.x", '!"$(git rev-parse --show-toplevel)/top.sh"'),
        "top.sh",
    ),
    "from where the user is": (lambda home: git(home, "config", "--global", "alias.x", "!. $GIT_PREFIX/x.sh"), "x.sh"),
    "from the home by its variable": (
        lambda home: git(home, "config", "--global", "core.pager", "$HOME/ws/page"),
        "page",
    ),
    "words that no shell takes": (lambda home: git(home / "ws", "config", "alias.x", "!f() { don't; ./y; }"), "y"),
    "by the environment": (lambda _: os.environ.update(GIT_CONFIG_COUNT="1"), "env"),
    "settings of a worktree": (
        lambda home: (
            git(home / "ws", "config", "extensions.worktreeConfig", "true"),
            git(home / "ws", "config", "--worktree", "core.hooksPath", "wt"),
        )[0],
        "wt",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", PLACES)
def test_where_settings_of_git_point_is_known(home: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COUNT", "0"), ("KEY_0", "core.hooksPath"), ("VALUE_0", "env")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    set_up, place = PLACES[how]
    assert place not in found(home)
    set_up(home)
    assert place in found(home)


def test_a_plain_repository_has_none(home: Path) -> None:
    git(home / "ws", "remote", "add", "origin", "https://example.org/x.git")
    assert found(home) == set()


def test_what_an_included_file_names_counts_too(home: Path) -> None:
    git(home / "ws", "config", "include.path", "../inc/one")
    (home / "ws/inc").mkdir()
    (home / "ws/inc/one").write_text("[include]\n\tpath = two\n[include]\n\tpath = one\n")
    (home / "ws/inc/two").write_text("[core]\n\thooksPath = deep\n")
    assert {"inc/one", "inc/two", "deep"} <= found(home)


def test_a_repository_that_the_workspace_is_a_part_or_a_worktree_of_counts(home: Path) -> None:
    main = home / "main"
    git(home, "init", "-q", "main")
    git(main, "-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "config", "core.hooksPath", "hooks")
    git(main, "worktree", "add", "-q", "../tree")
    (main / "hooks").mkdir()
    assert f"{home}/tree/hooks" in obeyed_below(str(home / "tree"))
    (main / "hooks/sub").mkdir()
    git(main, "config", "core.hooksPath", "hooks/sub")
    assert f"{main}/hooks/sub" in obeyed_below(str(main / "hooks"))


def test_what_a_link_in_the_home_leads_to_is_obeyed(home: Path) -> None:
    """As in a repository of the settings that a user has."""
    (home / "ws/bashrc").write_text("")
    (home / ".bashrc").symlink_to("ws/bashrc")
    (home / ".config").mkdir()
    (home / ".config/nvim").symlink_to(home / "ws/nvim")
    (home / ".gitconfig").symlink_to("ws/git/config")
    (home / ".ssh").mkdir()
    (home / ".ssh/config").symlink_to("../ws/ssh")
    (home / ".config/fish").mkdir()
    assert {"bashrc", "nvim", "git/config", "ssh"} <= found(home)
    (home / ".config/fish/config.fish").symlink_to(home / "ws/fish")
    assert "fish" in found(home)


def test_dots_behind_a_link_lead_where_git_goes(home: Path) -> None:
    (home / "ws/deep/er").mkdir(parents=True)
    (home / "ws/link").symlink_to("deep/er")
    git(home / "ws", "config", "core.hooksPath", "link/../hooks")
    assert {"hooks", "deep/hooks"} <= found(home)


def test_what_a_guarded_link_leads_to_is_obeyed(home: Path) -> None:
    (home / "ws/.vscode").symlink_to("conf/code")
    (home / "ws/.cargo").symlink_to("conf/cargo")
    assert {".vscode", "conf/code", ".cargo", "conf/cargo"} <= found(home)


@pytest.mark.parametrize("text", ["[core\n", "[core]\n\thooksPath = h\n[", "\0"])
def test_a_file_that_git_cannot_read_is_not_obeyed(home: Path, text: str) -> None:
    (home / ".gitconfig").write_text(text)
    assert found(home) <= {".gitconfig"}


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(home: Path) -> None:
    os.mkfifo(home / "pipe")
    git(home / "ws", "config", "include.path", str(home / "pipe"))
    (home / "ws/sub").mkdir()
    os.mkfifo(home / "ws/sub/.git")
    began = time.monotonic()
    assert found(home) == set()
    assert time.monotonic() - began < 4


def test_git_is_asked_again_only_when_a_file_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(home / "ws", "config", "core.hooksPath", "one")
    git(home, "config", "--global", "alias.st", "status")
    asked: list[object] = []
    run = subprocess.run

    def counted(*words: object, **options: object) -> object:
        asked.append(words)
        return run(*words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(obeyed.subprocess, "run", counted)
    monkeypatch.setattr(obeyed, "_is_old", lambda _: True)
    found(home)
    asked.clear()
    assert "one" in found(home)
    assert asked == []
    monkeypatch.setattr(obeyed, "_is_old", lambda _: False)
    (home / "ws/.git/config").write_text("[core]\n\thooksPath = two\n")
    assert "two" in found(home)
    assert len(asked) == 1
