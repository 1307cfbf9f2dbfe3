"""Programs as hooks: real ones, with every way to go wrong."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from time import monotonic

import pytest

from ferrule import Runtime, tool
from ferrule.core.context import Session
from ferrule.core.result import ToolResult
from ferrule.policy.program_hook import program_hook

RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(kind="readonly")
def look(path: str) -> str:
    """Look at something."""
    RAN.append(path)
    return f"saw {path}"


async def ask(tmp_path: Path, script: str, event: str = "before", timeout: float = 10) -> ToolResult:
    (tmp_path / "hook.py").write_text(script, encoding="utf-8")
    hook = program_hook([sys.executable, "-I", str(tmp_path / "hook.py")], event=event, timeout=timeout, name="mine")
    return await Runtime([look], hooks=[hook], session=Session(workspace=tmp_path)).run("look", {"path": "ä"})


async def test_a_program_sees_the_call_and_can_let_it_go_on(tmp_path: Path):
    script = "import sys; open('seen', 'wb').write(sys.stdin.buffer.read())"
    assert (await ask(tmp_path, script)).llm_content == "saw ä"
    seen = (tmp_path / "seen").read_text(encoding="utf-8")
    for part in ('"event": "before"', '"tool": "look"', '"path": "ä"', f'"workspace": "{tmp_path}"'):
        assert part in seen


async def test_exit_code_2_refuses_with_standard_error_as_the_reason(tmp_path: Path):
    result = await ask(tmp_path, "import sys; sys.exit(print('wrong branch', file=sys.stderr) or 2)")
    assert RAN == []
    assert "the hook `mine` refused it: wrong branch." in result.llm_content


async def test_a_program_can_refuse_change_and_add_in_json(tmp_path: Path):
    refused = await ask(tmp_path, 'print(\'{"deny": "no"}\')')
    assert "refused it: no." in refused.llm_content
    changed = await ask(tmp_path, 'print(\'{"arguments": {"path": "b"}, "context": "moved"}\')')
    assert changed.llm_content == "saw b\n\nmoved"


async def test_a_program_after_a_call_sees_the_result(tmp_path: Path):
    script = "import json, sys; print(json.dumps({'context': json.load(sys.stdin)['result']['llm_content'].upper()}))"
    assert (await ask(tmp_path, script, "after")).llm_content == "saw ä\n\nSAW Ä"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("raise SystemExit(1)", "it ended with code 1"),
        ("print('hello')", "its output is not JSON"),
        ("print('[1]')", "its output is list"),
        ("print('{\"allow\": true}')", "its output has `allow`"),
        ("print('{\"arguments\": 1}')", "`arguments` is not an object"),
        ("print('{\"deny\": 1}')", "`deny` is not text"),
        ("print('x' * 2_000_000)", "it wrote more than 1,000,000 bytes"),
        ("import os; os.kill(os.getpid(), 9)", "it ended with code -9"),
        ("import time; time.sleep(3600)", "gave no answer within 1 s"),
    ],
)
async def test_a_program_that_does_not_work_refuses(tmp_path: Path, script: str, words: str):
    result = await ask(tmp_path, script, timeout=1 if "sleep" in script else 10)
    assert RAN == []
    assert words in result.llm_content


async def test_a_program_that_is_not_there_refuses(tmp_path: Path):
    hook = program_hook([str(tmp_path / "none")], event="before")
    result = await Runtime([look], hooks=[hook]).run("look", {"path": "a"})
    assert RAN == []
    assert "the hook `none` failed (HookFailed:" in result.llm_content
    assert "could not be started: no such file or directory" in result.llm_content


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_its_pipes_are_let_go_of_however_often_the_call_is_cancelled(tmp_path: Path):
    lives_on = "import subprocess, time; subprocess.Popen(['sleep', '5'], start_new_session=True); "
    wait = "open('begun', 'w').close(); time.sleep(300)"

    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    running = asyncio.create_task(ask(tmp_path, "raise SystemExit"))
    await running  # what is opened once and for all is open now
    before = open_descriptors()
    running = asyncio.create_task(ask(tmp_path, lives_on + wait, timeout=60))
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for _ in range(10):
        await asyncio.sleep(0.01)
    assert open_descriptors() <= before


async def test_nothing_of_a_hook_is_left_running(tmp_path: Path):
    script = "import os, time\nif os.fork() == 0:\n    open('child', 'w').write(str(os.getpid()))\ntime.sleep(3600)\n"
    began = monotonic()
    await ask(tmp_path, script, timeout=1)
    assert monotonic() - began < 60
    child = int((tmp_path / "child").read_text())
    while alive(child):  # the kill is sent; it takes a moment
        assert monotonic() - began < 60


@pytest.mark.parametrize(("command", "event"), [([], "before"), ([""], "before"), (["x"], "whenever")])
def test_a_hook_that_cannot_be_one_is_refused_when_it_is_made(command: list[str], event: str):
    with pytest.raises(ValueError, match="A hook"):
        program_hook(command, event=event)
