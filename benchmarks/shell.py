"""What a command costs in a warm session, against bare bash running the same: `python benchmarks/shell.py`.

Bare is a bash that is kept open and fed over a pipe, with an `echo` that marks each command's end: the least that
anyone who keeps a shell open must do. `bash -c` anew for each command is there to be known. Contenders run in turn;
interference only ever adds time, so the bar is on the best rounds, and the medians stand beside them. Then two
gigabytes of output, and by how much memory grows meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from _measure import Row, report
from ferrule.process.profile import Profile
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.process.sandbox.no_sandbox import NoSandbox
from ferrule.process.shell.shell_session import ShellSession
from ferrule.process.spill import SpillFolder

COMMANDS = ("true", "echo hi", "ls")
FLOOD = "head -c 2000000000 /dev/zero"


class BareBash:
    """A bash on pipes, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )

    async def run(self, command: str) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.write(self._process.stdin.fileno(), f"{command}\necho MARK\n".encode())
        seen = b""
        while not seen.endswith(b"MARK\n"):
            seen += os.read(self._process.stdout.fileno(), 1 << 16)
        return seen

    def close(self) -> None:
        self._process.communicate()


async def _once(folder: Path, command: str) -> None:
    subprocess.run(  # noqa: ASYNC221 - nothing else is to run meanwhile
        ["bash", "--noprofile", "--norc", "-c", command], cwd=folder, capture_output=True, check=True
    )


def _session(folder: Path, sandboxed: bool) -> ShellSession:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    sandbox = best_sandbox() if sandboxed else NoSandbox(off=True)
    profile = Profile((workspace,), workspace)
    return ShellSession(lambda arguments: sandbox.prepare(profile, arguments), spills=SpillFolder(folder / "spills"))


async def measure_commands(folder: Path, rounds: int) -> list[Row]:
    plain, confined = _session(folder, False), _session(folder, True)
    bare = BareBash(folder / "workspace")
    rows: list[Row] = []
    try:
        for command in COMMANDS:
            contenders = {
                "bare": lambda command=command: bare.run(command),
                "bash -c": lambda command=command: _once(folder, command),
                "session": lambda command=command: plain.run(command),
                "sandboxed": lambda command=command: confined.run(command),
            }
            taken: dict[str, list[float]] = {name: [] for name in contenders}
            for turn in range(rounds):
                for name, work in contenders.items():
                    began = perf_counter()
                    await work()
                    taken[name].append(perf_counter() - began)
                    await asyncio.sleep(0.001)  # a model thinks between two commands, and the shell saves its state
                if turn == 5:
                    taken = {name: [] for name in contenders}  # what went before was warming up
            best = {name: min(times) * 1e3 for name, times in taken.items()}
            middle = {name: median(times) * 1e3 for name, times in taken.items()}
            for name, bar in (("session", 1.5), ("sandboxed", None)):
                note = (
                    f"{best[name]:.2f} ms against {best['bare']:.2f} ms, bash -c {best['bash -c']:.2f} ms; "
                    f"medians {middle[name]:.2f} / {middle['bare']:.2f} / {middle['bash -c']:.2f}"
                )
                what = f"`{command}` in a warm session{', sandboxed' if bar is None else ''}, over bare bash"
                rows.append(Row(what, best[name] - best["bare"], "ms", bar, note))
    finally:
        bare.close()
        await plain.close()
        await confined.close()
    return rows


async def measure_flood(folder: Path) -> list[Row]:
    session = _session(folder, False)
    try:
        await session.run("true")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = perf_counter()
        ended = await session.run(FLOOD)
        seconds = perf_counter() - began
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    finally:
        await session.close()
    assert ended.spill is not None
    size = ended.spill.stat().st_size
    note = f"{2000 / seconds:,.0f} MB/s; {ended.left_out.bytes:,} bytes left out, {size:,} in the file"
    return [Row("memory grown by 2 GB of output", grown, "MB", 50, note)]


def main() -> int:
    arguments = argparse.ArgumentParser(description="What a warm shell session costs against bare bash.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--quick", action="store_true", help="fewer rounds: rougher figures in less time")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="ferrule-bench-") as folder:
        rows = asyncio.run(measure_commands(Path(folder), 60 if chosen.quick else 300))
        rows += asyncio.run(measure_flood(Path(folder)))
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
