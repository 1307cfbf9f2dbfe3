"""Many events a second: the list stays right and small, the page answers, and a cut connection loses nothing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from time import monotonic

import pytest

from tests.panel.browser import chromium, visitor
from tests.panel.served import shown

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("FERRULE_STREAM_SECONDS", "6"))
"""A minute shows the same, and takes one."""
CALLS_A_SECOND = 67
"""Each tells of three events: that it was created, began and ended."""
LISTED = "[...document.querySelectorAll('#rows tr')].map(row => [row.dataset.call, row.dataset.status])"


async def test_a_flood_is_shown_as_it_is_and_a_cut_connection_loses_nothing(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)
        await me.page.wait_for_function("document.querySelector('#connection').textContent !== ''")
        http = await service.http()
        began, made, slowest, largest = monotonic(), 0, 0.0, 0
        cut = False
        while (now := monotonic() - began) < SECONDS:
            due = int(now * CALLS_A_SECOND) - made
            sent = [http.post("/v1/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}}) for _ in range(due)]
            assert all(answer.status_code == 200 for answer in await asyncio.gather(*sent))
            made += due
            asked = monotonic()
            largest = max(largest, await me.page.evaluate("document.querySelectorAll('#rows tr').length"))
            slowest = max(slowest, monotonic() - asked)
            if not cut and now > SECONDS / 2:
                cut = True
                await me.context.set_offline(True)
                await asyncio.sleep(1.0)
                await me.context.set_offline(False)
            await asyncio.sleep(0.1)
        assert made > SECONDS * CALLS_A_SECOND / 2
        newest = [[one.id, str(one.status)] for one in (await (await service.client()).calls(limit=50)).calls]
        await me.page.wait_for_function(f"wanted => JSON.stringify({LISTED}) === wanted", arg=_json(newest))
        assert largest <= 50 + CALLS_A_SECOND  # between two looks at what is too many
        # The page is asked a question while it works through the flood; on an idle machine that takes milliseconds.
        assert slowest < 5.0
        assert me.faults == []


def _json(value: object) -> str:
    import json

    return json.dumps(value, separators=(",", ":"))
