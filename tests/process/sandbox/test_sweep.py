"""Guarded places stay as they are: locked where they exist, taken back where they do not (S1, S2)."""

# ruff: noqa: E501 - a text that is pinned stands on one line
from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.process.sandbox.box import Box, run

from ferrule.process.profile import Profile
from ferrule.process.sandbox.denials import Denial
from ferrule.process.sandbox.guarded import GuardedTree, Sweep, Watched, numbers_above


def subjects(denials: tuple[Denial, ...]) -> list[str]:
    return [denial.subject for denial in denials]


def everything_below(folder: Path) -> dict[str, bytes | str | None]:
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


# In the sandbox


def test_the_hooks_that_a_configuration_names_are_locked_and_swept(box: Box) -> None:
    repository = box.repository()
    (repository / ".git/config").write_text("[core]\n\thooksPath = .hooks\n[include]\n\tpath = x\n")
    box.write("sub/keep", "")
    first = box.run("mkdir .hooks && echo evil >.hooks/pre-commit")
    assert subjects(first.denials) == [".hooks"]
    assert not (repository / ".hooks").exists()
    box.write(".hooks/pre-commit", "mine")
    second = box.run("echo evil >.hooks/pre-commit; echo evil >.hooks/post-merge; rm -rf .hooks; mv .hooks x")
    assert everything_below(repository / ".hooks") == {"pre-commit": b"mine"}
    assert second.denials == ()


@pytest.mark.parametrize(
    "name",
    [
        ".envrc", ".husky/pre-commit", ".mcp.json", ".vscode/tasks.json", ".gitmodules", ".gitattributes", ".npmrc",
        ".pre-commit-config.yaml", "lefthook.yml", "my.code-workspace", "NUGET.config", "mise.toml", ".pdbrc",
        "my.sublime-project", ".project", ".externalToolBuilders/a.launch", ".vibe/config.toml",
        ".pi/extensions/a.ts", "conductor.json", ".rbenv-vars",
    ],
)  # fmt: skip
def test_at_any_depth_what_is_there_is_locked_and_what_is_not_is_swept(box: Box, name: str) -> None:
    box.write(f"a/b/{name}", "mine")
    box.write("a/c/file", "")
    done = box.run(f"echo evil >a/b/{name}; mkdir -p $(dirname a/c/{name}); echo evil >a/c/{name}; echo evil >x")
    assert (box.workspace / f"a/b/{name}").read_text() == "mine"
    assert subjects(done.denials) == [f"a/c/{name.partition('/')[0]}"]
    assert not (box.workspace / f"a/c/{name}").exists()
    assert (box.workspace / "x").read_text() == "evil\n"


@pytest.mark.parametrize(
    "name", [".github/hooks/x.json", ".github/agents/x.agent.md", ".cargo/config.toml", ".yarn/plugins/p.cjs"]
)
def test_what_is_obeyed_in_a_certain_folder_alone_is_guarded_there_alone(box: Box, name: str) -> None:
    folder, inner, *_ = Path(name).parts
    box.write(f"a/{name}", "mine")
    box.write(f"b/{folder}/README", "")
    box.write(f"c/{inner}", "")
    done = box.run(
        f"echo evil >a/{name}; rm -rf a/{folder}/{inner}; mkdir -p $(dirname b/{name} ./{name}); echo evil >b/{name}; "
        f"echo evil >{name}; echo mine >b/{folder}/README; echo mine >c/{inner}"
    )
    assert (box.workspace / f"a/{name}").read_text() == "mine"
    assert set(subjects(done.denials)) == {f"{folder}/{inner}", f"b/{folder}/{inner}"}
    assert not (box.workspace / name).exists()
    assert not (box.workspace / f"b/{name}").exists()
    assert (box.workspace / f"b/{folder}/README").read_text() == (box.workspace / f"c/{inner}").read_text() == "mine\n"


def test_packages_of_others_may_bring_their_settings(box: Box) -> None:
    box.write("node_modules/keep", "")
    done = box.run("mkdir -p node_modules/x/.github/hooks; : >node_modules/x/.npmrc; : >node_modules/.envrc")
    assert done.denials == ()
    assert (box.workspace / "node_modules/x/.npmrc").exists()


def test_nothing_is_left_to_put_back_what_was_swept(box: Box) -> None:
    """A loop in the background re-creates it as long as it can, and cannot any more when the sweep begins."""
    box.repository()
    loop = "setsid sh -c 'while :; do echo evil >.mcp.json; echo evil >.git/info/attributes; done' >/dev/null 2>&1 &"
    done = box.run(f"({loop}) ; kill -9 -1; sleep 0.2; ({loop}); sleep 0.2; kill -9 $PPID; true")
    assert set(subjects(done.denials)) == {".mcp.json", ".git/info/attributes"}
    assert not (box.workspace / ".mcp.json").exists()
    assert not (box.workspace / ".git/info/attributes").exists()


