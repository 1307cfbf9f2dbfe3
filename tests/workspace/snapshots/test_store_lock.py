from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from ferrule import Limits, RawCall, Runtime, ToolResult, tool
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.snapshot_store import StoreLock


def test_one_at_a_time_over_threads_and_over_openings(tmp_path: Path) -> None:
    locks = [StoreLock(tmp_path / "lock", 10), StoreLock(tmp_path / "lock", 10)]
    inside: list[int] = []
    seen: list[int] = []

    def work(lock: StoreLock) -> None:
        for _ in range(20):
            with lock.held():
                inside.append(1)
                seen.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work, args=(locks[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
    for lock in locks:
        lock.close()


def test_who_waits_too_long_is_told(tmp_path: Path) -> None:
    first, second = StoreLock(tmp_path / "lock", 1), StoreLock(tmp_path / "lock", 0.05)
    with first.held(), pytest.raises(PathError, match=r"in use by another program for 0\.05 seconds"), second.held():
        pass
    with second.held():
        pass
    first.close()
    second.close()


def test_a_tool_that_is_given_up_while_it_waits_leaves_it_free(tmp_path: Path) -> None:
    """P6: the next change would be told, after half a minute, that another program uses the history."""
    lock = StoreLock(tmp_path / "lock", 10)
    other = StoreLock(tmp_path / "lock", 10)
    waiting = threading.Semaphore(0)

    @tool(kind="readonly")
    def change() -> str:
        waiting.release()
        with lock.held():
            return "changed"

    async def main() -> list[ToolResult]:
        runtime = Runtime([change], limits=Limits(grace=0))
        with lock.held():
            call = RawCall("change", {})
            given_up = asyncio.create_task(runtime.run(call))
            await asyncio.to_thread(waiting.acquire)
            assert runtime.cancel(call.id)
            first = await given_up
        return [first, await runtime.run("change")]

    first, second = asyncio.run(main())
    assert first.error is not None
    assert (first.error.kind, second.data) == ("cancelled_error", "changed")
    with other.held():  # nor does it stay with this process
        pass
