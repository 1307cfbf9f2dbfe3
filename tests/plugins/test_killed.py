"""A plugin whose process is killed: the call says so, it is not run twice, and the next one starts it again (O3)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import RulePolicy, Runtime
from ferrule.core.errors import ErrorKind
from ferrule.mcp_client.servers import Servers
from ferrule.plugins.enabled import enabled_plugins
from ferrule.registry.registry import Registry
from tests.needs import needs
from tests.plugins.wheels import make_wheel

CODE = """
import os, time
from pathlib import Path
from ferrule import tool

@tool(kind="write")
def work(seconds: float) -> str:
    '''Note that it runs, then take a while.'''
    with open(Path.home() / "runs", "a") as runs:
        runs.write("run\\n")
    time.sleep(seconds)
    return "done"

@tool(kind="write", idempotent=True)
def settle(seconds: float) -> str:
    '''Note that it runs, then take a while the first time.'''
    with open(Path.home() / "runs", "a") as runs:
        runs.write("run\\n")
    time.sleep(seconds if (Path.home() / "runs").read_text() == "run\\n" else 0)
    return "settled"
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="boxes of plugins on Linux")]


class Mortal:
    """The plugin in use, and its processes as this machine sees them."""

    def __init__(self, data: Path, workspace: Path, name: str) -> None:
        self.runs = data / f"plugins/{name}/home/runs"
        self.name = name
        registry = Registry()
        self.servers = Servers(
            [], registry, folders=[workspace], data=data / "mcp", agreed=enabled_plugins(workspace)[0]
        )
        self.runtime = Runtime(registry, policy=RulePolicy(allow=["mcp__*"], doubts=self.servers.approvals))

    async def work(self, seconds: float = 0.0, tool: str = "work") -> Any:
        return await self.runtime.run(f"mcp__{self.name}__{tool}", {"seconds": seconds})

    async def end(self) -> None:
        """Kill it, and wait until that was noticed: a call before that is one in flight."""
        for pid in self.processes(inside=True):
            os.kill(pid, signal.SIGKILL)
        await until(lambda: self.processes() == [] and self.servers.joined[self.name].server.offered is None)

    def processes(self, *, inside: bool = False) -> list[int]:
        """All of them, or without bubblewrap."""
        found: list[int] = []
        for one in Path("/proc").iterdir():
            try:
                words = (one / "cmdline").read_bytes().split(b"\0") if one.name.isdigit() else []
            except OSError:
                continue
            is_it = any(f"main('{self.name}', '{self.name}'".encode() in word for word in words)
            if is_it and not (inside and b"bwrap" in words[0]):
                found.append(int(one.name))
        return found


@pytest.fixture
def mortal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mortal:
    needs(shutil.which("bwrap"), "bubblewrap")
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FERRULE_CONFIG", os.devnull)
    monkeypatch.chdir(tmp_path)
    name = f"mortal{os.getpid()}"
    wheel = make_wheel(tmp_path / "wheels", name, CODE, tools={"work": "write", "settle": "write"})
    command = [sys.executable, "-m", "ferrule", "plugin", "install", str(wheel), "--yes"]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return Mortal(tmp_path / "data", tmp_path, name)


async def until(happens: Any) -> None:
    async with asyncio.timeout(20):
        while not happens():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("inside", [True, False], ids=["its Python", "its box"])
async def test_killed_in_mid_call_and_back(mortal: Mortal, inside: bool) -> None:
    try:
        running = asyncio.create_task(mortal.work(60))
        await until(lambda: mortal.runs.exists() and mortal.processes(inside=True))
        for pid in mortal.processes(inside=inside):
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            result = await running
        assert result.error is not None
        assert result.error.kind is ErrorKind.EXECUTION
        assert f"The MCP server `{mortal.name}` ended while the call ran" in result.error.message
        assert mortal.runs.read_text() == "run\n"
        again = await mortal.work()
        assert again.llm_content == "done"
        assert mortal.runs.read_text() == "run\nrun\n"
    finally:
        await mortal.servers.close()
    await until(lambda: mortal.processes() == [])


async def test_one_that_may_run_twice_does_so_and_no_more(mortal: Mortal) -> None:
    """O3: the call says so itself. One that does not is reported, as above."""
    try:
        running = asyncio.create_task(mortal.work(60, "settle"))
        await until(lambda: mortal.runs.exists() and mortal.processes(inside=True))
        for pid in mortal.processes(inside=True):
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(40):
            result = await running
        assert result.llm_content == "settled"
        assert mortal.runs.read_text() == "run\nrun\n"
    finally:
        await mortal.servers.close()


async def test_one_whose_files_were_changed_is_not_started_again(mortal: Mortal) -> None:
    """R7: what runs is what was locked, at each start and not only at the first."""
    program = mortal.runs.parents[1] / "program"
    code = next(program.rglob(f"site-packages/{mortal.name}/__init__.py"))
    kept = code.stat()
    try:
        assert (await mortal.work()).llm_content == "done"
        await mortal.end()
        code.write_text(CODE.replace("done", "gone"))
        os.utime(code, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        refused = await mortal.work()
        assert refused.error is not None
        assert refused.error.message == (
            f"The files of `{mortal.name}` were changed since it was installed, so it is not started."
        )
        assert refused.error.suggestion == f"`ferrule plugin verify {mortal.name}` says how to install it again."
        code.write_text(CODE)
        async with asyncio.timeout(20):
            while (await mortal.work()).llm_content != "done":  # one that was killed is not started again at once
                await asyncio.sleep(0.2)
    finally:
        await mortal.servers.close()


async def test_killed_between_calls_and_back(mortal: Mortal) -> None:
    try:
        assert mortal.processes() == []  # nothing runs before it is needed
        assert (await mortal.work()).llm_content == "done"
        await mortal.end()
        assert (await mortal.work()).llm_content == "done"
        assert mortal.runs.read_text() == "run\nrun\n"
    finally:
        await mortal.servers.close()
    await until(lambda: mortal.processes() == [])
