"""No unapproved change makes git, a shell or an editor run something new, by commands or by file tools (S1, S2, P4)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ferrule.process.sandbox import choose
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from tests.boxes.test_trial import Desk, desk
from tests.needs import needs

REMOTE = "https://example.org/a.git"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return made


@pytest.fixture
def root(home: Path) -> Path:
    made = home / "project"
    made.mkdir()
    (made / "a.txt").write_text("one\n")
    git(made, "init", "-q", "-b", "main")
    git(made, "add", ".")
    git(made, "-c", "user.name=x", "-c", "user.email=x@y.z", "commit", "-qm", "x")
    return made


def git(root: Path, *words: str) -> str:
    return subprocess.run(("git", *words), cwd=root, check=True, capture_output=True, text=True).stdout


def accepting(root: Path, answers: str = "", **policy: Any) -> Any:
    return desk(root, answers, mode="accept-edits", **policy)


async def written(at: Desk, path: str, content: str = "evil") -> bool:
    """Whether a file tool wrote without a question."""
    result = await at.runtime.run("Write", {"file_path": path, "content": content})
    return result.success


HARMLESS = {
    f"git remote add origin {REMOTE}": f"remote.origin.url={REMOTE}",
    "git remote add -t main up git@example.org:a/b.git": "remote.up.url=git@example.org:a/b.git",
    "git branch topic; git branch -u main topic": "branch.topic.merge=refs/heads/main",
    "git checkout -q -b topic --track main": "branch.topic.remote=.",
    "git config user.name 'Ada L'; git config user.email ada@example.org": "user.name=Ada L",
    "git branch topic; git config branch.topic.description 'what it is for'": "branch.topic.description=what it is for",
}  # fmt: skip


@pytest.mark.parametrize("command", HARMLESS)
async def test_harmless_settings_of_git_are_kept_without_a_question(root: Path, command: str) -> None:
    git(root, "config", "alias.st", "!git status -s")
    async with accepting(root) as at:
        result = await at.bash(command)
    assert result.success, result.llm_content
    settings = git(root, "config", "--list", "--local").splitlines()
    assert HARMLESS[command] in settings
    assert "alias.st=!git status -s" in settings
    assert not list((root / ".git").glob("*.lock"))


RUNNING = [
    "git config core.hooksPath tools",
    "git config core.fsmonitor ./evil",
    "git config alias.st '!evil'",
    "git config include.path ../evil",
    "git config remote.origin.uploadpack evil",
    "git config remote.origin.receivepack evil",
    "git config remote.origin.vcs evil",
    "git config remote.origin.proxy http://evil",
    "git remote add x 'ext::sh -c evil'",
    "git remote add x ./vendored.git",
    "git remote add x file:///tmp/x.git",
    "git remote add x /tmp/x",
    "git remote add x -- --upload-pack=evil",
    "git remote add x foo::bar",
    "git remote add x ssh://-oProxyCommand=evil/x",
    "git config branch.main.remote ./vendored.git",
    "git config branch.main.remote 'ext::sh -c evil'",
    "git config branch.main.pushRemote vendored",
    "git config remote.vendored.fetch +refs/heads/*:refs/heads/*",
    "git config user.signingkey evil",
    "git config core.worktree /",
    "git config core.sshCommand evil",
    "git config filter.x.clean evil",
    "git config extensions.worktreeConfig true; git config --worktree core.pager evil",
    r"printf '[alias]\n\tx = !evil\n[remote \"o\"]\n\turl = https://e.org/x\n' >> .git/config",
    r"printf '[remote \"o\"]\n\turl = https://e.org/x\\\n\tfsmonitor = x\n' >> .git/config",
    r"printf '[alias]\n# \342\200\250[user]\n\tname = !evil\n' >> .git/config",
    r"printf '[alias]\n# \014[user]\n\tname = !evil\n' >> .git/config",
    f"git remote add origin {REMOTE}; git config core.pager evil",
    f"git remote add origin {REMOTE}; chmod 777 .git/config",
    "mv .git/config x; ln -s ../x .git/config",
    "git init -q sub",
    "mkdir -p .git/remotes; echo 'URL: ./vendored.git' > .git/remotes/x",
    "ln -s ../x .git/info2; rm -rf .git/info; ln -s ../x .git/info",
    "ln -s x .cargo",
    "mkdir -p b/objects b/refs; echo 'ref: refs/heads/x' > b/HEAD; git config -f b/config core.fsmonitor evil",
]


@pytest.mark.parametrize("command", RUNNING)
async def test_settings_that_run_something_still_ask(root: Path, command: str) -> None:
    (root / "vendored.git").mkdir()
    (root / "x").mkdir()
    before = git(root, "config", "--list", "--local")
    async with accepting(root) as at:
        result = await at.bash(command)
    assert not result.success
    assert "approval" in result.llm_content
    assert git(root, "config", "--list", "--local") == before


async def test_a_bare_repository_is_not_put_together_piece_by_piece(root: Path) -> None:
    settings = "[core]\n\tfsmonitor = evil\n"
    for last, *first in (("b/config", "b/HEAD"), ("b/HEAD", "b/config"), ("c/HEAD", "c/hooks/pre-commit")):
        async with accepting(root) as at:
            for name in (*first, last):
                assert await written(at, name, settings) is (name != last)
        (root / first[0]).unlink()


PLANTS = {
    "core.hooksPath": ("tools/hooks", "tools/hooks/pre-commit"),
    "include.path": ("../conf/git", "conf/git"),
    "core.attributesFile": ("attributes", "attributes"),
    "diff.x.textconv": ("scripts/conv.sh", "scripts/conv.sh"),
}


@pytest.mark.parametrize("whose", ["--local", "--global"])
@pytest.mark.parametrize("key", PLANTS)
async def test_nothing_is_planted_where_settings_of_git_point(root: Path, key: str, whose: str) -> None:
    value, place = PLANTS[key]
    if whose == "--global" and key != "core.hooksPath":
        value = f"{root}/{place}"
    git(root, "config", whose, key, value)
    above = Path(place).parent
    async with accepting(root) as at:
        for command in (
            f"mkdir -p {above}; echo evil > {place}",
            f"mkdir -p {above} n; echo evil > n/x; mv n/x {place}",
        ):
            result = await at.bash(command)
            assert not result.success, result.llm_content
        assert not await written(at, place)
        assert not (root / place).exists()
        assert await written(at, f"{place}-beside" if "hooks" not in place else "tools/beside")


async def test_a_link_on_the_way_to_such_a_place_asks(root: Path) -> None:
    git(root, "config", "core.hooksPath", "tools/hooks")
    async with accepting(root) as at:
        result = await at.bash("mkdir -p n/hooks; echo evil > n/hooks/pre-commit; ln -s n tools")
        assert not result.success
        assert not (await at.bash("ln -s n tools")).success
        assert (await at.bash("mkdir n; ln -s n other")).success
    assert not (root / "tools").is_symlink()


async def test_an_approved_command_plants_nothing_either(root: Path) -> None:
    git(root, "config", "core.hooksPath", "hooks")
    (root / "hooks").mkdir()
    (root / "hooks/pre-commit").write_text("mine")
    async with desk(root, allow=["Bash(sh *)"]) as at:
        result = await at.bash("sh -c 'echo evil > hooks/pre-commit; echo evil > hooks/post-commit; echo ok'")
    assert "ok" not in (root / "hooks/pre-commit").read_text()
    assert [path.name for path in (root / "hooks").iterdir()] == ["pre-commit"]
    assert (root / "hooks/pre-commit").read_text() == "mine", result.llm_content


async def test_ci_files_are_ordinary(root: Path) -> None:
    """What a service builds runs elsewhere, after a push that asks."""
    names = (".travis.yml", "appveyor.yml", ".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile")
    for mode in ("accept-edits", "bypass"):
        async with desk(root, mode=mode) as at:
            for name in names:
                assert await written(at, name, mode)
                assert (await at.bash(f"echo x >> {name}")).success
                assert (root / name).read_text() == f"{mode}x\n"
                (root / name).unlink()
    async with desk(root) as at:
        for name in names:
            assert not await written(at, name)
            assert not (await at.bash(f"echo x >> {name}")).success


async def test_an_allowed_command_keeps_harmless_settings_of_git_too(root: Path) -> None:
    async with desk(root, allow=["Bash(git *)"]) as at:
        assert (await at.bash(f"git remote add origin {REMOTE}")).success
        assert (await at.bash("git checkout -q -b topic --track main")).success
        refused = await at.bash("git config tag.sort evil")
    settings = git(root, "config", "--list", "--local").splitlines()
    assert {f"remote.origin.url={REMOTE}", "branch.topic.remote=."} <= set(settings)
    assert "tag.sort=evil" not in settings
    assert not refused.success
    assert "guarded" in refused.llm_content


@pytest.mark.parametrize("command", ["rm -r .git/hooks; ln -s ../own .git/hooks", "mv .git g; ln -s g .git"])
async def test_p4_what_takes_the_place_of_a_folder_of_git_does_once_approved(root: Path, command: str) -> None:
    """P4: a folder goes with all that it holds before something else is put there."""
    place = root / command.rpartition(" ")[2]
    async with accepting(root, "yy") as at:
        result = await at.bash(command)
    assert result.success, result.llm_content
    assert place.is_symlink()
    assert git(root, "log", "--format=%s") == "x\n"
    git(root, "fsck", "--strict")


CONCLUDED = {
    "stash": ("echo 2 >> a.txt; git stash -q; git stash pop -q", "git commit -qam two"),
    "merge": ("git merge -q topic || true", "echo both > a.txt; git commit -qam both"),
    "rebase": ("git rebase -q topic || true", "echo both > a.txt; git add .; GIT_EDITOR=true git rebase --continue"),
    "cherry-pick": ("git cherry-pick topic || true", "echo both > a.txt; git commit -qam both"),
}


@pytest.mark.parametrize("name", CONCLUDED)
async def test_what_git_is_done_with_is_no_loss(root: Path, name: str) -> None:
    """A conflict that was resolved is committed without a question; one that is given up asks."""
    for who in ("user.name=x", "user.email=x@y.z"):
        git(root, "config", *who.split("="))
    git(root, "checkout", "-qb", "topic")
    (root / "a.txt").write_text("theirs\n")
    git(root, "commit", "-qam", "theirs")
    git(root, "checkout", "-q", "main")
    (root / "a.txt").write_text("ours\n")
    git(root, "commit", "-qam", "ours")
    began, ended = CONCLUDED[name]
    async with accepting(root) as at:
        assert (await at.bash(began)).success
        if name != "stash":
            assert not (await at.bash(f"git {name} --abort")).success
        result = await at.bash(ended)
    assert result.success, result.llm_content
    assert git(root, "status", "--porcelain") == ""
    git(root, "fsck", "--strict")


@pytest.mark.parametrize("place", [".envrc", ".git/hooks/pre-commit", "plain.txt"])
async def test_p4_without_layers_a_question_says_what_a_yes_cannot_change(
    root: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: Landlock has no layers, so a command that would make a file asks, and one that is guarded is not made."""
    needs(LandlockSandbox().missing() is None, "a kernel with Landlock")
    monkeypatch.setattr(choose, "_best", lambda *_: (LandlockSandbox(), ()))
    monkeypatch.setattr(tempfile, "tempdir", str(root.parent))  # of what is taken away
    async with accepting(root, "yy") as at:
        await at.bash(f"cp a.txt {place}")
    effects = at.asked[-1].effects
    assert effects is not None
    cannot = [one.message for one in effects.barriers if one.kind == "guarded"]
    assert bool(cannot) != (root / place).exists()
    assert all(place in message for message in cannot)