@pytest.mark.parametrize("where", [".", "vendor/library"])
def test_hooks_and_configuration_are_locked_in_every_repository(box: Box, where: str) -> None:
    repository = box.repository(where)
    before = everything_below(repository / ".git")
    done = box.run(
        f"cd {where}/.git; echo evil >config; echo evil >>hooks/pre-commit.sample; echo evil >hooks/post-checkout; "
        "rm -rf hooks config; mv hooks x; mv config x; ln -sf /tmp/evil config; cd ..; mv .git x; rm -rf .git/hooks; "
        "git config core.fsmonitor evil"
    )
    after = everything_below(repository / ".git")
    assert {path: after.get(path) for path in before} == before
    assert set(after) <= {*before, "config.lock"}
    assert "Read-only file system" in done.err or "busy" in done.err


@pytest.mark.parametrize(
    "name", ["ferrule.toml", ".vscode/settings.json", ".idea/x", ".claude/settings.json", ".mcp.json"]
)
@pytest.mark.parametrize("where", ["", "vendor/library/"])
def test_settings_that_exist_are_locked(box: Box, where: str, name: str) -> None:
    box.repository(where or ".")
    settings = box.write(where + name, "mine")
    done = box.run(f"cd ./{where}; echo evil >{name}; rm -rf {name} {Path(name).parts[0]}; mv {Path(name).parts[0]} x")
    assert settings.read_text() == "mine"
    assert done.code != 0


@pytest.mark.parametrize(
    "made",
    [
        "ferrule.toml", ".ferrule/rules", ".vscode/tasks.json", ".idea/workspace.xml", ".claude/settings.json", ".mcp.json",
        "sub/.vscode/tasks.json", "sub/ferrule.toml", ".git/hooks/pre-commit", "sub/.git/hooks/pre-commit",
        ".git/commondir", ".git/config.worktree", "sub/.git/config.worktree", ".git/modules/evil/hooks/x", ".bashrc",
    ],
)  # fmt: skip
def test_what_does_not_exist_yet_does_not_stay(box: Box, made: str) -> None:
    box.repository(".", template="")
    box.repository("sub", template="")
    content = "[core]\n\tfsmonitor = evil\n"
    setup = "mkdir -p .git/modules/evil/objects .git/modules/evil/refs; : >.git/modules/evil/HEAD; "
    done = box.run(
        f"{setup if 'modules' in made else ''}mkdir -p $(dirname {made}) && printf '{content}' >{made}; ls {made}"
    )
    assert done.out == f"{made}\n"  # it could be made inside, but did not outlast the command
    assert not (box.workspace / made).exists()
    assert [made.startswith(subject) for subject in subjects(done.denials)] == [True]


def test_a_denial_says_what_happened_and_where_it_is_now(box: Box) -> None:
    (denial,) = box.run("echo x >ferrule.toml").denials
    (kept,) = box.temporary.glob("ferrule-quarantine-*/0-ferrule.toml")
    assert kept.read_text() == "x\n"
    assert replace(denial, message=denial.message.replace(str(kept), "PLACE")) == snapshot(
        Denial(
            kind="guarded",
            subject="ferrule.toml",
            message="The command made or changed `ferrule.toml`, which is guarded: it can make other programs run commands. It was moved to `PLACE`.",
            suggestion="Do without it, or ask the user to make this change.",
        )
    )


def test_a_repository_made_inside_stays_and_runs_nothing(box: Box) -> None:
    done = box.run(
        "git init -q new && cd new && git -c user.name=a -c user.email=b commit -q --allow-empty -m one && cd .. && "
        "git clone -q new copy && git -C copy worktree add -q ../tree 2>&1 && git -C tree log --format=%s"
    )
    assert (done.out, subjects(done.denials)) == ("one\n", [])
    assert (box.workspace / "copy/.git/config").exists()


