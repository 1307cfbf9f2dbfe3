"""One at a time, by name, on whatever loops the callers run."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from ferrule.core.loops import SyncCaller, sync_caller
from ferrule.core.turns import Turns
from tests.process.shell.shell_room import becomes


class Room:
    """Counts who is inside."""

    def __init__(self) -> None:
        self.inside = self.most = self.been = 0

    async def visit(self, turns: Turns, name: str, seconds: float = 0.0) -> None:
        async with turns.of(name):
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(seconds)
            self.inside -= 1
            self.been += 1


async def test_one_name_is_taken_by_one_and_another_name_by_another() -> None:
    turns, room = Turns(), Room()
    await asyncio.gather(*(room.visit(turns, "a", 0.001) for _ in range(5)))
    assert (room.most, room.been) == (1, 5)
    apart = Room()
    await asyncio.gather(apart.visit(turns, "a", 0.05), apart.visit(turns, "b", 0.05))
    assert apart.most == 2


def test_one_loop_after_the_other_can_take_it() -> None:
    turns, room = Turns(), Room()
    for _ in range(3):
        asyncio.run(room.visit(turns, "a"))
    assert room.been == 3


def test_loops_in_several_threads_keep_each_other_out() -> None:
    turns, room = Turns(), Room()

    async def main() -> None:
        await asyncio.gather(*(room.visit(turns, "a", 0.001) for _ in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (room.most, room.been) == (1, 80)


def test_a_loop_that_ended_in_the_middle_holds_nobody_up() -> None:
    turns = Turns()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(turns.take("a"))
    loop.close()
    asyncio.run(asyncio.wait_for(turns.take("a"), 10))


async def test_whoever_is_cancelled_while_waiting_passes_the_turn_on() -> None:
    turns = Turns()
    await turns.take("a")
    first = asyncio.ensure_future(turns.take("a"))
    second = asyncio.ensure_future(turns.take("a"))
    await asyncio.sleep(0)
    turns.leave("a")  # it is the first one's now, which has not heard of it yet
    first.cancel()
    await asyncio.wait_for(second, 10)
    assert first.cancelled()


async def test_waiting_for_a_loop_that_waits_for_oneself_is_refused() -> None:
    """What `run_sync` would wait for for ever in a notebook."""
    turns = Turns()
    await turns.take("a")
    here = asyncio.get_running_loop()
    failures: list[BaseException] = []

    def blocked_caller() -> None:
        sync_caller.set(SyncCaller(loop=here))
        try:
            asyncio.run(turns.take("a"))
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=blocked_caller)
    thread.start()
    thread.join(60)  # and this loop stands still meanwhile
    assert "on the event loop that `run_sync` blocks" in str(failures[0])


def test_the_turn_reaches_a_loop_that_sleeps() -> None:
    turns = Turns()
    taken: list[float] = []

    async def waits() -> None:
        async with turns.of("a"):
            taken.append(time.monotonic())

    async def main() -> None:
        await turns.take("a")
        thread = threading.Thread(target=asyncio.run, args=(waits(),))
        thread.start()
        assert await asyncio.to_thread(becomes, lambda: turns._waiting.get("a"))
        turns.leave("a")
        await asyncio.to_thread(thread.join, 60)

    asyncio.run(main())
    assert taken


@pytest.mark.parametrize("count", [1, 2])
async def test_leaving_lets_nobody_in_twice(count: int) -> None:
    turns, room = Turns(), Room()
    await turns.take("a")
    waiting = [asyncio.ensure_future(room.visit(turns, "a")) for _ in range(count)]
    await asyncio.sleep(0)
    assert room.been == 0
    turns.leave("a")
    await asyncio.wait_for(asyncio.gather(*waiting), 10)
    assert room.most == 1
