"""Progress only grows, pieces of output are counted, and a tool that reports without end floods nobody (P9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ferrule import ToolContext, tool
from ferrule.core.tool import Tool
from tests.mcp_server.serving import client_of, serving


async def reports(made: Tool[Any]) -> list[tuple[float, float | None, str | None]]:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with client_of(serving([made]), "handshake") as client:
        await client.call_tool(made.name, {}, progress_callback=note)
    return seen


async def test_what_does_not_grow_is_not_sent() -> None:
    @tool(kind="readonly")
    async def go_back(context: ToolContext) -> str:
        """Go back."""
        for done in (5, 3, float("nan"), 5, 9):
            context.progress(done, 10)
            await asyncio.sleep(0.05)
        return "done"

    assert [done for done, _, _ in await reports(go_back)] == [5, 9]


async def test_pieces_of_output_are_counted_and_shown() -> None:
    @tool(kind="readonly")
    async def talk_on() -> AsyncIterator[str]:
        """Talk."""
        for word in ("one ", "two ", "three"):
            yield word
            await asyncio.sleep(0.05)

    assert await reports(talk_on) == [(1, None, "one "), (2, None, "two "), (3, None, "three")]


async def test_a_flood_is_a_few_reports_and_the_last_is_among_them() -> None:
    @tool(kind="readonly")
    async def count_fast(context: ToolContext) -> str:
        """Count."""
        for done in range(1, 20_001):
            context.progress(done, 20_000)
            if done % 1000 == 0:
                await asyncio.sleep(0)
        return "done"

    seen = await reports(count_fast)
    assert len(seen) < 100
    assert seen[-1][0] == 20_000


async def test_a_sync_tools_reports_come_from_its_thread() -> None:
    @tool(kind="readonly")
    def count_apart(context: ToolContext) -> str:
        """Count."""
        context.progress(1, 1, "from a thread")
        return "done"

    assert await reports(count_apart) == [(1, 1, "from a thread")]
