"""Programs are killed, stopped and cut off at each step of a call: it is started once at most, and ends once (O6).

The tools themselves count their starts, in files.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.call import RawCall
from ferrule.core.result import ToolResult
from ferrule.pipeline.run import Runtime
from ferrule.policy.decide import RulePolicy
from ferrule.remote.link import DONE, Claim, NatsLink
from ferrule.remote.roster import pool_counts
from ferrule.remote.wire import RemoteCall, read_call, unseal, unsigned
from tests.needs import needs
from tests.remote.places import Proxy, Server, WorkerProcess, calling, start_caller
from tests.remote.worker_program import STEPS, TOOLS

pytestmark = [
    pytest.mark.slow,
    # The NATS client leaves the sockets of failed attempts to connect to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

LEASE = 2.0
PLACES = [(step, when) for step in STEPS for when in ("before", "after")]
FREE: dict[str, Any] = {"policy": RulePolicy(mode="bypass"), "lease": LEASE, "wait": 60.0}


@pytest.fixture
def workers() -> Iterator[list[WorkerProcess]]:
    made: list[WorkerProcess] = []
    yield made
    for one in made:
        one.end()


def starts(folder: Path, name: str) -> int:
    file = folder / f"{name}.starts"
    return len(file.read_text().splitlines()) if file.exists() else 0


def is_lost(result: ToolResult) -> bool:
    lost = result.error is not None and bool((result.error.details or {}).get("lost"))
    assert ("is lost" in result.llm_content) == lost
    return lost


async def ready(workers: list[WorkerProcess]) -> None:
    await asyncio.gather(*(asyncio.to_thread(one.await_ready) for one in workers))


async def both_calls(runtime: Runtime, name: str, seconds: float = 0.3) -> list[ToolResult]:
    """One call that may be run once alone, and one that may be run again."""
    arguments = {"seconds": seconds}
    return list(
        await asyncio.gather(
            runtime.run(RawCall("once", {"name": f"{name}-once", **arguments})),
            runtime.run(RawCall("again", {"name": f"{name}-again", **arguments})),
        )
    )


def judge(folder: Path, name: str, results: list[ToolResult], *, again_succeeds: bool = True) -> None:
    once, again = results
    assert starts(folder, f"{name}-once") <= 1, name
    assert once.success or is_lost(once) or "was not run" in once.llm_content, (name, once.llm_content)
    if once.success:
        assert starts(folder, f"{name}-once") == 1, name
    if "was not run" in once.llm_content:
        assert starts(folder, f"{name}-once") == 0, name
    assert again.success or not again_succeeds, (name, again.llm_content)


@pytest.mark.parametrize("fault", ["kill", "stop"])
async def test_a_worker_dies_or_stands_still_at_each_step(
    server: Server, tmp_path: Path, workers: list[WorkerProcess], fault: str
) -> None:
    """Another worker of the pool is there: what may be run again succeeds, and nothing else starts twice."""
    faulty = [
        WorkerProcess(server, f"{fault}-{step}-{when}", tmp_path, lease=LEASE, fault=fault, step=step, when=when,
                      concurrency=1)
        for step, when in PLACES
    ]  # fmt: skip
    workers += faulty
    await ready(faulty)

    async def scenario(step: str, when: str, first: WorkerProcess) -> None:
        pool = f"{fault}-{step}-{when}"
        async with calling(server, pool, list(TOOLS), **FREE) as runtime:
            going = asyncio.create_task(both_calls(runtime, pool))
            until = asyncio.get_running_loop().time() + 30
            while not (tmp_path / f"struck-{first.pid}").exists() and asyncio.get_running_loop().time() < until:
                await asyncio.sleep(0.02)
            second = WorkerProcess(server, pool, tmp_path, lease=LEASE)
            workers.append(second)
            await asyncio.to_thread(second.await_ready)
            if fault == "stop":
                await asyncio.sleep(1.5 * LEASE)
                first.signal(signal.SIGCONT)
            results = await going
            if fault == "stop":
                await asyncio.sleep(LEASE)  # what the first one still does must change nothing
            judge(tmp_path, pool, results)
            assert (tmp_path / f"struck-{first.pid}").exists(), pool

    for start in range(0, len(PLACES), 4):
        chosen = list(zip(PLACES, faulty, strict=True))[start : start + 4]
        await asyncio.gather(*(scenario(*place, one) for place, one in chosen))


async def test_without_another_worker_a_lost_call_is_said_to_be_lost(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    workers.append(WorkerProcess(server, pool, tmp_path, lease=LEASE))
    await ready(workers)
    async with calling(server, pool, list(TOOLS), **FREE) as runtime:
        going = asyncio.create_task(runtime.run("die_once", {"name": "poison"}))
        result = await going
    assert is_lost(result)
    assert result.llm_content.endswith("Suggestion: It may have run. Check whether it is done before you do it again.")
    assert starts(tmp_path, "poison") == 1


async def test_a_call_that_may_be_run_again_waits_for_a_worker_that_is_busy(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    workers.append(WorkerProcess(server, pool, tmp_path, lease=LEASE, concurrency=1))
    await ready(workers)
    async with calling(server, pool, list(TOOLS), **FREE) as runtime:
        again = asyncio.create_task(runtime.run("again", {"name": "again", "seconds": 0.5}))
        while not starts(tmp_path, "again"):
            await asyncio.sleep(0.02)
        workers[0].signal(signal.SIGSTOP)
        workers.append(WorkerProcess(server, pool, tmp_path, lease=LEASE, concurrency=1))
        await asyncio.to_thread(workers[1].await_ready)
        busy = asyncio.create_task(runtime.run("once", {"name": "busy", "seconds": 4 * LEASE}))
        workers[0].signal(signal.SIGKILL)
        assert (await again).llm_content == "did again"
        assert (await busy).success
    assert [starts(tmp_path, name) for name in ("again", "busy")] == [2, 1]


async def test_a_poisoned_call_is_given_up(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    workers += [WorkerProcess(server, pool, tmp_path, lease=LEASE) for _ in range(4)]
    await ready(workers)
    async with calling(server, pool, list(TOOLS), **FREE) as runtime:
        result = await runtime.run("die", {"name": "three"})
    assert starts(tmp_path, "three") == 3
    assert "given up: each of 3 workers that began it died" in result.llm_content


async def test_the_server_is_killed_at_each_step(tmp_path: Path, workers: list[WorkerProcess]) -> None:
    async def scenario(step: str, when: str) -> None:
        name = f"server-{step}-{when}"
        own = Server(tmp_path / name).start()
        worker = WorkerProcess(own, name, tmp_path, lease=LEASE, fault="server", step=step, when=when,
                               server_pid=own.pid)  # fmt: skip
        workers.append(worker)
        try:
            await asyncio.to_thread(worker.await_ready)
            async with calling(own, name, list(TOOLS), **FREE) as runtime:
                going = asyncio.create_task(both_calls(runtime, name))
                while not (tmp_path / f"struck-{worker.pid}").exists() and not going.done():
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.3)
                own.kill()
                await asyncio.to_thread(own.start)
                judge(tmp_path, name, await going, again_succeeds=False)
        finally:
            worker.end()
            own.stop()

    for start in range(0, len(PLACES), 4):
        await asyncio.gather(*(scenario(*place) for place in PLACES[start : start + 4]))


async def test_a_caller_is_killed_at_each_step(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    """What nobody waits for is not begun, or stopped; and the next caller is served."""
    workers.append(WorkerProcess(server, pool, tmp_path, lease=LEASE))
    await ready(workers)
    for step in ("hint", "call"):
        for when in ("before", "after"):
            name = f"{step}-{when}"
            caller = start_caller(server, pool, "once", {"name": name}, lease=LEASE, step=step, when=when)
            _, errors = await asyncio.to_thread(caller.communicate)
            assert caller.returncode == -signal.SIGKILL, errors.decode()
    async with calling(server, pool, list(TOOLS), **FREE) as runtime:
        assert (await runtime.run("once", {"name": "next"})).success
    for name in ("hint-before", "hint-after", "call-before", "call-after"):
        assert starts(tmp_path, name) <= 1
    assert starts(tmp_path, "call-before") == 0


async def test_a_worker_that_is_cut_off_stops_its_tool(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    proxy = await Proxy(server.port).start()
    workers.append(WorkerProcess(server, pool, tmp_path, url=proxy.url, lease=LEASE))
    await ready(workers)
    async with calling(server, pool, list(TOOLS), **FREE) as runtime:
        going = asyncio.create_task(runtime.run("child", {"name": "cut"}))
        while not (tmp_path / "cut.pid").exists():
            await asyncio.sleep(0.02)
        proxy.cut()
        result = await going
        assert is_lost(result)
        pid = int((tmp_path / "cut.pid").read_text())
        for _ in range(500):
            if not Path(f"/proc/{pid}").exists():
                break
            await asyncio.sleep(0.02)
        assert not Path(f"/proc/{pid}").exists()
        proxy.mend()
        assert (await runtime.run("once", {"name": "mended"})).success
    assert starts(tmp_path, "cut") == 1
    await proxy.close()


async def test_a_caller_that_is_cut_off_ends_its_calls_and_nothing_goes_on(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    proxy = await Proxy(server.port).start()
    workers.append(WorkerProcess(server, pool, tmp_path, lease=LEASE))
    await ready(workers)
    async with calling(server, pool, list(TOOLS), url=proxy.url, **FREE) as runtime:
        going = asyncio.create_task(runtime.run("child", {"name": "cut"}))
        while not (tmp_path / "cut.pid").exists():
            await asyncio.sleep(0.02)
        proxy.cut()
        assert is_lost(await going)
        pid = int((tmp_path / "cut.pid").read_text())
        for _ in range(1000):
            if not Path(f"/proc/{pid}").exists():
                break
            await asyncio.sleep(0.02)
        assert not Path(f"/proc/{pid}").exists()
    await proxy.close()


async def test_cancelling_kills_the_process_at_the_worker(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    workers.append(WorkerProcess(server, pool, tmp_path, lease=LEASE))
    await ready(workers)
    async with calling(server, pool, list(TOOLS), **FREE) as runtime:
        going = asyncio.create_task(runtime.run(RawCall("child", {"name": "held"}, id="held")))
        while not (tmp_path / "held.pid").exists():
            await asyncio.sleep(0.02)
        runtime.cancel("held")
        result = await going
    assert result.error is not None
    assert result.error.kind == "cancelled_error"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "held.pid").read_text()), 0)


async def test_a_caller_is_killed_while_its_call_runs(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    """What it started is stopped, and what ends by itself keeps its result; neither starts again, at any worker."""
    workers += [WorkerProcess(server, pool, tmp_path, lease=LEASE) for _ in range(2)]
    await ready(workers)
    link, sent = NatsLink(server.key, LEASE), list[RemoteCall]()
    await link.open([server.url], "listener")

    async def keep(message: Any) -> None:
        sent.append(read_call(unsigned(message.data)))

    await link.connection.subscribe(f"call.{pool}.>", cb=keep)
    await link.connection.flush()
    callers = [
        start_caller(server, pool, "child", {"name": "long"}, lease=LEASE),
        start_caller(server, pool, "once", {"name": "short", "seconds": 0.6}, lease=LEASE),
    ]
    while not (starts(tmp_path, "long") and starts(tmp_path, "short") and (tmp_path / "long.pid").exists()):
        await asyncio.sleep(0.02)
    for caller in callers:
        caller.kill()
        caller.communicate()
    claims: dict[str, Claim | None] = {}
    for _ in range(1000):
        claims = {one.tool: await link.claim(pool, one.key) for one in sent}
        if all(one is not None and one.state == DONE for one in claims.values()):
            break
        await asyncio.sleep(0.02)
    said = {one.tool: unseal(one.secret, claim.data) for one in sent if (claim := claims[one.tool]) is not None}
    assert said["once"] is not None
    assert said["child"] is not None
    assert said["once"]["result"]["llm"] == "did short"
    assert "`child` did not finish: its caller is gone." in said["child"]["result"]["llm"]
    assert not Path(f"/proc/{(tmp_path / 'long.pid').read_text()}").exists()
    await asyncio.sleep(1.5 * LEASE)  # the queue would have given it to the other worker by now
    assert [starts(tmp_path, name) for name in ("long", "short")] == [1, 1]
    assert (await pool_counts(link, pool)) == {"pending": 0, "in_flight": 0, "lost": 0}
    await link.close()


SHIFT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) { return atol(getenv("CLOCK_SHIFT")); }

int clock_gettime(clockid_t id, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, at);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += shift();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture(scope="session")
def clock_shift(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What shifts the wall clock of a whole process, whatever in it looks."""
    needs(shutil.which("cc"), "a C compiler")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "shift.c").write_text(SHIFT)
    command = ["cc", "-shared", "-fPIC", "-o", "shift.so", "shift.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "shift.so"


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.parametrize("shifted", ["worker", "caller"])
async def test_a_clock_that_is_an_hour_off_changes_nothing(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess], clock_shift: Path, shifted: str, hours: int
) -> None:
    wrong = {"LD_PRELOAD": str(clock_shift), "CLOCK_SHIFT": str(hours * 3600)}
    workers.append(WorkerProcess(server, pool, tmp_path, lease=LEASE, env=wrong if shifted == "worker" else None))
    await ready(workers)

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        env = wrong if shifted == "caller" else None
        caller = start_caller(server, pool, tool, arguments, lease=LEASE, env=env)
        said, errors = await asyncio.to_thread(caller.communicate)
        assert caller.returncode == 0, errors.decode()
        return json.loads(said.splitlines()[-1])

    clocks = await call("now")
    apart = (clocks["data"] - clocks["clock"]) * (1 if shifted == "worker" else -1)
    assert abs(apart - hours * 3600) < 60, "the clock is really off"
    longer = 3 * LEASE  # than any silence that would make it lost
    said = [
        one["said"] for one in await asyncio.gather(call("once", name="long", seconds=longer), call("again", name="x"))
    ]
    assert said == ["did long", "did x"]
    assert [starts(tmp_path, name) for name in ("long", "x")] == [1, 1]


