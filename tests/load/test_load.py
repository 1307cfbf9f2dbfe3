"""Ten thousand calls, two hundred at a time, of tools that behave as badly as they can."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
import tracemalloc
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import CallRecord, Limits, RawCall, Runtime, ToolContext, ToolError, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CALLS = 10_000
AT_ONCE = 200


@tool(kind="readonly")
async def quick(n: int) -> int:
    return n


@tool(kind="readonly")
async def slow(n: int) -> int:
    await asyncio.sleep(0.01)
    return n


@tool(kind="readonly")
async def failing(n: int) -> int:
    await asyncio.sleep(0)
    raise (ToolError("told"), ValueError("raised"), SystemExit(n))[n % 3]


@tool(kind="readonly", timeout=0.03)
async def hanging(n: int) -> None:
    await asyncio.sleep(60)


@tool(kind="readonly")
async def cancelling(n: int) -> None:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


@tool(kind="readonly", timeout=0.03)
async def stubborn(n: int) -> None:
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


@tool(kind="readonly")
async def flooding(n: int) -> AsyncIterator[str]:
    for _ in range(50):
        yield "x" * 2000


@tool(kind="readonly")
def threaded(n: int) -> int:
    return n


@tool(kind="readonly", timeout=0.05)
def threaded_hanging(n: int, context: ToolContext) -> None:
    if n % 2:
        time.sleep(2)
    context.cancellation.wait(20)


@tool(kind="readonly", timeout=0.05)
def threaded_spinning(n: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pass


@tool(kind="readonly")
async def nesting(n: int, context: ToolContext) -> Any:
    return (await context.call("quick", {"n": n})).data


MIX: dict[str, int] = {
    "quick": 4000, "slow": 2000, "failing": 1500, "hanging": 600, "cancelling": 600, "stubborn": 300, "flooding": 300,
    "threaded": 400, "threaded_hanging": 20, "threaded_spinning": 4, "nesting": 100, "unknown": 176,
}  # fmt: skip
EXPECTED = {
    "quick": {"success"}, "slow": {"success"}, "flooding": {"success"}, "threaded": {"success"}, "nesting": {"success"},
    "failing": {"execution_error", "unknown_error"}, "hanging": {"timeout_error"}, "stubborn": {"timeout_error"},
    "cancelling": {"cancelled_error"}, "threaded_hanging": {"timeout_error"}, "threaded_spinning": {"timeout_error"},
    "unknown": {"not_found_error"},
}  # fmt: skip


class Keeper:
    """Counts records, without keeping what calls said."""

    def __init__(self) -> None:
        self.ids: Counter[str] = Counter()
        self.outcomes: dict[str, set[str]] = {}

    def record(self, record: CallRecord) -> None:
        self.ids[record.call_id] += 1
        self.outcomes.setdefault(record.tool, set()).add(str(record.outcome))


async def run_all(runtime: Runtime, calls: list[RawCall]) -> Counter[str]:
    """Every call through a fixed number of hands; a few callers leave before their call is done."""
    answered: Counter[str] = Counter()
    waiting = iter(calls)

    async def hand() -> None:
        for call in waiting:
            result: ToolResult = await runtime.run(call)
            assert result.call_id == call.id
            answered[call.id] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(hand())
    return answered


@pytest.mark.slow
def test_ten_thousand_calls_get_one_result_and_one_record_each() -> None:
    """P1, P5, P6: nothing hangs, nothing is lost, nothing is left over, memory returns."""
    assert sum(MIX.values()) == CALLS
    names = [name for name, count in MIX.items() for _ in range(count)]
    random.Random(7).shuffle(names)
    calls = [RawCall(name, {"n": number}, id=f"load_{number}") for number, name in enumerate(names)]
    keeper = Keeper()
    limits = Limits(grace=0.05, result_chars=10_000)

    async def main() -> tuple[Counter[str], int, int, int]:
        runtime = Runtime(
            [quick, slow, failing, hanging, cancelling, stubborn, flooding, threaded, threaded_hanging,
             threaded_spinning, nesting],
            recorders=[keeper], limits=limits,
        )  # fmt: skip
        await run_all(runtime, [RawCall(name, {"n": 0}) for name in MIX])  # everything is compiled and warm
        keeper.ids.clear()
        gc.collect()
        tracemalloc.start(1)
        before, _ = tracemalloc.get_traced_memory()
        answered = await asyncio.wait_for(run_all(runtime, calls), 60)
        for _ in range(200):
            if not runtime.abandoned:
                break
            await asyncio.sleep(0.05)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return answered, len(asyncio.all_tasks()), runtime.abandoned, after - before

    threads = threading.active_count()
    answered, tasks, abandoned, grown = asyncio.run(main())
    ids = {call.id for call in calls}
    assert set(answered) == ids
    assert set(answered.values()) == {1}
    assert {call_id: count for call_id, count in keeper.ids.items() if call_id in ids and count != 1} == {}
    assert ids <= set(keeper.ids)
    assert keeper.outcomes == EXPECTED
    assert tasks == 1
    assert abandoned == 0
    assert grown < 10_000_000
    assert threading.active_count() - threads <= limits.threads


def test_callers_that_leave_early_leave_a_record_and_nothing_else() -> None:
    keeper = Keeper()

    async def main() -> int:
        runtime = Runtime([slow, hanging, threaded_hanging], recorders=[keeper], limits=Limits(grace=0.05))
        rng = random.Random(3)
        tasks: list[asyncio.Task[ToolResult]] = []
        for number in range(400):
            name = rng.choice(
                ["slow", "slow", "hanging", "threaded_hanging"] if number % 20 == 0 else ["slow", "hanging"]
            )
            tasks.append(asyncio.create_task(runtime.run(RawCall(name, {"n": number}, id=f"left_{number}"))))
        for task in tasks:
            if rng.random() < 0.5:
                await asyncio.sleep(0)
                task.cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert all(isinstance(one, (ToolResult, asyncio.CancelledError)) for one in done)
        assert any(isinstance(one, asyncio.CancelledError) for one in done)
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
    assert set(keeper.ids.values()) == {1}
    assert len(keeper.ids) == 400
