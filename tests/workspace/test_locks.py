"""One writer at a time for each file."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from ferrule import Limits, RawCall, Runtime, ToolResult, tool
from ferrule.workspace import atomic as locks
from ferrule.workspace.atomic import writing

A, B = Path("/a"), Path("/b")


def test_two_writers_of_one_file_take_turns() -> None:
    count = 0

    def add() -> None:
        nonlocal count
        for _ in range(200):
            with writing(A):
                was = count
                threading.Event().wait(0)
                count = was + 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count == 800


def test_writers_of_different_files_do_not_wait_for_each_other() -> None:
    both = threading.Barrier(2, timeout=10)

    def work(path: Path) -> None:
        with writing(path):
            both.wait()

    threads = [threading.Thread(target=work, args=(path,)) for path in (A, B)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both.broken


def test_several_files_in_any_order_never_wait_in_a_ring() -> None:
    def work(*paths: Path) -> None:
        for _ in range(500):
            with writing(*paths):
                pass

    threads = [threading.Thread(target=work, args=paths, daemon=True) for paths in ((A, B), (B, A), (A, B, A))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def test_a_writer_may_take_its_own_lock_again_and_gives_it_back_after_a_failure() -> None:
    with pytest.raises(ZeroDivisionError), writing(A), writing(A, B):
        _ = 1 / 0
    taken: list[bool] = []

    def work() -> None:
        with writing(A, B):
            taken.append(True)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    assert taken == [True]


def test_locks_that_nobody_uses_are_forgotten() -> None:
    with writing(Path("/only/here")):
        pass
    assert Path("/only/here") not in locks._locks  # pyright: ignore[reportPrivateUsage]


def test_a_tool_that_is_given_up_while_it_waits_leaves_no_lock_behind(tmp_path: Path) -> None:
    """P6: whoever waited behind it would wait for ever."""
    file = tmp_path / "a"
    waiting = threading.Semaphore(0)

    @tool(kind="readonly")
    def change() -> str:
        waiting.release()
        with writing(file):
            return "changed"

    async def main() -> list[ToolResult]:
        runtime = Runtime([change], limits=Limits(grace=0))
        with writing(file):
            call = RawCall("change", {})
            given_up = asyncio.create_task(runtime.run(call))
            await asyncio.to_thread(waiting.acquire)
            assert runtime.cancel(call.id)
            first = await given_up
            behind = asyncio.create_task(runtime.run("change"))
            await asyncio.to_thread(waiting.acquire)
        return [first, await behind]

    first, behind = asyncio.run(main())
    assert first.error is not None
    assert (first.error.kind, behind.data) == ("cancelled_error", "changed")