async def test_calls_that_come_twice_and_in_another_order_start_once(
    server: Server, pool: str, tmp_path: Path, workers: list[WorkerProcess]
) -> None:
    workers += [WorkerProcess(server, pool, tmp_path, lease=LEASE) for _ in range(2)]
    await ready(workers)
    seen: list[Any] = []
    link = NatsLink(server.key, LEASE)
    await link.open([server.url], "listener")

    async def keep(message: Any) -> None:
        seen.append(message)

    await link.connection.subscribe(f"call.{pool}.>", cb=keep)
    async with calling(server, pool, list(TOOLS), **FREE) as runtime:
        names = [f"dup-{number}" for number in range(6)]
        going = [asyncio.create_task(runtime.run("once", {"name": name, "seconds": 0.2})) for name in names]
        while len(seen) < len(names):
            await asyncio.sleep(0.01)
        results: list[ToolResult] = []
        for _ in range(2):  # while they run, and after they have ended
            for message in reversed(seen[: len(names)]):
                headers = {name: value for name, value in message.headers.items() if name != "Nats-Msg-Id"}
                with suppress(Exception):
                    await link.connection.request(message.subject, message.data, headers=headers, timeout=5)
            results = await asyncio.gather(*going)
        await asyncio.sleep(1.0)
    await link.close()
    assert all(one.success for one in results)
    assert [starts(tmp_path, name) for name in names] == [1] * len(names)
