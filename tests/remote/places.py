"""Real parts for the tests of remote calls: servers, worker processes, a proxy that drops, and tools that count."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ferrule.core.tool import Tool
from ferrule.pipeline.run import Runtime
from ferrule.remote.caller import RemoteCalls
from ferrule.remote.link import NatsLink
from ferrule.remote.server import server_program
from ferrule.remote.wire import Nkey, new_seed
from ferrule.remote.worker import HERE, PoolWorker, WorkerOptions

SOURCE = Path(__file__).parents[2] / "src"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A `nats-server` on loopback, which can be killed and started again on what it has stored."""

    def __init__(self, folder: Path, config: str | None = None, seed: str | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.key = Nkey(seed or new_seed())
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Server:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "server.conf"
        config.write_text(
            self._config
            or f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: {json.dumps(str(self.folder / "store"))} }}\n'
            f"authorization {{ users: [ {{ nkey: {self.key.public} }} ] }}\n"
        )
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen([server_program(), "-c", str(config)], stdout=log, stderr=log)
        self.await_ready()
        return self

    def await_ready(self) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as one:
                one.settimeout(1)
                if b"INFO" in one.recv(4096):
                    return
            time.sleep(0.02)
        raise TimeoutError((self.folder / "server.log").read_text())

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()

    stop = kill


class WorkerProcess:
    """A worker in a process of its own, with the tools of `worker_program`; what goes wrong in it `fault` says."""

    def __init__(
        self,
        server: Server,
        pool: str,
        folder: Path,
        *,
        url: str = "",
        lease: float = 1.0,
        env: dict[str, str] | None = None,
        **fault: Any,
    ) -> None:
        given = {"pool": pool, "url": url or server.url, "seed": server.key.seed, "lease": lease, **fault}
        self.folder = folder
        with (folder / f"worker-{pool}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker_program.py")), json.dumps(given)],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def await_ready(self) -> WorkerProcess:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self._process.poll()
        return self

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    @property
    def ended(self) -> int | None:
        return self._process.poll()

    def end(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def start_caller(
    server: Server, pool: str, tool: str, arguments: dict[str, Any], *, env: dict[str, str] | None = None, **given: Any
) -> subprocess.Popen[bytes]:
    """A caller in a process of its own, which makes one call; `step` and `when` say where it dies."""
    root = str(SOURCE.parent)
    given |= {"pool": pool, "url": server.url, "seed": server.key.seed, "tool": tool, "arguments": arguments}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.remote.caller_program", json.dumps(given)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{root}", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


class Proxy:
    """Stands between a client and the server, and drops all that is sent while it is told to."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> Proxy:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def cut(self) -> None:
        """From now on nothing gets through, and nobody is told."""
        self._open.clear()

    def mend(self) -> None:
        """Let new connections through; those that were cut are closed."""
        for writer in list(self._writers):
            writer.close()
        self._open.set()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open.is_set():
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        with suppress(Exception):
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        for one in (writer, back):
            self._writers.discard(one)
            one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self._open.is_set():
                writer.write(data)
                await writer.drain()
        writer.close()

    async def close(self) -> None:
        for writer in list(self._writers):
            writer.close()
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0.1)  # what was cut off is closed by then


def calls_to(server: Server, pool: str, **options: Any) -> RemoteCalls:
    given: dict[str, Any] = {"pools": {pool: ["*"]}, "lease": 5.0, "wait": 20.0, "queue": 60.0, **options}
    return RemoteCalls(given.pop("url", server.url), given.pop("key", server.key), **given)


@asynccontextmanager
async def working(
    server: Server, pool: str, tools: Sequence[Tool[Any]], *, key: Nkey | None = None, **options: Any
) -> AsyncGenerator[PoolWorker]:
    """A worker in this very process."""
    link = NatsLink(key or server.key, options.pop("lease", 5.0))
    runtime = options.pop("runtime", None) or Runtime(tools, remote=HERE)
    made: list[PoolWorker] = []
    await link.open(
        [options.pop("url", server.url)],
        "worker",
        ca=options.pop("ca", None),
        reconnected=lambda: [one.reconnected() for one in made],
    )
    worker = PoolWorker(link, runtime, tools, WorkerOptions(pool, drain=5.0, **options))
    made.append(worker)
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(worker.serve(stop, ready.set))
    try:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            waiting.cancel()
            task.result()
        yield worker
    finally:
        stop.set()
        try:
            await task
        finally:
            await link.close()


@asynccontextmanager
async def calling(server: Server, pool: str, tools: Sequence[Tool[Any]], **options: Any) -> AsyncGenerator[Runtime]:
    """A runtime whose tools run on the workers of a pool."""
    names = {name: options.pop(name) for name in ("policy", "session", "ask", "recorders") if name in options}
    remote = calls_to(server, pool, **options)
    try:
        yield Runtime(tools, remote=remote, **names)
    finally:
        await remote.close()


@asynccontextmanager
async def listening(server: Server, subject: str) -> AsyncGenerator[tuple[NatsLink, list[Any]]]:
    """All messages on a subject, as a spy would have them."""
    link, seen = NatsLink(server.key, 5.0), list[Any]()
    await link.open([server.url], "spy")

    async def keep(message: Any) -> None:
        seen.append(message)

    await link.connection.subscribe(subject, cb=keep)
    await link.connection.flush()
    yield link, seen
    await link.close()
