"""A worker for the tests, in a process of its own: its tools count their starts, and faults come as they are told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ferrule import tool
from ferrule.core.context import ToolContext
from ferrule.pipeline.run import Runtime
from ferrule.remote.link import NatsLink
from ferrule.remote.wire import Nkey
from ferrule.remote.worker import HERE, PoolWorker, WorkerOptions


def count_start(name: str) -> None:
    """One line for each start, from whatever process."""
    descriptor = os.open(f"{name}.starts", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"%d\n" % os.getpid())
    os.close(descriptor)


@tool(kind="write")
async def once(name: str, seconds: float = 0.0) -> str:
    """Start, be counted, and take some time. Use this to count starts."""
    count_start(name)
    await asyncio.sleep(seconds)
    return f"did {name}"


@tool(kind="write", idempotent=True)
async def again(name: str, seconds: float = 0.0) -> str:
    """The same, and it may be run again. Use this to count starts."""
    count_start(name)
    await asyncio.sleep(seconds)
    return f"did {name}"


@tool(kind="write", idempotent=True)
def die(name: str) -> str:
    """End the worker, each time. Use this to poison it."""
    count_start(name)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(kind="write")
def die_once(name: str) -> str:
    """End the worker. Use this to poison it."""
    count_start(name)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(kind="execute")
def child(name: str, context: ToolContext) -> str:
    """Start a process and wait for it. Use this to see it end."""
    count_start(name)
    process = subprocess.Popen(["sleep", "300"])
    Path(f"{name}.pid").write_text(str(process.pid))
    try:
        while process.poll() is None and not context.cancellation.wait(0.01):
            pass
    finally:
        process.kill()
        process.wait()
    return "ended"


@tool(kind="readonly")
def now() -> float:
    """Say what time it is by this machine's clock. Use this to see how far it is off."""
    return time.time()


TOOLS = [once, again, die, die_once, child, now]
STEPS = ("there", "claim", "finish", "ack")
"""What a worker sends for one call, in order; each is a step at which something can go wrong."""


def step_of(subject: str, payload: bytes) -> str | None:
    if subject.startswith("reply."):
        return "there" if subject.endswith("._") else None
    if subject.startswith("$KV."):
        return {b"R": "claim", b"D": "finish"}.get(payload[:1])
    if subject.startswith("$JS.ACK"):
        return "ack" if payload == b"+ACK" else None
    return None


def arm(fault: str, step: str, when: str, server_pid: int) -> None:
    """Have a fault come before or after a step, the first time that it is reached."""
    spent: list[str] = []

    def strike(subject: str, payload: bytes, now: str) -> None:
        if spent or now != when or step_of(subject, payload) != step:
            return
        spent.append(step)
        Path(f"struck-{os.getpid()}").touch()
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "server":
            os.kill(server_pid, signal.SIGKILL)

    ask, tell = NatsLink.ask, NatsLink.tell

    async def striking_ask(self: NatsLink, subject: str, payload: bytes = b"", *more: Any, **named: Any) -> Any:
        strike(subject, payload, "before")
        answer = await ask(self, subject, payload, *more, **named)
        strike(subject, payload, "after")
        return answer

    async def striking_tell(self: NatsLink, subject: str, payload: bytes, *more: Any, **named: Any) -> None:
        strike(subject, payload, "before")
        await tell(self, subject, payload, *more, **named)
        if when == "after":
            await self.connection.flush()
        strike(subject, payload, "after")

    NatsLink.ask, NatsLink.tell = striking_ask, striking_tell  # type: ignore[method-assign]


async def main(given: dict[str, Any]) -> None:
    if given.get("fault"):
        arm(given["fault"], given["step"], given["when"], given.get("server_pid", 0))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    link = NatsLink(Nkey(given["seed"]), given["lease"])
    made: list[PoolWorker] = []
    await link.open(given["url"].split(","), "test worker", reconnected=lambda: [one.reconnected() for one in made])
    options = WorkerOptions(given["pool"], concurrency=given.get("concurrency", 8), replicas=given.get("replicas", 1))
    made.append(PoolWorker(link, Runtime(TOOLS, remote=HERE), TOOLS, options))
    await made[0].serve(stop, lambda: print("ready", flush=True))
    await link.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
