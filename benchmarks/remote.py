"""Calls on other machines: against the same call in process, and against a bare request and reply through the server.

`python benchmarks/remote.py` starts a `nats-server` and worker processes on this machine, prints a table and exits with
1 when a bar is missed. The machine is shared by all of them, so calls a second say what one core and a half can do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from _measure import Row, Time, report
from ferrule import Runtime, tool
from ferrule.core.call import Limits, RawCall
from ferrule.core.events import PartialOutput
from ferrule.remote.caller import RemoteCalls
from ferrule.remote.link import NatsLink
from ferrule.remote.roster import pool_counts
from ferrule.remote.server import DevServer
from ferrule.remote.wire import Nkey, RemoteError, read_key
from ferrule.remote.worker import HERE, PoolWorker, WorkerOptions

AT_ONCE = 64
LEASE = 10.0
TEXT = "x" * 300
BLOCK = 0.04
LEAST = 9


@tool(kind="readonly")
async def echo(text: str) -> str:
    """Give a text back. Use this to measure."""
    return text


@tool(kind="readonly")
async def ticks(count: int) -> Any:
    """Stream the time. Use this to measure how late it comes."""
    for _ in range(count):
        await asyncio.sleep(0.005)
        yield f"{perf_counter()} "


RELEASED = asyncio.Event()


@tool(kind="readonly")
async def hold() -> str:
    """Keep a worker busy until it is released. Use this to let calls queue."""
    await RELEASED.wait()
    return ""


TOOLS = [echo, ticks, hold]


async def serve(given: dict[str, Any]) -> None:
    """A worker, or what answers the bare requests, in a process of its own."""
    link = NatsLink(Nkey(given["seed"]), LEASE)
    await link.open([given["url"]], "bench")
    if given["bare"]:

        async def answer(message: Any) -> None:
            await link.connection.publish(message.reply, message.data)

        await link.connection.subscribe("bare.echo", cb=answer)
        await link.connection.flush()
        print("ready", flush=True)
        await asyncio.Event().wait()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, RELEASED.set)
    options = WorkerOptions(given["pool"], concurrency=AT_ONCE)
    await PoolWorker(link, Runtime(TOOLS, remote=HERE), TOOLS, options).serve(
        asyncio.Event(), lambda: print("ready", flush=True)
    )


def cpu_of_process(pid: int) -> float:
    """Seconds of CPU so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Helper:
    """One of those processes."""

    def __init__(self, url: str, seed: str, pool: str, *, bare: bool = False) -> None:
        given = json.dumps({"url": url, "seed": seed, "pool": pool, "bare": bare})
        command = [sys.executable, __file__, "--serve", given]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    @property
    def cpu(self) -> float:
        return cpu_of_process(self.process.pid)

    @property
    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


async def by_turns(works: dict[str, Any], rounds: int) -> dict[str, Time]:
    """The p50 of each, in blocks of the same time that take turns: that of its calmest block, and that of all.

    Other programs on the machine can only add to a block, so the calmest says most of the work itself.
    """
    taken: dict[str, list[list[float]]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            await asyncio.sleep(0.01)  # until the others have done what they do after an answer
            block: list[float] = []
            until = perf_counter() + BLOCK
            while (began := perf_counter()) < until or len(block) < LEAST:
                await work()
                block.append(perf_counter() - began)
            taken[name].append(block)
    return {
        name: Time(min(map(median, blocks)), median(one for block in blocks for one in block))
        for name, blocks in taken.items()
    }


async def a_second(work: Any, count: int) -> float:
    """How many of them, so many at once."""
    left = iter(range(count))

    async def lane() -> None:
        for _ in left:
            await work()

    began = perf_counter()
    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))
    return count / (perf_counter() - began)


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@dataclass(slots=True)
class Drained:
    """What so many calls came to that all waited in the server before the first was begun."""

    call: float
    """CPU milliseconds of caller, worker and server, for each."""
    taken: float
    """Those from when the worker began."""
    worker: float
    """Megabytes of the worker afterwards."""
    most: float
    """Megabytes of the caller at most."""


async def drained(url: str, key: Nkey, server: int, many: int) -> Drained:
    """Hand calls to a worker that is busy, and let it go on when all of them wait."""
    pool = f"q{uuid.uuid4().hex[:8]}"
    helper = Helper(url, key.seed, pool)
    remote = RemoteCalls(url, key, pools={pool: ["*"]}, lease=LEASE, queue=1200)
    runtime = Runtime(TOOLS, remote=remote, limits=Limits(timeout=1200))

    def spent() -> float:
        return own_cpu() + helper.cpu + cpu_of_process(server)

    try:
        await runtime.run("echo", {"text": "x"})
        held = [asyncio.create_task(runtime.run("hold", {})) for _ in range(AT_ONCE)]
        await _pending(remote, pool, 0)
        began = spent()
        going: list[asyncio.Task[None]] = []
        for number in range(many):
            going.append(asyncio.create_task(_one(runtime, number)))
            if number % 100 == 0:
                await asyncio.sleep(0)  # a program that never does lets its running calls be taken for abandoned
        await _pending(remote, pool, many)
        queued = spent()
        helper.process.send_signal(signal.SIGUSR1)
        await asyncio.gather(*held, *going)
        ended = spent()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return Drained((ended - began) / many * 1e3, (ended - queued) / many * 1e3, helper.megabytes, most)
    finally:
        await remote.close()
        helper.end()


