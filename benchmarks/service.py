"""What the service costs over the same call in process, and over a bare route: `python benchmarks/service.py`.

A real `ferrule serve` on SQLite, or with `--database` on PostgreSQL, with keys, limits, audit and store, and beside it
a bare Starlette route that does `json.loads`, validates with pydantic and calls the same function, both behind uvicorn
with httptools, in the same run. Throughput is told per core from the CPU time that the server's process used, which a
busy machine changes less than the time on the clock. On a machine that is busy already, whoever uses much CPU waits for
it, and a flood makes any server do so: what the same flood does to the bare route says how much of that there is. Exits
with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, sleep

from _measure import Row, report

TOOLS = '''
"""One tool."""

from ferrule import tool


@tool(kind="readonly")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
BARE = """
import json, sys
import uvicorn
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route


class Add(BaseModel):
    a: int
    b: int


async def call(request):
    given = json.loads(await request.body())
    params = Add.model_validate(given["arguments"])
    return Response(json.dumps({"result": params.a + params.b}), media_type="application/json")


app = Starlette(routes=[Route("/v1/calls", call, methods=["POST"])])
server = uvicorn.Server(uvicorn.Config(app, port=int(sys.argv[1]), http="httptools", loop="asyncio",
                                       log_level="error"))
print("Listening on http://127.0.0.1:" + sys.argv[1], file=sys.stderr, flush=True)
server.run()
"""
BODY = json.dumps({"tool": "add", "arguments": {"a": 2, "b": 40}}).encode()
_OFF = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""An installed package has its bytecode: whoever starts the service does not compile it each time."""
TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A server as a process of its own."""

    def __init__(self, stack: ExitStack, folder: Path, command: list[str], environment: dict[str, str]) -> None:
        log = folder / f"{len(list(folder.iterdir()))}.log"
        began = perf_counter()
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
        stack.callback(self.process.wait)
        stack.callback(self.process.terminate)
        while (found := re.search(r"Listening on http://127.0.0.1:(\d+)", log.read_text())) is None:
            if self.process.poll() is not None:
                raise SystemExit(log.read_text())
            sleep(0.005)
        self.start_seconds = perf_counter() - began
        self.port = int(found[1])
        key = re.search(r"shown this once: (\S+)", log.read_text())
        self.key = key[1] if key else ""

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def start_cpu(self) -> float:
        return self.cpu

    @property
    def megabytes(self) -> float:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0


class Connection:
    """One keep-alive connection that sends the same request again and again, as cheaply as can be."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._request = (
            f"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
        ).encode() + BODY

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def call(self) -> bytes:
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # pyright: ignore[reportOptionalSubscript]
        body = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(body.decode())
        return body

    def close(self) -> None:
        self._writer.close()


async def latencies(port: int, key: str, count: int) -> list[float]:
    connection = Connection(port, key)
    await connection.open()
    for _ in range(50):
        await connection.call()
    taken: list[float] = []
    for _ in range(count):
        began = perf_counter()
        await connection.call()
        taken.append(perf_counter() - began)
    connection.close()
    return taken


