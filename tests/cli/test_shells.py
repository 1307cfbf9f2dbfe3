"""`ferrule shells`, seen from a second process while the first one runs (P11)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.needs import needs
from tests.process.shell.shell_room import alive, becomes, gone, new_mark

if TYPE_CHECKING:
    from .conftest import Command

AGENT = """
import asyncio, json, sys
from pathlib import Path
from ferrule.app.build import App
from ferrule.app.settings import PermissionSettings, Settings

async def go():
    settings = Settings(permissions=PermissionSettings(allow=["Bash"]))
    async with App(settings, Path.cwd()) as app:
        for command in json.loads(sys.stdin.readline()):
            result = await app.runtime.run("Bash", {"command": command, "run_in_background": True})
            assert result.success, result.llm_content
            await app.runtime.run("BashOutput", {"shell_id": result.data["shell_id"], "wait_for": "ready"})
        print("started", flush=True)
        while await asyncio.to_thread(sys.stdin.readline) == "list\\n":
            print((await app.runtime.run("BashOutput")).llm_content.splitlines()[0], flush=True)

asyncio.run(go())
"""


@contextmanager
def agent(ferrule: Command, *commands: str) -> Generator[subprocess.Popen[str]]:
    needs(Path("/proc/self/stat").exists(), "Linux, whose processes can be told apart")
    program = subprocess.Popen(
        [sys.executable, "-c", AGENT], cwd=ferrule.workspace, env=ferrule.environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert program.stdin is not None
        assert program.stdout is not None
        print(json.dumps(commands), file=program.stdin, flush=True)
        assert program.stdout.readline() == "started\n"
        yield program
    finally:
        program.kill()
        program.communicate()


def test_another_programs_commands_are_listed_read_and_stopped(ferrule: Command) -> None:
    mark = new_mark()
    with agent(ferrule, f"echo ready; sleep {mark}", "echo ready") as program:
        assert becomes(lambda: ferrule("shells", "--json").json[1]["status"] == "ended")
        first, second = ferrule("shells", "--json").json
        assert (first["command"], first["status"], first["process"]) == (
            f"echo ready; sleep {mark}", "running", program.pid,
        )  # fmt: skip
        assert (second["status"], second["exit_code"]) == ("ended", 0)
        table = ferrule("shells").out
        assert first["id"] in table
        assert "bash_2" in table
        assert ferrule("shells", "output", "bash_1").out == "ready\n"
        done = ferrule("shells", "stop", first["id"])
        assert (done.code, done.out) == (0, f"{first['id']} was stopped, with everything it had started.\n")
        assert gone(mark)
        assert "has already ended" in ferrule("shells", "stop", "bash_2").out
        assert program.stdin is not None
        assert program.stdout is not None
        say, heard = program.stdin, program.stdout
        listed: list[str] = []

        def knows() -> bool:
            print("list", file=say, flush=True)
            listed[:] = heard.readline().split()
            return listed[:2] == ["bash_1", "ended"]

        assert becomes(knows), listed  # the one who started it
        print("end", file=say, flush=True)
        program.wait(30)
    assert ferrule("shells", "--json").json == []
    assert list((ferrule.folder / "data/shells").iterdir()) == []


def test_another_workspace_sees_nothing_of_them(ferrule: Command) -> None:
    other = ferrule.folder / "other"
    other.mkdir()
    with agent(ferrule, "echo ready; sleep 600"):
        assert ferrule("shells", "--workspace", str(other), "--json").json == []
        assert ferrule("shells", "--workspace", str(other)).err == "Nothing runs in the background of this workspace.\n"


def test_what_a_killed_program_left_is_neither_shown_nor_kept(ferrule: Command) -> None:
    mark = new_mark()
    with agent(ferrule, f"echo ready; sleep {mark}") as program:
        assert becomes(lambda: alive(mark))
        os.kill(program.pid, signal.SIGKILL)
        program.wait(30)
        assert ferrule("shells", "--json").json == []
        assert list((ferrule.folder / "data/shells").iterdir()) == []
        assert gone(mark)


def test_a_command_that_is_not_there_is_said_with_those_that_are(ferrule: Command) -> None:
    assert "There is no command bash_1. Running: none" in ferrule("shells", "stop", "bash_1").err
    with agent(ferrule, "echo ready; sleep 600"), agent(ferrule, "echo ready; sleep 600"):
        ids = [one["id"] for one in ferrule("shells", "--json").json]
        done = ferrule("shells", "output", "bash_1")
        assert done.code == 2
        assert f"Several commands are called bash_1: {ids[0]}, {ids[1]}" in done.err
