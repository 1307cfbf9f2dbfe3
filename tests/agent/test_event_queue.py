"""Events are read in order, and a slow reader does not fill the memory."""

from __future__ import annotations

import asyncio

from ferrule.agent.agent_events import Noted
from ferrule.agent.calling import EventQueue
from ferrule.core.events import Partial, Progress


async def test_events_come_in_order_and_end_with_none() -> None:
    queue = EventQueue()
    reading = asyncio.ensure_future(queue.next())
    await asyncio.sleep(0)
    queue.put(Noted("a"))
    queue.put(Noted("b"))
    queue.close()
    assert [await reading, await queue.next(), await queue.next()] == [Noted("a"), Noted("b"), None]


async def test_output_that_nobody_reads_gives_way_and_says_how_much() -> None:
    queue = EventQueue()
    queue.put(Noted("stays"))
    queue.put(Progress("c", "t", 1))
    for number in range(3000):
        queue.put(Partial("c", "t", number))
    queue.put(Noted("last"))
    queue.close()
    read = []
    while (event := await queue.next()) is not None:
        read.append(event)
    assert len(read) <= 1002
    assert (read[0], read[-1]) == (Noted("stays"), Noted("last"))
    pieces = [one for one in read if isinstance(one, Partial)]
    assert sum(one.dropped for one in pieces) + len(pieces) == 3000
