"""How a command is run and told: hooks and broken rules stop it before anything runs, and what it does can be undone."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk
from tests.says_yes import SaysYes

from ferrule import Environment, Invocation, Runtime, Session, Touch
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.shell_run import command_text, problems_of, require_folder, runs_command
from ferrule.core.context import SandboxChoice
from ferrule.core.errors import ToolError
from ferrule.pipeline.hooks import Hook
from ferrule.workspace.files import files_of
from ferrule.workspace.snapshots.changes import Origin
from ferrule.workspace.snapshots.shell_changes import ShellChanges


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_a_folder_is_quoted_whatever_its_name(folder: str) -> None:
    """S3: it is one argument of `cd`, and never read as a command."""
    text = command_text("", folder)
    script = f'cd() {{ [ $# = 2 ] && printf %s "$2"; }}\n{text}'
    shown = subprocess.run(["bash", "-c", script], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True).stdout
    assert shown == folder.encode()


def test_what_is_no_command() -> None:
    assert [problem.message for problem in problems_of("a\0")] == snapshot(
        ["it contains a NUL byte, which no command can"]
    )
    assert [problem.message for problem in problems_of(" \n\t")] == snapshot(["it is empty"])
    assert problems_of("ls") == []


def test_a_command_is_tried_first_unless_it_stays_or_nothing_holds_it_back(tmp_path: Path) -> None:
    session = Session(workspace=tmp_path)
    off = Session(workspace=tmp_path, environment=Environment(sandbox=SandboxChoice(enabled=False)))
    assert runs_command("cat a", None, session).tentative
    assert not runs_command("cat a", None, session, stays=True).tentative
    assert not runs_command("cat a", None, off).tentative
    assert Touch("*", write=True) in cast("Any", runs_command("cat a", None, session).touches)


def test_a_folder_of_the_workspace_must_be_there(tmp_path: Path) -> None:
    session = Session(workspace=tmp_path)
    (tmp_path / "there").mkdir()
    require_folder(session, "there")
    require_folder(session, "/tmp/only/the/sandbox/knows")
    with pytest.raises(ToolError, match="no folder `gone`"):
        require_folder(session, "gone")


async def test_no_command_leaves_a_descriptor_open(tmp_path: Path) -> None:
    """Whether it read, changed something, failed or was tried in vain: a session may run thousands of them."""
    async with shell_desk(tmp_path) as desk:
        subprocess.run(["git", "init", "-q", str(desk.workspace)], check=True)
        commands = ("true", "git status", "echo x >new", "rm -f new", "cat nowhere", "echo x >>.git/config", "exit 3")

        async def count() -> int:
            for command in commands:
                await desk.words("Bash", command=command)
            gc.collect()
            return len(list(Path("/proc/self/fd").iterdir()))

        await count()
        before = await count()
        for _ in range(3):
            assert await count() <= before


async def test_what_goes_on_in_the_background_can_be_undone(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        (desk.workspace / "a").write_text("1")
        await desk.bash("mkfifo fifo")
        moved = await desk.bash("read x <fifo; rm a", timeout=300, background_on_timeout=True)
        assert "`bash_1`" in moved
        await desk.bash("echo go >fifo")
        await desk.words("BashOutput", shell_id="bash_1", wait_for="never comes")
    assert not (desk.workspace / "a").exists()
    report = files_of(desk.session).history.undo()
    assert [str(one.path) for one in report.changes] == [f"{os.path.realpath(desk.workspace)}/a"]
    assert (desk.workspace / "a").read_text() == "1"


async def test_what_a_person_does_after_a_command_that_never_ran_is_not_undone_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P11: it was cancelled while the workspace was looked at, before it could run."""
    looked, cancelled = threading.Event(), threading.Event()
    begin = ShellChanges.begin

    def slowly(self: ShellChanges, origin: Origin, *, alone: bool = False) -> bool:
        looked.set()
        cancelled.wait()
        return begin(self, origin, alone=alone)

    async with shell_desk(tmp_path) as desk:
        await desk.bash("echo 1 > a")
        with monkeypatch.context() as patch:
            patch.setattr(ShellChanges, "begin", slowly)
            running = asyncio.create_task(desk.bash("rm a"))
            await asyncio.to_thread(looked.wait)
            running.cancel()
            running.get_loop().call_soon(cancelled.set)
            with pytest.raises(asyncio.CancelledError):
                await running
        (desk.workspace / "mine").write_text("by hand")
        await desk.bash("echo 2 > b")
        groups = files_of(desk.session).history.recent()
    assert [[one.path.name for one in group.changes] for group in groups] == [["b"], ["a"]]


async def test_a_hook_that_crashes_lets_nothing_run(tmp_path: Path) -> None:
    def broken(invocation: Invocation, session: Session) -> None:
        raise RuntimeError("out of order")

    runtime = Runtime(
        builtin_tools(family="all"),
        policy=SaysYes(),
        session=Session(workspace=tmp_path),
        hooks=[Hook("checks", broken)],
    )
    result = await runtime.run("Bash", {"command": "touch made"})
    assert result.llm_content == snapshot("""\
Error (permission_error): `Bash` was not run: the hook `checks` failed (RuntimeError: out of order), and a failing hook refuses the call.

Suggestion: The user must fix or remove the hook; another call will not help.\
""")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "settings", ["[permissions]\ndeny = [", '[permissions]\ndeny = ["Bash(("]', "[sandbox]\nenable = false"]
)
def test_with_broken_settings_nothing_runs(tmp_path: Path, settings: str) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "ferrule.toml").write_text(settings)
    call = [sys.executable, "-m", "ferrule", "call", "Bash", json.dumps({"command": "touch made"}), "--yes"]
    done = subprocess.run([*call, "--workspace", str(workspace)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "ferrule.toml" in done.stderr
    assert not (workspace / "made").exists()


def test_the_workspace_itself_cannot_open_its_sandbox(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "ferrule.toml").write_text(f'[sandbox]\nenabled = false\nhosts = ["*"]\nwritable = ["{tmp_path}"]\n')
    call = [sys.executable, "-m", "ferrule", "call", "Bash", json.dumps({"command": f"touch {tmp_path}/made"}), "--yes"]
    done = subprocess.run([*call, "--workspace", str(workspace)], capture_output=True, text=True, check=False)
    assert "sandbox.enabled" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_loop_that_ends_in_between_does_no_harm(tmp_path: Path) -> None:
    """Each call in an event loop of its own, as a program without one would have it."""

    async def once(command: str) -> str:
        async with shell_desk(tmp_path) as desk:
            return await desk.bash(command)

    assert [asyncio.run(once(f"echo {number}")) for number in range(3)] == ["0", "1", "2"]
