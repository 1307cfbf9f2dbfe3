"""An async tool that blocks the event loop of the program around it (P1, P6): it is named, and its neighbours do not
pay for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ferrule import Limits, RawCall, Runtime, ToolContext, tool
from ferrule.pipeline import tool_loops as stalls
from ferrule.pipeline.tool_loops import watch_of
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


@pytest.mark.parametrize("name", ["block_at_once", "block_later"])
async def test_a_thread_that_waits_for_a_processor_blocks_nothing(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalls, "_delay_of", lambda thread: time.monotonic())  # as on a machine with no time for us
    with caplog.at_level(logging.WARNING, "ferrule.calls"):
        await Runtime(TOOLS).run(name, timeout=60)
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

    async def main() -> stalls.LoopWatch:
        runtime = Runtime(TOOLS)
        await runtime.run("nap", {"seconds": 0.01})
        watch = watch_of(asyncio.get_running_loop())
        for _ in range(200):
            if not watch.beating:
                break
            await asyncio.sleep(0.05)
        return watch

    watch = asyncio.run(main())
    assert not watch.beating
    assert becomes(lambda: watch not in stalls._watcher._watches)


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