async def cpu_per_call(served: Served, key: str, count: int, connections: int = 16) -> float:
    """Seconds of the server's CPU for one call, under load."""
    opened = [Connection(served.port, key) for _ in range(connections)]
    for one in opened:
        await one.open()

    async def work(one: Connection, times: int) -> None:
        for _ in range(times):
            await one.call()

    await asyncio.gather(*(work(one, 20) for one in opened))
    before = served.cpu
    await asyncio.gather(*(work(one, count // connections) for one in opened))
    used = served.cpu - before
    for one in opened:
        one.close()
    return used / (count // connections * connections)


def beside_a_flood(served: Served, calm: str, loud: str, count: int) -> tuple[float, float]:
    """A tenant's p99 alone, and while another tenant sends all it can: from a process of its own, or the answers of
    the one would wait in this process for those of the other.
    """
    alone = quantiles(asyncio.run(latencies(served.port, calm, count)), n=100)[98]
    flooding = subprocess.Popen([sys.executable, __file__, "--flood", str(served.port), "--key", loud])
    try:
        sleep(1.0)
        beside = quantiles(asyncio.run(latencies(served.port, calm, count)), n=100)[98]
        if flooding.poll() is not None:
            raise SystemExit("The flood has ended before its time.")
    finally:
        flooding.terminate()
        flooding.wait()
    return alone, beside


async def flood(port: int, key: str, connections: int = 32) -> None:
    """Send all that can be sent, until the process is ended."""

    async def go_on(one: Connection) -> None:
        await one.open()
        while True:
            await one.call()

    await asyncio.gather(*(go_on(Connection(port, key)) for _ in range(connections)))


async def in_process(folder: Path, count: int) -> list[float]:
    from ferrule import RulePolicy, Runtime, tool

    @tool(kind="readonly")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    runtime = Runtime([add], policy=RulePolicy(), own_loop=True)
    arguments = json.dumps({"a": 2, "b": 40})
    for _ in range(50):
        await runtime.run("add", arguments)
    taken: list[float] = []
    for _ in range(count):
        began = perf_counter()
        await runtime.run("add", arguments)
        taken.append(perf_counter() - began)
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--calls", type=int, default=6_000)
    parser.add_argument("--database", default="", help="a PostgreSQL URL instead of a SQLite file")
    parser.add_argument("--flood", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--key", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.flood:
        asyncio.run(flood(given.flood, given.key))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "tools").mkdir()
        (folder / "tools/adding.py").write_text(TOOLS)
        (folder / "bare.py").write_text(BARE)
        database = given.database or f"sqlite:///{folder / 'service.db'}"
        (folder / "config.toml").write_text(
            f"[tools]\nplugins = false\nfolders = ['{folder / 'tools'}']\n[service]\nport = 0\n"
            f"database = '{database}'\nworkspace_root = '{folder / 'workspaces'}'\n"
            "[service.limits]\nrate = 1000000\nconcurrency = 10000\n"  # counted, and never reached
        )
        environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith("FERRULE_") and name not in _OFF
            },
            "FERRULE_CONFIG": str(folder / "config.toml"),
            "FERRULE_DATA": str(folder / "data"),
        }
        ferrule = [sys.executable, "-m", "ferrule"]
        if given.database:
            subprocess.run([*ferrule, "serve", "migrate"], env=environment, cwd=folder, check=True)
        with ExitStack() as first:  # the start that leaves the bytecode behind
            Served(first, folder, [*ferrule, "serve", "--database", f"sqlite:///{folder / 'first.db'}"], environment)
        served = Served(stack, folder, [*ferrule, "serve"], environment)
        started = served.start_cpu
        keys: dict[str, str] = {}
        calm, loud = (f"{name}-{os.urandom(4).hex()}" for name in ("calm", "loud"))  # the database may not be empty
        for tenant in (calm, loud):
            for words in (
                ["tenants", "create", tenant],
                ["users", "create", "u", "--tenant", tenant],
                ["keys", "create", "u", "--tenant", tenant],
            ):
                done = subprocess.run([*ferrule, *words], env=environment, cwd=folder, capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(done.stderr)
                keys[tenant] = done.stdout.strip()
        bare = Served(stack, folder, [sys.executable, "bare.py", str(_free_port())], environment)
        sleep(1.0)
        count = given.calls
        over_http = asyncio.run(latencies(served.port, keys[calm], count // 4))
        inside = asyncio.run(in_process(folder, count // 4))
        bare_http = asyncio.run(latencies(bare.port, "", count // 4))
        own, of_bare = (
            asyncio.run(cpu_per_call(served, keys[calm], count)),
            asyncio.run(cpu_per_call(bare, "", count)),
        )
        alone, beside = beside_a_flood(served, keys[calm], keys[loud], count // 8)
        bare_alone, bare_beside = beside_a_flood(bare, "", "", count // 8)
        added = (median(over_http) - median(inside)) * 1e3
        rows = [
            Row("ready after", served.start_seconds, "s", 2.0, f"{started:.2f} s of CPU"),
            Row("memory after the calls", served.megabytes, "MB", 80.0),
            Row("p50 added over the call in process", added, "ms", 1.0,
                f"{median(over_http) * 1e3:.2f} ms against {median(inside) * 1e3:.2f}; "
                f"bare route {median(bare_http) * 1e3:.2f}"),
            Row("CPU of the server for one call", own * 1e6, "µs", 1e6 / 3000,
                f"{1 / own:,.0f} calls a second per core; bare route {of_bare * 1e6:.0f} µs, {own / of_bare:.1f}×"),
            Row("p99 beside a flooding tenant", beside / alone, "×", 2.0,
                f"{beside * 1e3:.1f} ms against {alone * 1e3:.1f}; bare route {bare_beside * 1e3:.1f} against "
                f"{bare_alone * 1e3:.1f}, {bare_beside / bare_alone:.1f}×"),
        ]  # fmt: skip
        return report(rows, as_json=given.json)


def _free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    raise SystemExit(main())
