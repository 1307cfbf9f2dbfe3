"""The transport for programs: what goes in comes out, and what ends is said."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from ferrule.mcp_client.failures import ServerLog
from ferrule.mcp_client.stdio_transport import CannotStart, StdioTransport
from tests.mcp_client.peers import until

ECHO = "import sys\nfor line in sys.stdin:\n    sys.stdout.write(line)\n    sys.stdout.flush()\n"


def transport(folder: Path, script: str, ends: list[str], log: ServerLog | None = None) -> StdioTransport:
    command = [sys.executable, "-I", "-c", script]
    return StdioTransport(command, folder=folder, environment={}, log=log or ServerLog(), on_end=ends.append)


async def test_messages_go_in_and_come_out(tmp_path: Path) -> None:
    ends: list[str] = []
    async with transport(tmp_path, ECHO, ends) as (read, write):
        for at in range(3):
            text = "é\n" * 100_000 if at == 2 else "short"
            sent = JSONRPCRequest(jsonrpc="2.0", id=at, method="x", params={"text": text})
            await write.send(SessionMessage(sent))
            got: Any = await read.receive()
            assert got.message == sent
    assert ends == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", "it ended with exit code 0"),
        ("raise SystemExit(4)", "it ended with exit code 4"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by signal 9"),
        ("import os, time; os.close(1); time.sleep(1000)", "it closed its output"),
        ("print('half', end='')", "it ended with exit code 0 in the middle of a message"),
    ],
)
async def test_how_it_ended_is_said(tmp_path: Path, script: str, said: str) -> None:
    ends: list[str] = []
    async with transport(tmp_path, script, ends) as (read, _write):
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
    assert ends[0] == said


async def test_a_message_that_nobody_thought_of_ends_the_connection_and_no_call_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[str] = []
    made = transport(tmp_path, ECHO, ends)

    def fail(_message: object) -> bool:
        raise OverflowError("nobody thought of this")

    monkeypatch.setattr(made.direct, "take", fail)
    async with made as (read, write):
        waiting = asyncio.create_task(made.direct.request("tools/call", {}))
        await write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="x")))
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
        with pytest.raises(MCPError, match="Connection closed"):
            await waiting
    assert ends == ["it sent a message that could not be handled (OverflowError)"]


async def test_an_end_is_noticed_while_a_child_holds_the_output(tmp_path: Path) -> None:
    ends: list[str] = []
    script = "import subprocess; subprocess.Popen(['sleep', '1000'])"
    async with transport(tmp_path, script, ends):
        await until(lambda: ends)
    assert ends[0] == "it ended with exit code 0"


async def test_what_it_complains_of_is_kept(tmp_path: Path) -> None:
    log = ServerLog()
    async with transport(tmp_path, "import sys; sys.stderr.write('no disk\\n'); sys.stdin.read()", [], log):
        await until(lambda: log.text)
    assert log.last_line == "no disk"


async def test_its_last_words_are_heard_before_its_end_is_told(tmp_path: Path) -> None:
    """R6: on a busy machine its end is noticed first."""

    class Busy(StdioTransport):
        async def _hear(self, stream: asyncio.StreamReader) -> None:
            await asyncio.shield(self._box.ended)
            for _ in range(20):  # whatever else the loop has to do first
                await asyncio.sleep(0)
            await super()._hear(stream)

    log, heard = ServerLog(), list[str]()
    command = [sys.executable, "-I", "-c", "import sys; sys.exit('no disk')"]
    made = Busy(
        command, folder=tmp_path, environment={}, log=log, on_end=lambda why: heard.append(f"{why}: {log.last_line}")
    )
    async with made as (read, _write):
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
    assert heard[0] == "it ended with exit code 1: no disk"


async def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    gone = StdioTransport(["no-such-program"], folder=tmp_path, environment={}, log=ServerLog(), on_end=lambda _: None)
    with pytest.raises(CannotStart, match="no-such-program"):
        await gone.__aenter__()


async def test_one_that_never_said_a_word_is_asked_to_end_at_once(tmp_path: Path) -> None:
    """P6: whoever gives up on a mute server does not wait for it a second time."""
    script = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path('asked').touch(), sys.exit(0)))\n"
        "pathlib.Path('ready').touch()\n"
        "sys.stdin.read()\n"
        "time.sleep(0.5)\n"
        "pathlib.Path('left by itself').touch()\n"
    )
    async with transport(tmp_path, script, []):
        await until(lambda: (tmp_path / "ready").exists())
    assert (tmp_path / "asked").exists()
    assert not (tmp_path / "left by itself").exists()
