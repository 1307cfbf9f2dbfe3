"""A cluster of three servers, of which one is killed and comes back under load: nothing acknowledged is lost (O6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferrule.core.call import RawCall
from ferrule.policy.decide import RulePolicy
from ferrule.remote.link import NatsLink
from ferrule.remote.server import ServerPlan, ServerUser
from ferrule.remote.wire import RemoteError
from tests.remote.places import Server, WorkerProcess, calling, free_port
from tests.remote.worker_program import TOOLS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
CALLS = 60


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Server]]:
    first = Server(tmp_path / "0")
    made = [first, *(Server(tmp_path / str(number), seed=first.key.seed) for number in (1, 2))]
    routes = [f"127.0.0.1:{free_port()}" for _ in made]
    for number, one in enumerate(made):
        one._config = ServerPlan(
            [ServerUser("all", one.key.public, (), ())],
            f"127.0.0.1:{one.port}",
            str(tmp_path / f"store-{number}"),
            f"node-{number}",
            routes,
            routes[number],
        ).text()
        one.start()
    yield made
    for one in made:
        one.stop()


async def prepared(urls: list[str], first: Server, pool: str) -> None:
    """What the pool needs, once the three have found each other."""
    link = NatsLink(first.key, 5.0)
    await link.open(urls, "setup")
    for _ in range(100):
        try:
            await link.prepare(pool, replicas=3)
            break
        except RemoteError:
            await asyncio.sleep(0.2)
    else:
        pytest.fail("the servers did not become a cluster")
    await link.close()


@pytest.mark.parametrize("victim", [0, 1, 2])
async def test_a_node_is_killed_and_comes_back_under_load(
    nodes: list[Server], tmp_path: Path, pool: str, victim: int
) -> None:
    urls = [one.url for one in nodes]
    await prepared(urls, nodes[0], pool)
    workers = [
        WorkerProcess(nodes[0], pool, tmp_path, url=",".join(urls), lease=5.0, replicas=3, concurrency=4)
        for _ in range(2)
    ]
    try:
        for one in workers:
            await asyncio.to_thread(one.await_ready)
        options = {"policy": RulePolicy(mode="bypass"), "url": urls, "lease": 5.0, "wait": 60.0}
        async with calling(nodes[0], pool, list(TOOLS), **options) as runtime:
            names = [f"call-{number}" for number in range(CALLS)]
            going = [
                asyncio.create_task(runtime.run(RawCall("once", {"name": name, "seconds": 0.1}))) for name in names
            ]
            while sum(one.done() for one in going) < CALLS // 6:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(nodes[victim].kill)
            while sum(one.done() for one in going) < CALLS // 2:
                await asyncio.sleep(0.02)
            await asyncio.to_thread(nodes[victim].start)
            results = await asyncio.gather(*going)
        assert [one.llm_content for one in results if not one.success] == []
        starts = [len((tmp_path / f"{name}.starts").read_text().splitlines()) for name in names]
        assert starts == [1] * CALLS
    finally:
        for one in workers:
            one.end()