@pytest.mark.parametrize(
    ("script", "taken"),
    [
        ("git init -q n && git -C n config core.fsmonitor evil", ["n/.git/config"]),
        ("git init -q n && git -C n config alias.st '!evil'", ["n/.git/config"]),
        ("git init -q n && git -C n config include.path /tmp/x", ["n/.git/config"]),
        ("git init -q n && git -C n config core.worktree /etc", ["n/.git/config"]),
        ("git init -q n && git -C n config remote.origin.url 'ext::sh -c evil'", ["n/.git/config"]),
        ("git init -q n && cp /bin/true n/.git/hooks/post-checkout", ["n/.git/hooks"]),
        ("git init -q n && rm -r n/.git/hooks && ln -s ../evil n/.git/hooks", ["n/.git/hooks"]),
        ("git init -q n && rm n/.git/config && ln -s ../evil n/.git/config", ["n/.git/config"]),
        ("git init -q --bare b && git -C b config core.fsmonitor evil", ["b/config"]),
        ("mkdir -p e/objects e/refs && : >e/HEAD && printf '[core]\\nfsmonitor=evil\\n' >e/config", ["e/config"]),
        ("mkdir n && echo 'gitdir: ../evil' >n/.git", ["n/.git"]),
        ("mkdir n evil && ln -s ../evil n/.git", ["n/.git"]),
        (
            "mkdir -p objects refs a/.git && : >HEAD && printf '[core]\\nfsmonitor=evil\\n' >a/.git/config",
            ["a/.git/config"],
        ),
    ],
)
def test_a_repository_made_inside_that_runs_something_does_not_stay(box: Box, script: str, taken: list[str]) -> None:
    done = box.run(script)
    assert done.code == 0, done.err
    assert subjects(done.denials) == taken
    assert not (box.workspace / taken[0]).is_symlink()
    assert not (box.workspace / taken[0]).exists()


def test_moving_the_folder_above_a_nested_repository_helps_nothing(box: Box) -> None:
    box.repository("vendor/library")
    done = box.run(
        "mv vendor elsewhere && mkdir -p vendor/library/.git/hooks && echo evil >vendor/library/.git/hooks/pre-commit && "
        "printf '[core]\\nfsmonitor=evil\\n' >vendor/library/.git/config"
    )
    assert subjects(done.denials) == ["vendor/library/.git/config", "vendor/library/.git/hooks"]
    assert (box.workspace / "elsewhere/library/.git/config").exists()


def test_a_folder_put_in_the_place_of_another_brings_no_settings(box: Box) -> None:
    box.write("sub/.envrc", "mine")
    assert box.run("mkdir new; echo evil >new/.envrc").denials == ()  # as a fresh clone may
    done = box.run("mv sub sub.old; mv new sub")
    assert subjects(done.denials) == ["sub/.envrc"]
    assert not (box.workspace / "sub/.envrc").exists()
    assert (box.workspace / "sub.old/.envrc").read_text() == "mine"


PLANTS = {
    "a name": "echo evil >a/.envrc",
    "in a nested repository": "git init -q a/b/new; printf '[core]\\n\\tpager = evil\\n' >a/b/new/.git/config",
    "a hook": "mkdir -p a/r/.git/hooks; echo evil >a/r/.git/hooks/pre-commit",
    "a hard link": "echo evil >a/x; ln a/x a/.envrc",
    "a file moved there": "echo evil >/tmp/x; echo evil >x; mv x a/b/.envrc",
    "a prepared folder": "mkdir -p a/p; echo evil >a/p/tasks.json; mv a/p a/b/.vscode",
    "a folder that takes the place of another": "mkdir n; echo evil >n/.envrc; mv a/b old; mv n a/b",
    "two folders that swap": "mkdir -p n/b; echo evil >n/b/.envrc; mv a t; mv n a; mv t n",
    "moved away and back": "mv a t; echo evil >t/b/.envrc; mv t a",
    "among many": "mkdir -p m/{1..300}/{1..3}; echo evil >a/b/.envrc; touch m/{1..300}/x",
    "removed and made again": "rm -rf a/b; mkdir a/b; echo evil >a/b/.envrc",
    "by a process that was left": "(setsid sh -c 'echo evil >a/b/.envrc; sleep 1007' &); sleep 0.3",
    "mapped": "python3 -c \"import os; f=os.open('a/b',os.O_TMPFILE|os.O_WRONLY); os.write(f,b'evil'); "
    "os.link(f'/proc/self/fd/{f}','a/b/.envrc')\"; [ -e a/b/.envrc ] || echo evil >a/b/.envrc",
}


@pytest.mark.parametrize("how", PLANTS)
def test_in_a_tree_that_was_looked_at_often_it_is_found_all_the_same(box: Box, how: str) -> None:
    """By then the kernel tells which folders changed, and no other is listed."""
    box.write("a/b/file", "")

    def work() -> list[bool]:
        profile = Profile((box.workspace,), box.workspace)
        return [bool(run(box.sandbox, profile, ["bash", "-c", one]).denials) for one in ("true", "true", PLANTS[how])]

    assert box.do(work) == [False, False, True]
    evil = [path for path in box.workspace.rglob("*") if path.is_file() and path.read_text() == "evil\n"]
    assert [path.name for path in evil if path.name != "x"] == []


def test_a_folder_that_was_closed_and_opened_again_brings_no_settings(box: Box) -> None:
    """Nobody but root can look into a closed one after the first command, and that is said."""
    box.write("sub/deep/file", "")
    first = box.run("echo evil >sub/.envrc; echo evil >sub/deep/.envrc; chmod 000 sub")
    assert first.denials
    box.run("chmod 755 sub")
    assert not (box.workspace / "sub/.envrc").exists()
    assert not (box.workspace / "sub/deep/.envrc").exists()


