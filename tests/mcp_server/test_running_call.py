"""A call that outlives requests: its questions, their answers, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import RawCall, Runtime, tool
from ferrule.core.result import ToolResult
from ferrule.mcp_server.sessions import RunningCall

RESULT = ToolResult("call_1", "t", success=True, llm_content="done", display_content="done")


def begin(work: Any, answers: dict[str, Any] | None = None) -> RunningCall:
    running = RunningCall(RawCall("work"), answers)

    @tool(name="work", kind="readonly")
    async def do_work() -> Any:
        """Work."""
        return await work(running)

    async def run() -> ToolResult:
        return await Runtime([do_work]).run(running.call)

    running.start(run(), lambda _: None)
    return running


def read_number(given: Any) -> int:
    if not isinstance(given, int):
        raise ValueError("no number")
    return given


async def test_questions_that_are_asked_together_are_open_together() -> None:
    async def work(running: RunningCall) -> int:
        return sum(await asyncio.gather(*(running.ask({}, read_number, key) for key in ("a", "b", "c"))))

    running = begin(work)
    await running.wait()
    assert set(running.questions) == {"a", "b", "c"}
    running.answer({"a": 1, "b": "nonsense", "d": 5})
    assert set(running.questions) == {"b", "c"}
    running.answer({"b": 2, "c": 3})
    await running.wait()
    assert running.result is not None
    assert running.result.data == 6


async def test_a_key_never_stands_for_two_questions() -> None:
    async def work(running: RunningCall) -> list[int]:
        return [await running.ask({}, read_number, "n") for _ in range(3)]

    running = begin(work)
    seen: list[str] = []
    for answer in range(3):
        await running.wait()
        (key,) = running.questions
        seen.append(key)
        running.answer({key: answer})
    await running.wait()
    assert len(set(seen)) == 3


async def test_an_answer_that_came_with_the_call_is_used_if_it_is_one() -> None:
    async def work(running: RunningCall) -> int:
        return await running.ask({}, read_number, "a") + await running.ask({}, read_number, "b")

    running = begin(work, {"a": 1, "b": "nonsense"})
    await running.wait()
    assert set(running.questions) == {"b"}
    await running.stop()


async def test_waiting_ends_when_patience_does() -> None:
    async def work(_running: RunningCall) -> None:
        await asyncio.sleep(600)

    running = begin(work)
    await running.wait(0.01)
    assert not running.done
    await running.stop()
    assert running.done
    assert running.result is None


async def test_a_call_that_nobody_takes_up_again_is_given_up() -> None:
    async def work(running: RunningCall) -> None:
        await running.ask({}, read_number)

    running, kept = begin(work), begin(work)
    await asyncio.gather(running.wait(), kept.wait())
    running.give_up_after(0.01)
    kept.give_up_after(0.01)
    kept.keep()
    while not running.done:
        await asyncio.sleep(0.01)
    assert running.result is None
    assert not kept.done
    await kept.stop()


async def test_whoever_waits_for_an_end_that_never_comes_can_be_cancelled() -> None:
    async def work(_running: RunningCall) -> None:
        await asyncio.sleep(600)

    running = begin(work)
    waiting = asyncio.create_task(running.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await running.stop()


async def test_a_call_that_never_waits_is_done_as_soon_as_it_is_begun_at_once() -> None:
    async def work() -> ToolResult:
        return RESULT

    ended: list[RunningCall] = []
    eager, later = RunningCall(RawCall("t", {})), RunningCall(RawCall("t", {}))
    eager.start(work(), ended.append, at_once=True)
    later.start(work(), ended.append)
    assert (eager.done, later.done) == (True, False)
    assert eager.result is RESULT
    await later.wait()
    assert later.result is RESULT
    assert ended == [eager, later]
    assert eager.id != later.id


async def test_waiting_ends_in_time_and_leaves_the_call_running() -> None:
    go = asyncio.Event()

    async def work() -> ToolResult:
        await go.wait()
        return RESULT

    running = RunningCall(RawCall("t", {}))
    running.start(work(), lambda _: None, at_once=True)
    await running.wait(0.01)
    await running.wait(0)
    assert not running.done
    waiting = asyncio.create_task(running.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not running.done
    go.set()
    await running.wait(10)
    assert running.result is RESULT