async def _pending(remote: RemoteCalls, pool: str, many: int) -> None:
    """Until so many calls wait in the server, and the worker's places are taken."""
    desk = await remote.desk()
    counts: dict[str, int] = {}
    while (counts.get("in_flight"), counts.get("pending")) != (AT_ONCE, many):
        await asyncio.sleep(0.2)
        with suppress(RemoteError):
            counts = await pool_counts(desk.link, pool)


async def stream_lag(runtime: Runtime, count: int) -> float:
    """Seconds from when a tool shows something to when the caller has it, p50."""
    late: list[float] = []
    async for event in runtime.stream(RawCall("ticks", {"count": count})):
        if isinstance(event, PartialOutput):
            late.append(perf_counter() - float(str(event.content)))
    assert len(late) == count
    return median(late)


async def _one(runtime: Runtime, number: int) -> None:
    result = await runtime.run(RawCall("echo", {"text": f"call {number}"}))
    assert result.success, result.llm_content


async def measure(*, quick: bool) -> list[Row]:
    rows: list[Row] = []
    count = 300 if quick else 2000
    with tempfile.TemporaryDirectory() as folder:
        server = DevServer(_free(), Path(folder))
        await server.start()
        key = read_key(server.key_file)
        helpers: list[Helper] = []
        try:
            here = Runtime([echo])
            helpers.append(Helper(server.url, key.seed, "", bare=True))
            link = NatsLink(key, LEASE)
            await link.open([server.url], "bench")
            remote = RemoteCalls(server.url, key, pools={"bench": ["*"]}, lease=LEASE)
            runtime = Runtime(TOOLS, remote=remote)

            def bare() -> Any:
                return link.connection.request("bare.echo", TEXT.encode(), timeout=5)

            def call() -> Any:
                return runtime.run("echo", {"text": TEXT})

            def cpu() -> list[float]:
                return [own_cpu(), sum(one.cpu for one in helpers), cpu_of_process(server.pid)]

            spent = sum(cpu())
            bare_rate = await a_second(bare, 4 * count)
            bare_cpu = (sum(cpu()) - spent) / (4 * count) * 1e3
            rows.append(Row("CPU of a bare request", bare_cpu, "ms", None, "both sides and the server"))
            for workers in (1, 2, 4):
                while len(helpers) - 1 < workers:
                    helpers.append(Helper(server.url, key.seed, "bench"))
                for _ in range(20):
                    await call()
                taken = await by_turns(
                    {"bare": bare, "call": call, "here": lambda: here.run("echo", {"text": TEXT})}, count // 10
                )
                one, other = taken["call"], taken["bare"]
                note = f"{one.best * 1e3:.2f} ms against {other.best * 1e3:.2f} ms; in process "
                note += f"{taken['here'].best * 1e6:.0f} µs"
                bar = 5.0 if workers == 1 else None
                name = f"p50 of a call, {workers} workers, against a bare request"
                rows.append(Row(name, one.best / other.best, "×", bar, note))
                note = f"{one.median * 1e3:.2f} ms against {other.median * 1e3:.2f} ms"
                rows.append(
                    Row("the same over the whole run, beside what else ran", one.median / other.median, "×", None, note)
                )
                before = cpu()
                rate = await a_second(call, count)
                rows.append(Row(f"calls a second, {workers} workers", rate, "/s", None, f"bare: {bare_rate:,.0f}"))
                each_ms = [(after - was) / count * 1e3 for was, after in zip(before, cpu(), strict=True)]
                note = "caller {:.2f}, worker {:.2f}, server {:.2f}".format(*each_ms)
                rows.append(Row(f"CPU a call, {workers} workers", sum(each_ms), "ms", None, note))
            lag = await stream_lag(runtime, count // 4)
            rows.append(Row("how late streamed output comes, p50", lag * 1e3, "ms"))
            await link.close()
            await remote.close()
            for one in helpers:
                one.end()
            few, many = (200, 4000) if quick else (1000, 100_000)
            small = await drained(server.url, key, server.pid, few)
            large = await drained(server.url, key, server.pid, many)
            note = f"CPU of caller, worker and server: {large.call:.2f} ms against {small.call:.2f} ms"
            rows.append(
                Row(f"a call of {many:,} queued, against one of {few:,}", large.call / small.call, "×", 1.5, note)
            )
            note = f"{large.taken:.2f} ms against {small.taken:.2f} ms"
            rows.append(Row("the same from when the worker takes them", large.taken / small.taken, "×", 1.5, note))
            rows.append(
                Row("the worker's memory after them", large.worker, "MB", 150.0, f"{small.worker:.0f} MB before")
            )
            kept = (large.most - small.most) * 1024 / (many - few)
            rows.append(
                Row("the caller's memory for each queued call", kept, "KB", 40.0, f"{large.most:.0f} MB in all")
            )
        finally:
            for one in helpers:
                one.end()
            await server.stop()
    return rows


def _free() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(json.loads(given.serve)))
        return 0
    return report(asyncio.run(measure(quick=given.quick)), as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
