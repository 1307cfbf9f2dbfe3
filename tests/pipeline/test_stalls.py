"""An async tool that blocks the event loop of the program around it (P1, P6): it is named, and its neighbours do not
pay for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ferrule import Limits, RawCall, Runtime, ToolContext, tool
from ferrule.pipeline import loop_watch as stalls
from ferrule.pipeline.loop_watch import LoopWatch, blocked_on_purpose, watch_of
from tests.process.shell.shell_room import becomes

if TYPE_CHECKING:
    import pytest

BLOCKED = 1.6
"""Long enough to be told apart from a busy machine."""


@tool(kind="readonly")
async def block_at_once() -> str:
    time.sleep(BLOCKED)
    return "returned"


@tool(kind="readonly")
async def block_later() -> str:
    await asyncio.sleep(0.05)
    time.sleep(BLOCKED)
    await asyncio.sleep(0)
    return "returned"


@tool(kind="readonly")
async def block_and_go_on() -> str:
    await asyncio.sleep(0.05)
    time.sleep(BLOCKED)
    await asyncio.sleep(60)
    return "never"


@tool(kind="readonly")
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@tool(kind="readonly")
async def let_another_block(context: ToolContext) -> str:
    return (await context.call("block_at_once")).llm_content


TOOLS = [block_at_once, block_later, block_and_go_on, nap, let_another_block]


async def test_the_result_of_a_tool_that_blocked_the_loop_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """What it gave is there all the same: nobody could have stopped it."""
    with caplog.at_level(logging.WARNING, "ferrule.calls"):
        result = await Runtime(TOOLS).run("block_at_once", timeout=0.5)
    assert result.data == "returned"
    assert result.metadata["blocked_loop_seconds"] >= BLOCKED - 0.1
    assert "Tool block_at_once has blocked the event loop for" in caplog.text
    assert "write it as a plain `def`" in caplog.text


async def test_one_that_blocks_after_it_waited_is_named_while_it_does(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ferrule.calls"):
        result = await Runtime(TOOLS).run("block_later", timeout=60)
    assert result.data == "returned"
    assert result.metadata["blocked_loop_seconds"] >= 1
    assert "Tool block_later has blocked the event loop for" in caplog.text
    assert "test_stalls.py:" in caplog.text  # where it stood just then


STOPPED_FOR_A_WHILE = """
import asyncio, os
from ferrule import Runtime, tool

@tool(kind="readonly")
async def nap() -> str:
    await asyncio.sleep(0.2)
    asyncio.get_running_loop().call_soon(lambda: print(os.getpid(), flush=True))
    await asyncio.sleep(3)
    return "rested"

print(asyncio.run(Runtime([nap]).run("nap")).data)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
def test_a_program_that_gets_no_time_blames_no_tool() -> None:
    """As on a busy machine: the watching thread gets no time either."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED_FOR_A_WHILE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline().strip() == str(program.pid)
        os.kill(program.pid, signal.SIGSTOP)
        time.sleep(2)
        os.kill(program.pid, signal.SIGCONT)
        assert program.communicate(timeout=120) == ("rested\n", "")


async def test_a_tool_that_says_it_never_blocks_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    """Its loop is the program's, whose user can do nothing about it; a built-in is never named in a terminal."""

    @tool(kind="readonly", may_block=False)
    async def blocks_all_the_same() -> str:
        time.sleep(BLOCKED)
        await asyncio.sleep(0)
        time.sleep(BLOCKED)
        return "returned"

    with caplog.at_level(logging.WARNING, "ferrule.calls"):
        assert (await Runtime([blocks_all_the_same]).run("blocks_all_the_same")).data == "returned"
    assert caplog.text == ""


async def test_a_loop_that_the_program_blocks_on_purpose_is_nobodys_fault(caplog: pytest.LogCaptureFixture) -> None:
    """As while a user answers at the terminal, inside of the call that asks."""

    @tool(kind="readonly")
    async def ask_a_question() -> str:
        await asyncio.sleep(0.05)
        with blocked_on_purpose():
            time.sleep(BLOCKED)
        await asyncio.sleep(0.3)
        return "answered"

    with caplog.at_level(logging.WARNING, "ferrule.calls"):
        result = await Runtime([ask_a_question]).run("ask_a_question", timeout=1)
    assert result.data == "answered"
    assert "blocked_loop_seconds" not in result.metadata
    assert caplog.text == ""


