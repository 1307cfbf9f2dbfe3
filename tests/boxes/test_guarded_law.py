"""The law of guarded places: whatever an agent does while edits are accepted, git, shells, editors and agents run what
they ran before (S1, S2, P4).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.boxes.test_trial import desk

PLACES = (
    "tools/hooks/pre-commit", "tools/hooks/post-commit", "conf/included", "conf/user", "conf/conditional",
    "scripts/conv.py",
    "shared/hooks/pre-push", "attributes", "dotfiles/bashrc", ".envrc", ".vscode/tasks.json", "sub/.VSCode/tasks.json",
    "conf/code/tasks.json", "conf/cargo/config.toml", ".cargo/config.toml", ".husky/pre-commit", "crush.json",
    "my.code-workspace", ".gitattributes", ".git/info/attributes", ".git/hooks/pre-commit", ".git/config",
    ".git/config.worktree", ".git/commondir", ".git/remotes/x", "vendor/.git/config", "vendor/.git/hooks/post-checkout",
    "b/HEAD", "b/config", "b/objects/x", "b/refs/x", "b/hooks/pre-commit", "sub/.git", "sub/.git/HEAD", "nuget.config",
)  # fmt: skip
FREE = ("a.txt", "src/b.py", "new/c", ".travis.yml", "n/pre-commit", "n/config", "conf/free")
TEXTS = ("evil\n", "[core]\n\tfsmonitor = evil\n", "gitdir: ../b\n", "ref: refs/heads/x\n")
place, free, text = st.sampled_from(PLACES), st.sampled_from(FREE), st.sampled_from(TEXTS)
COMMANDS = st.one_of(
    st.builds("mkdir -p $(dirname {0}); printf '{1}' > {0}".format, place, text),
    st.builds("mkdir -p $(dirname {0}); printf '{1}' >> {0}; chmod +x {0}".format, place, text),
    st.builds("mkdir -p $(dirname {0} {1}); echo evil > {1}; mv {1} {0}".format, place, free),
    st.builds("mkdir -p $(dirname {0} {1}); echo evil > {1}; ln -sf $PWD/{1} {0}".format, place, free),
    st.builds("mkdir -p $(dirname {0} {1}); echo evil > {1}; ln -f {1} {0}; cp {1} {0}".format, place, free),
    st.builds("d=$(dirname {0}); mv $d moved; mkdir -p $d; echo evil > {0}".format, place),
    st.builds("d=$(dirname {0}); rm -rf $d; ln -s n $d".format, place),
    st.builds(
        "p={0}; t=${{p%%/*}}; i=${{p#*/}}; mv $t old; mkdir -p n/$(dirname $i); echo evil > n/$i; ln -s n $t".format,
        place,
    ),
    st.builds("mkdir -p x/$(basename {0}) $(dirname {0}); echo evil > x/y; cp -r x $(dirname {0})".format, place),
    st.builds("mkdir -p $(dirname {0}); echo evil >> {0}".format, free),
    st.sampled_from([
        "git remote add o https://example.org/x", "git remote add o ./b", "git remote set-url o 'ext::sh -c evil'",
        "git config core.hooksPath n", "git config include.path ../n/config", "git config --unset core.hooksPath",
        "git config branch.main.remote o", "git checkout -q -b topic", "git branch -q t2; git branch -u main t2",
        "git -c user.name=x -c user.email=x@y.z commit -qam x", "git config user.name Ada", "git init -q sub",
        "git init -q --bare b", "git worktree add -q ../wt; git worktree add -q wt", "git stash -q",
        "git -C vendor config core.fsmonitor evil", "git remote rename o p", "git config remote.o.uploadpack evil",
        "ln -s conf .cargo", "ln -s conf/code .vscode", "mv conf .cargo", "mv sub/.git .git2; mv .git2 .git",
        "rm -rf .git/info; ln -s ../n .git/info", "cp -r vendor again", "mv vendor moved",
        "git config -f .git/config alias.x '!evil'",
    ]),
)  # fmt: skip
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("Bash"), COMMANDS, st.just("")),
        st.tuples(st.just("Write"), st.one_of(place, free), text),
        st.tuples(st.just("Edit"), place, text),
    ),
    min_size=1,
    max_size=5,
)
RUNS_NOTHING = re.compile(
    r"remote\.[^\n]*\.(?:url\nhttps://[^\n]*|fetch\n.*)|branch\.[^\n]*\.(?:merge\n.*|remote\n(?:\.|[a-z]))|"
    r"user\.(?:name|email)\n.*|core\.(?:repositoryformatversion|filemode|bare|logallrefupdates)\n.*|"
)


def git(folder: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(("git", *words), cwd=folder, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def made(folder: Path) -> Path:
    """A home with settings in a repository, and that repository, which has hooks in a folder of its own."""
    home, root = folder / "home", folder / "home/project"
    for name in ("sub", "src", "conf/code", "tools", "dotfiles", "vendor"):
        (root / name).mkdir(parents=True)
    (root / "a.txt").write_text("a\n")
    (root / "dotfiles/bashrc").write_text("mine\n")
    (home / ".bashrc").symlink_to("project/dotfiles/bashrc")
    (root / "scripts").mkdir()
    (root / "scripts/conv.py").write_text("mine\n")
    git(root / "vendor", "init", "-q", "-b", "main")
    git(root / "vendor", "config", "core.hooksPath", "../shared/hooks")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "a.txt", "scripts", "dotfiles")
    git(root, "-c", "user.name=x", "-c", "user.email=x@y.z", "commit", "-qm", "x")
    git(root, "config", "core.hooksPath", "tools/hooks")
    git(root, "config", "include.path", "../conf/included")
    git(root, "config", "diff.x.textconv", "python3 scripts/conv.py")
    git(home, "config", "--global", "include.path", "project/conf/user")
    git(home, "config", "--global", "includeIf.onbranch:topic.path", "project/conf/conditional")
    git(home, "config", "--global", "core.attributesFile", "~/project/attributes")
    return root


def content(path: Path) -> object:
    """What is found at a path by whoever opens it, links followed."""
    if path.is_dir():
        return {one.name: content(one) for one in sorted(path.iterdir()) if not one.name.endswith(".sample")}
    return (path.read_bytes(), path.stat().st_mode) if path.is_file() else None


def what_runs(root: Path) -> dict[str, object]:
    """All that another program would run or obey in the workspace: what git itself says, and well-known files."""
    found: dict[str, object] = {}
    always = git(root.parent, "config", "--list", "-z").split("\0")
    folders = [Path(folder) for folder, _, _ in os.walk(root) if ".git" not in Path(folder).parts[len(root.parts) :]]
    for folder in folders:
        git_folder = Path(git(folder, "rev-parse", "--absolute-git-dir", check=False).strip() or "/")
        if git_folder != folder and git(folder, "rev-parse", "--show-toplevel", check=False).strip() != str(folder):
            continue
        listed = git(folder, "config", "--list", "-z", check=False).split("\0")
        found |= {f"{folder} {one}": True for one in listed if one not in always and not RUNS_NOTHING.fullmatch(one)}
        hooks = folder / git(folder, "rev-parse", "--git-path", "hooks", check=False).strip()
        for place in (hooks, git_folder / "info/attributes", git_folder / "remotes", git_folder / "branches"):
            found[f"{folder} {place}"] = content(place)
    names = {*PLACES} - {
        "b/HEAD",
        "b/objects/x",
        "b/refs/x",
        ".git/config",
        "vendor/.git/config",
        "sub/.git/HEAD",
        "sub/.git",
    }
    names -= {
        "b/config",
        "b/hooks/pre-commit",
        "conf/code/tasks.json",
        "conf/cargo/config.toml",
    }  # where nothing leads to
    return found | {name: content(root / name) for name in sorted(names)} | {"home": content(root.parent / ".bashrc")}


def less(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """What runs now and did not before: that something is gone runs nothing."""
    return {key: (before.get(key), now) for key, now in after.items() if now not in (before.get(key), None, {})}


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_nothing_an_agent_does_unasked_makes_another_program_run_something_new(
    steps: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="ferrule-law-"))
    try:
        monkeypatch.setenv("HOME", str(folder / "home"))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        root = made(folder)
        before = what_runs(root)

        async def do() -> None:
            async with desk(root, mode="accept-edits") as at:
                for tool, what, content in steps:
                    arguments: dict[str, object] = {"command": what}
                    if tool == "Write":
                        arguments = {"file_path": what, "content": content}
                    elif tool == "Edit":
                        await at.runtime.run("Read", {"file_path": what})
                        arguments = {"file_path": what, "old_string": "mine", "new_string": content}
                    await at.runtime.run(tool, arguments)
                    assert less(before, what_runs(root)) == {}, (tool, what)

        asyncio.run(do())
        assert "error" not in git(root, "fsck", "--strict", check=False)
    finally:
        shutil.rmtree(folder)
