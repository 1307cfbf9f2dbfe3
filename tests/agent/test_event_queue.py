"""Events are read in order, and a slow reader does not fill the memory."""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule.agent.agent_events import AgentNotice
from ferrule.core.events import PartialOutput, Progress
from ferrule.pipeline.record import EventQueue


async def test_events_come_in_order_and_end_with_none() -> None:
    queue = EventQueue[Any]()
    reading = asyncio.ensure_future(queue.next())
    await asyncio.sleep(0)
    queue.put(AgentNotice("a"))
    queue.put(AgentNotice("b"))
    queue.close()
    assert [await reading, await queue.next(), await queue.next()] == [AgentNotice("a"), AgentNotice("b"), None]


async def test_output_that_nobody_reads_gives_way_and_says_how_much() -> None:
    queue = EventQueue[Any]()
    queue.put(AgentNotice("stays"))
    queue.put(Progress("c", "t", 1))
    for number in range(3000):
        queue.put(PartialOutput("c", "t", number))
    queue.put(AgentNotice("last"))
    queue.close()
    read = []
    while (event := await queue.next()) is not None:
        read.append(event)
    assert len(read) <= 1002
    assert (read[0], read[-1]) == (AgentNotice("stays"), AgentNotice("last"))
    pieces = [one for one in read if isinstance(one, PartialOutput)]
    assert sum(one.dropped for one in pieces) + len(pieces) == 3000
