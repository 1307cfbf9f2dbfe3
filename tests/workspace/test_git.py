"""git over repositories that nobody vouches for: nothing they name may run."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule import ToolError
from ferrule.workspace import child
from ferrule.workspace import git as module
from ferrule.workspace.git import Repository, look_at_repository, without_login
from ferrule.workspace.paths import Paths

CLEAN = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": f"{what}@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=CLEAN, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in (files or {"a": "one\n", "b": "two\n"}).items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def look(folder: Path, *roots: Path, directory: Path | None = None) -> Repository | None:
    return asyncio.run(look_at_repository(Paths([folder, *roots], directory)))


def test_a_repository_with_changes(tmp_path: Path) -> None:
    folder = make(tmp_path / "r", keep="1", change="1", gone="1", staged_gone="1")
    git(folder, "remote", "add", "origin", "https://user:secret@example.org/x.git")
    (folder / "change").write_text("2")
    (folder / "gone").unlink()
    git(folder, "rm", "-q", "staged_gone")
    (folder / "staged new").write_text("x")
    git(folder, "add", "staged new")
    (folder / "名\n new").write_text("x")
    (folder / "dir").mkdir()
    (folder / "dir" / "x").write_text("x")
    assert look(folder) == Repository(
        "main",
        git(folder, "rev-parse", "HEAD"),
        "https://example.org/x.git",
        ["change"],
        ["staged new", "dir/", "名\n new"],
        ["gone", "staged_gone"],
    )


def test_places_that_are_not_quite_a_repository(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert look(tmp_path / "plain") is None
    parent = make(tmp_path / "parent")
    (parent / "inner").mkdir()
    assert look(parent / "inner") is None, "a repository above the workspace is none of ours"
    found = look(parent, directory=parent / "inner")
    assert found is not None
    assert found.branch == "main"
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q", "-b", "trunk")
    assert look(tmp_path / "empty") == Repository("trunk", None)
    git(parent, "checkout", "-q", "--detach")
    found = look(parent)
    assert found is not None
    assert (found.branch, found.commit) == (None, git(parent, "rev-parse", "HEAD"))
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    (tmp_path / "broken" / ".git" / "HEAD").write_text("nonsense")
    with pytest.raises(ToolError, match="git could not read the repository"):
        look(tmp_path / "broken")


def test_worktrees_and_submodules_are_followed_and_others_are_not(tmp_path: Path) -> None:
    main = make(tmp_path / "main")
    git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    found = look(tmp_path / "side")
    assert found is not None
    assert found.branch == "side"
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(make(tmp_path / "lib")), "sub")
    found = look(main / "sub")
    assert found is not None
    assert found.branch == "main"
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / ".git").write_text(f"gitdir: {main}/.git\n")
    with pytest.raises(ToolError, match="does not belong"):
        look(thief)
    (thief / ".git").unlink()
    (thief / ".git").symlink_to(main / ".git")
    with pytest.raises(ToolError, match="does not belong"):
        look(thief)


def test_the_workspace_is_what_is_looked_at_whatever_the_settings_say(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret.txt").write_text("x")
    folder = make(tmp_path / "r")
    git(folder, "config", "core.worktree", str(tmp_path / "private"))
    found = look(folder)
    assert found is not None
    assert (found.added, found.deleted) == ([], [])


def test_without_git_and_with_a_false_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "r")
    marker = tmp_path / "marker"
    (folder / "git").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:.:{os.defpath}")
    monkeypatch.chdir(folder)
    found = look(folder)
    assert found is not None
    assert found.added == ["git"]
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ToolError, match="git is not installed"):
        look(folder)
    assert not marker.exists()


def test_it_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "r")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nwhile :; do :; done\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setattr(child, "confine_thread", lambda confinement: False)
    monkeypatch.setattr(module, "SECONDS", 0.3)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ToolError, match=r"did not answer within 0\.3 s"):
        look(folder)


def test_no_login_is_shown() -> None:
    assert without_login("https://me:pass@example.org/a@b") == "https://example.org/a@b"
    assert without_login("https://token@example.org/a") == "https://example.org/a"
    assert without_login("ssh://git@example.org/a") == "ssh://example.org/a"
    assert without_login("git@example.org:a/b.git") == "git@example.org:a/b.git"
    assert without_login("/a/b@c") == "/a/b@c"


# Hostile repositories. Each arms one trap; the program it names would leave a marker.

Trap = Callable[[Path, str], None]


def setting(*pairs: str) -> Trap:
    def arm(folder: Path, program: str) -> None:
        for pair in pairs:
            key, _, value = pair.partition("=")
            git(folder, "config", "--add", key, value.replace("@", program) or program)

    return arm


def attribute(line: str, *pairs: str) -> Trap:
    def arm(folder: Path, program: str) -> None:
        (folder / ".gitattributes").write_text(line + "\n")
        (folder / ".git" / "info").mkdir(exist_ok=True)
        (folder / ".git" / "info" / "attributes").write_text(line + "\n")
        setting(*pairs)(folder, program)

    return arm


def hooks(folder: Path, program: str) -> None:
    for where in (folder / ".git" / "hooks", folder / "hooks"):
        where.mkdir(exist_ok=True)
        for name in (
            "post-index-change",
            "fsmonitor-watchman",
            "post-checkout",
            "reference-transaction",
            "pre-auto-gc",
        ):
            (where / name).write_text(f"#!/bin/sh\n{program}\n")
            (where / name).chmod(0o755)
    git(folder, "config", "core.hooksPath", str(folder / "hooks"))


def included(folder: Path, program: str) -> None:
    (folder / "more").write_text(
        f'[core]\n\tfsmonitor = {program}\n\tpager = {program}\n[filter "x"]\n\tclean = {program}\n\trequired\n'
        f"[status]\n\tsubmoduleSummary = true\n"
    )
    git(folder, "config", "include.path", str(folder / "more"))
    git(folder, "config", f"includeIf.gitdir:{folder}/.path", str(folder / "more"))
    attribute("* filter=x")(folder, program)


def lazy_fetch(folder: Path, program: str) -> None:
    """A partial clone whose missing objects git would fetch, by whatever way the repository names."""
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program}",
        "remote.origin.uploadpack": program,
        "remote.other.url": f"ssh://{folder}/x",
        "core.sshCommand": program,
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
    }.items():
        git(folder, "config", key, value)
    for kind in git(folder, "rev-list", "--objects", "--all").splitlines()[1:]:
        name = kind.split()[0]
        (folder / ".git" / "objects" / name[:2] / name[2:]).unlink()


def local_fetch(folder: Path, program: str) -> None:
    lazy_fetch(folder, program)
    git(folder, "config", "remote.origin.url", str(folder))


def submodule(folder: Path, program: str) -> None:
    inner = make(folder / "sub")
    git(folder, "add", "sub")
    (inner / "a").write_text("changed\n")
    setting("core.fsmonitor=@", "filter.x.clean=@", "core.hooksPath=hooks")(inner, program)
    attribute("* filter=x")(inner, program)
    (folder / ".gitmodules").write_text(f'[submodule "sub"]\n\tpath = sub\n\turl = ext::{program}\n')
    setting("submodule.sub.update=!@", "status.submoduleSummary=true", "submodule.recurse=true")(folder, program)
    setting("diff.submodule=log", "submodule.sub.active=true", "diff.ignoreSubmodules=none")(folder, program)


TRAPS: dict[str, Trap] = {
    "fsmonitor": setting("core.fsmonitor=@", "core.fsmonitorHookVersion=2"),
    "hooks": hooks,
    "external diff": attribute("* diff=x", "diff.external=@", "diff.x.command=@", "diff.x.cachetextconv=true"),
    "text conversion": attribute("* diff=x", "diff.x.textconv=@", "diff.x.binary=true"),
    "clean filter": attribute("* filter=x", "filter.x.clean=@", "filter.x.required=true"),
    "smudge filter": attribute("* filter=x", "filter.x.smudge=@"),
    "process filter": attribute("* filter=x", "filter.x.process=@", "filter.x.required=true"),
    "filter with an odd name": attribute('* filter="a=b.C d"', "filter.x.clean=@", "filter.a=b.clean=@"),
    "filter named twice": attribute("* filter=Xx", "filter.Xx.clean=@", "filter.Xx.clean=@", "filter.Xx.process=@"),
    "pager": setting("core.pager=@", "pager.status=@", "pager.config=@"),
    "alias": setting("alias.status=!@", "alias.config=!@", "alias.st=!@"),
    "credential helper": setting("credential.helper=!@", "core.askPass=@", "credential.https://x.helper=!@"),
    "include": included,
    "ssh command": setting("core.sshCommand=@", "ssh.variant=simple", "core.gitProxy=@", "remote.origin.url=ssh://x/y"),
    "gpg": setting("gpg.program=@", "gpg.ssh.program=@", "log.showSignature=true", "commit.gpgSign=true"),
    "editor": setting("core.editor=@", "sequence.editor=@", "interactive.diffFilter=@", "merge.tool=x"),
    "alternate refs": setting("core.alternateRefsCommand=@", "uploadpack.packObjectsHook=@", "trailer.x.command=@"),
    "lazy fetch": lazy_fetch,
    "lazy fetch from a folder": local_fetch,
    "submodule": submodule,
}


@pytest.mark.parametrize("confined", [True, False], ids=["kernel and settings", "settings alone"])
@pytest.mark.parametrize("trap", TRAPS)
def test_nothing_a_repository_names_is_run(
    trap: str, confined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho {trap} >> {marker}\n")
    program.chmod(0o755)
    folder = make(tmp_path / "r")
    TRAPS[trap](folder, str(program))
    for name in ("a", "b"):  # the same size and a new date: git must look inside to know
        (folder / name).write_text("new\n")
        os.utime(folder / name, (1, 1))
    marker.unlink(missing_ok=True)
    if not confined:
        monkeypatch.setattr(child, "confine_thread", lambda confinement: False)
    try:
        found = look(folder)
        assert found is not None
        assert found.modified == ["a", "b"]
    except ToolError:
        assert "fetch" in trap
    assert not marker.exists(), marker.read_text()


def test_the_traps_do_spring_without_our_care(tmp_path: Path) -> None:
    """So that the tests above mean something."""
    sprung: set[str] = set()
    for trap in ("fsmonitor", "clean filter", "process filter", "include", "lazy fetch from a folder", "submodule"):
        marker, program = (home := tmp_path / trap.replace(" ", "_")) / "marker", home / "evil"
        folder = make(home / "r")
        program.write_text(f"#!/bin/sh\necho >> {marker}\n")
        program.chmod(0o755)
        TRAPS[trap](folder, str(program))
        marker.unlink(missing_ok=True)
        (folder / "a").write_text("new\n")
        os.utime(folder / "a", (1, 1))
        subprocess.run(["git", "status"], cwd=folder, env=CLEAN, capture_output=True, stdin=subprocess.DEVNULL)
        if marker.exists():
            sprung.add(trap)
    assert sprung == {
        "fsmonitor", "clean filter", "process filter", "include", "lazy fetch from a folder", "submodule",
    }  # fmt: skip
