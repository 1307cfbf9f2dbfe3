"""Many events a second: the list stays right and small, the page answers, and a cut connection loses nothing."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

from ferrule.panel.calls import ROWS
from tests.panel.browser import Visitor, chromium, visitor
from tests.panel.served import shown

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("FERRULE_STREAM_SECONDS", "8"))
"""A minute shows the same, and takes one."""
CALLS_A_SECOND = 67
"""Each tells of three events: that it was created, began and ended."""
MOST_GROWTH = 2_000_000
"""Bytes that the page's heap may grow by, after its garbage was collected, over the whole flood."""
LISTED = "[...document.querySelectorAll('#rows tr')].map(row => [row.dataset.call, row.dataset.status])"


class Relay:
    """Stands between browser and service, and can cut every connection. Turning a browser's network off, as its own
    tools do, leaves a stream that is open as it was.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self.refusing = False

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._open |= {writer, back}
        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        self._open -= {writer, back}

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        target.close()

    def cut(self) -> None:
        for one in list(self._open):
            one.transport.abort()


@asynccontextmanager
async def relaying(url: str) -> AsyncGenerator[tuple[Relay, str]]:
    relay = Relay(urlsplit(url).port or 0)
    server = await asyncio.start_server(relay.join, "127.0.0.1", 0)
    try:
        yield relay, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        relay.cut()


async def kept(me: Visitor) -> tuple[int, int]:
    """Bytes of the page's heap that are in use and its nodes, once its garbage has been collected."""
    tools = await me.context.new_cdp_session(me.page)
    await tools.send("HeapProfiler.collectGarbage")
    used = (await tools.send("Runtime.getHeapUsage"))["usedSize"]
    nodes = (await tools.send("Memory.getDOMCounters"))["nodes"]
    await tools.detach()
    return int(used), int(nodes)


async def test_a_flood_is_shown_as_it_is_and_a_cut_connection_loses_nothing(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser, relaying(service.url) as (relay, url):
        me = await visitor(browser, url)
        streams: list[str] = []
        me.page.on("request", lambda request: streams.append(request.url) if request.url.endswith("/events") else None)
        await me.sign_in(service.key)
        await me.page.wait_for_function("() => document.querySelector('#connection').textContent === 'live'")
        http = await service.http()
        before: tuple[int, int] | None = None
        began, made, slowest, largest, cuts = monotonic(), 0, 0.0, 0, 0
        while (now := monotonic() - began) < SECONDS or cuts < 2:
            due = int(now * CALLS_A_SECOND) - made
            sent = [http.post("/v1/calls", json={"tool": "add", "arguments": {"a": 1, "b": 2}}) for _ in range(due)]
            assert all(answer.status_code == 200 for answer in await asyncio.gather(*sent))
            made += due
            asked = monotonic()
            largest = max(largest, await me.page.evaluate("document.querySelectorAll('#rows tr').length"))
            slowest = max(slowest, monotonic() - asked)
            if before is None and made > 2 * CALLS_A_SECOND:  # once the list is full
                before = await kept(me)
            if cuts < 2 and now > SECONDS * (cuts + 1) / 3 and await me.text("#connection") == "live":
                cuts += 1
                relay.refusing = cuts == 2  # once for a moment, once for longer than events are kept at this rate
                relay.cut()
                await me.page.wait_for_function(
                    "() => document.querySelector('#connection').textContent === 'not connected'"
                )
            elif relay.refusing and now > SECONDS * 5 / 6:
                relay.refusing = False
            await asyncio.sleep(0.1)
        relay.refusing = False
        assert made > SECONDS * CALLS_A_SECOND / 2
        await me.page.wait_for_function("() => document.querySelector('#connection').textContent === 'live'")
        newest = [[one.id, str(one.status)] for one in (await (await service.client()).calls(limit=ROWS)).calls]
        wanted = json.dumps(newest, separators=(",", ":"))
        await me.page.wait_for_function(f"wanted => JSON.stringify({LISTED}) === wanted", arg=wanted)
        assert cuts == 2
        assert len(streams) >= 3  # it connected again after each
        after = await kept(me)
        assert before is not None
        assert after[0] - before[0] < MOST_GROWTH, (before, after)
        assert after[1] < 2 * before[1], (before, after)
        print(f"{made} calls: {before} then {after}, slowest answer {slowest:.2f} s")
        assert largest <= ROWS + CALLS_A_SECOND  # between two looks at what is too many
        # The page is asked a question while it works through the flood; on an idle machine that takes milliseconds.
        assert slowest < 5.0
        assert me.faults == []
