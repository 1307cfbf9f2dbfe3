"""Calls that are only taken as tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.mcp_client.peers import plain, until, using


async def test_a_tool_that_needs_a_task_gets_one(tmp_path: Path) -> None:
    async with using(tmp_path, plain()) as used:
        assert (await used.call("research")).llm_content == "found"


async def test_a_task_that_is_given_up_is_cancelled(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with using(tmp_path, plain(notes=notes)) as used:
        call = asyncio.create_task(used.call("research", slow=True))
        await until(lambda: "waited for" in notes.read_text())
        call.cancel()
        await asyncio.wait({call})
        await until(lambda: "task cancelled t1" in notes.read_text())
