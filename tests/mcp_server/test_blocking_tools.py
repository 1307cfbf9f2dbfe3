"""A tool that blocks its event loop (P1, P6): its call ends at its time, and the server answers everything meanwhile."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp import Client

from tests.mcp_server.processes import environment, http_server, stdio_server
from tests.mcp_server.serving import text_of
from tests.process.shell.shell_room import becomes

BLOCKING = '''
import asyncio, threading, time
from ferrule import tool

@tool(kind="readonly", timeout=12)
async def block_the_loop(marker: str) -> str:
    """Sleep where others must go on."""
    open(marker, "w").close()
    time.sleep(600)
    return "never"

@tool(kind="readonly")
async def wait_a_little() -> str:
    """Wait as one should."""
    await asyncio.sleep(0.01)
    return "waited"

@tool(kind="readonly")
def work_in_a_thread() -> str:
    """Work beside the loop."""
    return "worked"
'''
TIMED_OUT = snapshot("""\
Error (timeout_error): `block_the_loop` ran longer than its time limit of 12 s. It blocked its event loop, so it could not be stopped, and was abandoned.

Suggestion: Ask for less at once, or for a longer time limit.\
""")


def bring(home: Path) -> str:
    """Put the tools where the server finds them; gives the path of the marker."""
    environment(home)
    (home / "tools" / "blocking.py").write_text(BLOCKING)
    return str(home / "marker")


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.slow
def test_a_client_on_stdio_gets_its_time_out_and_all_other_answers_before(tmp_path: Path) -> None:
    marker = bring(tmp_path)
    (tmp_path / "notes.txt").write_text("one\n")
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        server.send(request(1, "tools/call", name="block_the_loop", arguments={"marker": marker}))
        assert becomes(Path(marker).exists, 60)
        began = time.monotonic()
        server.send(request(2, "ping"))
        server.send(request(3, "tools/list"))
        server.send(request(4, "tools/call", name="Read", arguments={"file_path": "notes.txt"}))
        server.send(request(5, "tools/call", name="Glob", arguments={"pattern": "*.txt"}))
        server.send(request(6, "tools/call", name="work_in_a_thread", arguments={}))
        server.send(request(7, "tools/call", name="wait_a_little", arguments={}))
        answers = [server.receive() for _ in range(7)]
        taken = time.monotonic() - began
        assert answers[-1]["id"] == 1, [one["id"] for one in answers]  # it comes last, at its time
        assert {one["id"] for one in answers} == {1, 2, 3, 4, 5, 6, 7}
        assert not [one for one in answers[:-1] if one["result"].get("isError")]
        assert answers[-1]["result"]["isError"]
        assert answers[-1]["result"]["content"][0]["text"] == TIMED_OUT
        assert taken < 60  # and not when it has slept enough
        assert server.call(8, "wait_a_little")["result"]["content"][0]["text"] == "waited"
        server.close_input()
        assert server.process.wait(60) == 0
    assert b"block_the_loop has blocked the event loop" in b"".join(server.errors)


@pytest.mark.slow
async def test_over_http_too(tmp_path: Path) -> None:
    marker = bring(tmp_path)
    with http_server(tmp_path, tmp_path, "--http", "127.0.0.1:0") as (url, _):
        async with Client(url) as one, Client(url) as other:
            blocked = asyncio.ensure_future(one.call_tool("block_the_loop", {"marker": marker}))
            assert await asyncio.to_thread(becomes, Path(marker).exists, 60)
            assert text_of(await other.call_tool("work_in_a_thread", {})) == "worked"
            assert text_of(await other.call_tool("wait_a_little", {})) == "waited"
            assert not blocked.done()
            assert text_of(await asyncio.wait_for(blocked, 60)) == TIMED_OUT
