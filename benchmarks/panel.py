"""How the panel's first page grows with what is stored: `python benchmarks/panel.py [CALLS]`.

Prints the time until the list of calls is painted in Chromium, with an empty store, with as many calls as the page
shows and with 100,000, as the middle of several visits each, and how they compare. The bar is 1.5.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
from contextlib import AsyncExitStack, closing
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.panel.browser import Visitor

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
VISITS = 15
PAUSE = 0.5
PAGE = 25
"""Calls that fill the first page: with more there is no more to paint."""
PAINT = """() => new Promise(found => new PerformanceObserver(list => found(
    list.getEntriesByName('first-contentful-paint')[0].startTime)).observe({type: 'paint', buffered: true}))"""
SENT = "performance.getEntriesByType('navigation')[0].responseEnd"


def fill(store: Path, calls: int) -> None:
    """Calls of the last week, as they are stored."""
    from ferrule.service.documents import new_id

    result = json.dumps({"success": True, "llm_content": "3", "display_content": "3", "data": 3, "error": None,
                         "metadata": {"tool": "add"}})  # fmt: skip
    with closing(sqlite3.connect(store, timeout=60)) as connection, connection:
        now = time()
        names = [one[1] for one in connection.execute("PRAGMA table_info(calls)")]
        rows = []
        for number in range(calls):
            at = now - 7 * 86_400 * (1 - number / calls)
            row = {
                "tenant": "default", "id": f"{int(at * 1000):012x}{new_id()[12:]}", "user": "admin", "key": "k",
                "tool": "add", "version": "1", "pinned": None, "arguments": '{"a": 1, "b": 2}', "status": "succeeded",
                "repeatable": 1, "attempts": 1, "session": None, "timeout": None, "batch": None, "position": 0,
                "approval": None, "metadata": "{}", "request": "r", "result": result, "cost": 0.0, "started_seq": 2,
                "last_seq": 3, "cancelling": 0, "created": at, "started": at, "finished": at + 0.01, "scopes": None,
                "trace": None,
            }  # fmt: skip
            rows.append([row[name] for name in names])
        connection.executemany(f"INSERT INTO calls VALUES ({', '.join('?' * len(names))})", rows)


async def measured(amounts: Sequence[int]) -> list[tuple[float, float]]:
    """Milliseconds until the first paint, and until the whole page has come, of a service with so many calls each.

    They take turns, each after a pause: what a page still does after its paint is not the next one's.
    """
    from tests.panel.browser import chromium, visitor
    from tests.panel.served import shown

    folders = [Path(tempfile.mkdtemp()) for _ in amounts]
    try:
        async with AsyncExitStack() as open_:
            browser = await open_.enter_async_context(chromium())
            visitors: list[Visitor] = []
            for folder, calls in zip(folders, amounts, strict=True):
                os.environ["FERRULE_DATA"], os.environ["FERRULE_CONFIG"] = str(folder / "data"), "/dev/null"
                service = await open_.enter_async_context(shown(folder))
                if calls:
                    await asyncio.to_thread(fill, folder / "s.db", calls)
                visitors.append(await visitor(browser, service.url))
                await visitors[-1].sign_in(service.key)
            painted: list[list[float]] = [[] for _ in amounts]
            sent: list[list[float]] = [[] for _ in amounts]
            for _ in range(VISITS):
                for at, me in enumerate(visitors):
                    await asyncio.sleep(PAUSE)
                    await me.open("/")
                    painted[at].append(await me.page.evaluate(PAINT))
                    sent[at].append(await me.page.evaluate(SENT))
            return [
                (statistics.median(one), statistics.median(other)) for one, other in zip(painted, sent, strict=True)
            ]
    finally:
        for folder in folders:
            shutil.rmtree(folder)


async def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    empty, page, full = await measured([0, PAGE, calls])
    for at, what in enumerate(("first paint", "page sent  ")):
        print(
            f"{what}: empty {empty[at]:.0f} ms, {PAGE} calls {page[at]:.0f} ms, {calls:,} calls {full[at]:.0f} ms; "
            f"ratio to empty {full[at] / empty[at]:.2f}, to one page {full[at] / page[at]:.2f}"
        )


if __name__ == "__main__":
    asyncio.run(main())