@pytest.mark.parametrize("answers", ["", "n"])
async def test_s2_in_a_workspace_that_is_the_home_its_programs_are_guarded(home: Path, answers: str) -> None:
    """What editors, shells and agents keep in a home is more than can be listed: all that is hidden there asks."""
    (home / ".nvm").mkdir()
    places = [
        ".config/nvim/init.lua",
        ".nvm/nvm.sh",
        ".emacs",
        ".tmux.conf",
        ".local/lib/python3.11/site-packages/x.pth",
    ]
    places += ["go/bin/gofmt", "bin/ls", ".config/Code/User/settings.json", ".NewAgent/settings.json"]
    async with accepting(home, answers * 20) as at:
        for place in places:
            folder = place.rpartition("/")[0] or "."
            result = await at.bash(f"mkdir -p {folder} && echo evil > {place}")
            assert result.error is not None, place
            assert not await written(at, place), place
            assert not (home / place).exists()


async def test_in_a_home_projects_caches_and_environments_are_ordinary(home: Path) -> None:
    commands = [
        "mkdir -p work && echo x > work/.eslintrc.yml && echo x > notes.txt",
        "mkdir -p .cache/tool .npm/_cacache .cargo/registry && touch .cache/tool/x .npm/_cacache/x .cargo/registry/x",
        "python3 -m venv --without-pip .venv && .venv/bin/python -c 1",
    ]
    async with accepting(home) as at:
        for command in commands:
            assert (await at.bash(command)).error is None, command
        assert await written(at, "work/deep/.editorconfig")


async def test_a_rule_that_names_a_place_of_the_home_is_enough(home: Path) -> None:
    async with accepting(home, allow=["Edit(~/.config/nvim/**)"]) as at:
        assert await written(at, ".config/nvim/init.lua")
        assert not await written(at, ".config/fish/config.fish")
    async with accepting(home, allow=["Edit(**)"]) as at:
        assert not await written(at, ".config/nvim/other.lua")


async def test_a_project_in_a_hidden_folder_of_the_home_is_a_project(home: Path) -> None:
    (home / ".dotfiles").mkdir()
    async with accepting(home / ".dotfiles") as at:
        assert await written(at, "install.sh")
        assert (await at.bash("mkdir .config; echo x > .config/x")).error is None