async def test_its_own_time_goes_on_meanwhile() -> None:
    result = await Runtime(TOOLS, limits=Limits(grace=0.05)).run("block_and_go_on", timeout=1)
    assert result.error is not None
    assert result.error.kind == "timeout_error"


@pytest.mark.slow
async def test_a_neighbour_is_not_charged_for_the_time_that_the_loop_stood_still() -> None:
    """It had less than its second, and would have been stopped."""
    runtime = Runtime(TOOLS)
    for blocker in ("block_at_once", "block_later"):
        napping = asyncio.ensure_future(runtime.run("nap", {"seconds": 0.7}, timeout=1))
        await asyncio.sleep(0.2)
        await runtime.run(blocker, timeout=60)
        result = await napping
        assert result.data == "rested", blocker
        assert "blocked_loop_seconds" not in result.metadata


@pytest.mark.slow
async def test_a_neighbour_still_has_a_limit_of_its_own() -> None:
    runtime = Runtime(TOOLS, limits=Limits(grace=0.05))
    napping = asyncio.ensure_future(runtime.run("nap", {"seconds": 60}, timeout=1))
    await asyncio.sleep(0.1)
    await runtime.run("block_at_once", timeout=60)
    result = await asyncio.wait_for(napping, 30)
    assert result.error is not None
    assert result.error.kind == "timeout_error"


async def test_what_the_program_itself_does_is_charged_to_no_tool(caplog: pytest.LogCaptureFixture) -> None:
    runtime = Runtime(TOOLS)
    with caplog.at_level(logging.WARNING, "ferrule.calls"):
        napping = asyncio.ensure_future(runtime.run("nap", {"seconds": 1.5}, timeout=2))
        await asyncio.sleep(0.1)
        time.sleep(BLOCKED)
        result = await napping
    assert result.data == "rested"
    assert "blocked_loop_seconds" not in result.metadata
    assert "The event loop has stood still" in caplog.text
    assert "Tool " not in caplog.text


async def test_a_tool_is_not_blamed_for_the_call_that_it_made() -> None:
    """The inner call is the one that blocked, in the very step in which the outer one made it."""
    runtime, done = Runtime(TOOLS), {}
    runtime.subscribe(lambda event: done.setdefault(event.tool, getattr(event, "result", None) or {}))
    outer = await runtime.run("let_another_block", timeout=60)
    assert outer.data == "returned"
    assert "blocked_loop_seconds" not in outer.metadata


def test_nobody_looks_on_while_no_call_waits() -> None:
    """A call that never waits costs no thread, and one that does leaves none behind that works."""

    async def main() -> LoopWatch:
        runtime = Runtime(TOOLS)
        await runtime.run("nap", {"seconds": 0.01})
        watch = watch_of(asyncio.get_running_loop())
        for _ in range(200):
            if watch not in stalls._watched:
                break
            await asyncio.sleep(0.05)
        return watch

    assert asyncio.run(main()) not in stalls._watched
    assert becomes(lambda: stalls._watched or "ferrule-watch" not in {one.name for one in threading.enumerate()})


def test_loops_that_have_ended_are_forgotten() -> None:
    async def main() -> None:
        await Runtime(TOOLS).run("nap", {"seconds": 0.001})

    for _ in range(5):
        asyncio.run(main())
    closed = [loop for loop in stalls._watches if loop.is_closed()]
    assert len(closed) <= 1  # the last one, until the next comes


def test_one_thread_looks_at_all_loops() -> None:
    def worker() -> None:
        asyncio.run(Runtime(TOOLS).batch([RawCall("nap", {"seconds": 0.3})]))

    threads = [threading.Thread(target=worker) for _ in range(3)]
    for thread in threads:
        thread.start()
    watching = [one for one in threading.enumerate() if one.name == "ferrule-watch"]
    assert len(watching) <= 1
    for thread in threads:
        thread.join(60)