def test_a_link_in_place_of_a_guarded_folder_makes_nothing_elsewhere(box: Box) -> None:
    """Bubblewrap makes missing mount points, and follows links to where it makes them."""
    box.repository(template="")
    (box.workspace / ".git/hooks").symlink_to(box.outside / "made-by-bwrap")
    (box.workspace / ".vscode").symlink_to("/oldroot/tmp/made-by-bwrap")
    (box.workspace / ".idea").symlink_to("inside")
    (box.workspace / "inside").mkdir()
    box.own()
    before = everything_below(box.folder)
    done = box.run("echo evil >inside/tasks; ls -A")
    assert everything_below(box.folder) == before
    assert "Read-only file system" in done.err  # what the link leads to is locked as well


def test_nothing_is_made_in_the_workspace_by_confining(box: Box) -> None:
    box.repository(template="")
    before = everything_below(box.workspace)
    assert box.run("true", hidden=(box.workspace / ".env",), guarded=(box.workspace / "x/y/z",)).denials == ()
    assert everything_below(box.workspace) == before


def test_named_places_are_guarded_too(box: Box) -> None:
    named = box.write("deploy/keys.txt", "mine")
    done = box.run("echo x >deploy/keys.txt; echo x >absent", guarded=(named, box.workspace / "absent"))
    assert named.read_text() == "mine"
    assert subjects(done.denials) == ["absent"]


def test_someone_outside_may_change_them_meanwhile(box: Box) -> None:
    """The person's own editor and git go on working while a command runs."""
    repository = box.repository()
    fifo = box.workspace / "fifo"
    os.mkfifo(fifo)
    box.own()

    def change() -> None:
        with fifo.open("w"):  # in the way git does it
            lock = repository / ".git/config.lock"
            lock.write_text("[user]\n\tname = Ada\n\tsigningkey = x\n")
            lock.replace(repository / ".git/config")

    thread = threading.Thread(target=change)
    thread.start()
    done = box.run("cat fifo")
    thread.join()
    assert subjects(done.denials) == []
    assert "Ada" in (repository / ".git/config").read_text()


# On its own


@pytest.fixture
def tree(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GuardedTree]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("outside")))
    made = GuardedTree(str(tmp_path))
    yield made
    made.close()


def test_what_changed_between_commands_is_taken_for_right(tree: GuardedTree, tmp_path: Path) -> None:
    sweep = Sweep([Watched(tree)])
    sweep.begin()
    assert sweep.end() == ()
    (tmp_path / ".vscode").mkdir()
    sweep.begin()
    assert sweep.end() == ()
    assert (tmp_path / ".vscode").exists()


def test_where_nothing_can_be_locked_it_is_put_back(tree: GuardedTree, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    hook = tmp_path / ".git/hooks/pre-commit"
    hook.write_text("mine")
    hook.chmod(0o755)
    (tmp_path / "ferrule.toml").write_text("mine")
    before = everything_below(tmp_path)
    sweep = Sweep([Watched(tree)])
    sweep.begin()
    hook.write_text("evil")
    (tmp_path / ".git/hooks/new").write_text("evil")
    (tmp_path / ".git/config").unlink()
    (tmp_path / "ferrule.toml").unlink()
    (tmp_path / "ferrule.toml").symlink_to("/etc/passwd")
    denials = sweep.end()
    assert everything_below(tmp_path) == before
    assert hook.stat().st_mode & 0o777 == 0o755
    assert subjects(denials) == [".git/hooks", "ferrule.toml"]
    assert all("put back" in denial.message for denial in denials)
    assert sweep.end() == ()


def test_the_folders_above_are_known_by_their_numbers(tree: GuardedTree, tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    before = numbers_above(tree, "a/b/c")
    assert before == ((tmp_path / "a").stat().st_ino, (tmp_path / "a/b").stat().st_ino)
    (tmp_path / "a").rename(tmp_path / "x")
    assert numbers_above(tree, "a/b/c") != before


def test_of_the_settings_of_git_what_runs_nothing_stays(tree: GuardedTree, tmp_path: Path) -> None:
    """By key: remotes, branches and the user; anything else is put back with all that was changed beside it."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    config = tmp_path / ".git/config"
    sweep = Sweep([Watched(tree)])
    sweep.begin()
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "o", "https://example.org/x"], check=True)
    right = config.read_text()
    assert sweep.end() == ()
    assert config.read_text() == right
    subprocess.run(["git", "-C", tmp_path, "config", "branch.x.remote", "o"], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "core.pager", "evil"], check=True)
    assert subjects(sweep.end()) == [".git/config"]
    assert config.read_text() == right
