"""What a command costs in a session, from call to result: `python benchmarks/shell.py`.

Each command is a bash of its own in a box of its own, with the session's state going in and coming out. Beside each
figure stands the same box around a bare `bash -c`, so that what the session adds can be seen. Contenders run in turn;
interference only ever adds time, so the bar is on the best rounds, and the medians stand beside them. Then two
gigabytes of output, and by how much memory grows meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from _measure import Row, report
from ferrule.process.output import SpillFolder
from ferrule.process.profile import LayerMount, Profile
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.process.sandbox.sandbox import NoSandbox
from ferrule.process.shell.running import Opener, Streams, boxes
from ferrule.process.shell.session import ShellSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ferrule.process.box import Box

FLOOD = "head -c 2000000000 /dev/zero"
MOST_MILLISECONDS = 30


def opener(folder: Path, kind: str) -> Opener:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    sandbox = NoSandbox(off=True) if kind == "without a sandbox" else best_sandbox()
    profile = Profile((workspace,), workspace, look=kind == "look box")

    async def opened(arguments: Sequence[str], environment: Mapping[str, str], streams: Streams) -> Box:
        layers: tuple[LayerMount, ...] = ()
        if profile.look:
            upper, work = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
            layers = (LayerMount(workspace, upper, work),)
        return await boxes(sandbox, replace(profile, layers=layers))(arguments, environment, streams)

    return opened


async def bare(open_one: Opener) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        box = await open_one(
            ("/bin/bash", "--noprofile", "--norc", "-c", "true"), {}, Streams(nothing, nothing, nothing, {})
        )
        await asyncio.wait({box.ended})
        await asyncio.to_thread(box.denials)
        box.close()
    finally:
        os.close(nothing)


async def measure_commands(folder: Path, rounds: int) -> list[Row]:
    openers = {kind: opener(folder, kind) for kind in ("without a sandbox", "work box", "look box")}
    sessions = {kind: ShellSession(folder=str(folder / "workspace")) for kind in openers}
    contenders: dict[str, Callable[[], Awaitable[object]]] = {}
    for kind, session in sessions.items():

        async def keep(session: ShellSession = session, kind: str = kind) -> None:
            session.keep(await session.run("true", openers[kind]), tainted=False)

        contenders[kind] = keep
        contenders[f"bare {kind}"] = lambda kind=kind: bare(openers[kind])
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    try:
        for turn in range(rounds):
            for name, work in contenders.items():
                began = perf_counter()
                await work()
                taken[name].append(perf_counter() - began)
            if turn == 5:
                taken = {name: [] for name in contenders}  # what went before was warming up
    finally:
        for session in sessions.values():
            await session.close()
    best = {name: min(times) * 1e3 for name, times in taken.items()}
    middle = {name: median(times) * 1e3 for name, times in taken.items()}
    return [
        Row(
            f"`true` in a session, {kind}",
            best[kind],
            "ms",
            MOST_MILLISECONDS,
            f"bare bash in the same box {best[f'bare {kind}']:.1f} ms; "
            f"medians {middle[kind]:.1f} / {middle[f'bare {kind}']:.1f}",
        )
        for kind in openers
    ]


async def measure_flood(folder: Path) -> list[Row]:
    session = ShellSession(folder=str(folder), spills=SpillFolder(folder / "spills"))
    plain = opener(folder, "without a sandbox")
    try:
        await session.run("true", plain)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = perf_counter()
        ended = await session.run(FLOOD, plain)
        seconds = perf_counter() - began
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    finally:
        await session.close()
    assert ended.spill is not None
    size = ended.spill.stat().st_size
    note = f"{2000 / seconds:,.0f} MB/s; {ended.left_out.bytes:,} bytes left out, {size:,} in the file"
    return [Row("memory grown by 2 GB of output", grown, "MB", 50, note)]


def main() -> int:
    arguments = argparse.ArgumentParser(description="What a command costs in a shell session.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--quick", action="store_true", help="fewer rounds: rougher figures in less time")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as folder:
        rows = asyncio.run(measure_commands(Path(folder), 60 if chosen.quick else 300))
        rows += asyncio.run(measure_flood(Path(folder)))
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
