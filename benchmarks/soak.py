"""Whether a process that makes calls for a long time grows: `python benchmarks/soak.py [--minutes 60] [--json]`.

Calls of every kind, in sessions that come and go, under the command line's rules and with its record: quick ones, sync
and async, tools that stream, fail, are cancelled, time out or hang, and Read, Edit, Grep and Bash. Now and then it
prints what the process has: megabytes, objects of Python, threads, tasks, open files, and which types of objects grew.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, process_time, sleep
from typing import TYPE_CHECKING, Any

from ferrule import RawCall, Session, ToolContext, ToolError, tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ferrule import Runtime, Tool

AT_ONCE = 12
CALLS_OF_A_SESSION = 300


@tool(kind="readonly")
async def quick(n: int) -> int:
    """Give a number back. Use it to measure calls."""
    return n


@tool(kind="readonly")
def threaded(n: int) -> int:
    """Give a number back from a thread. Use it to measure sync calls."""
    return n


@tool(kind="readonly")
def threaded_slow(n: int) -> int:
    """Give a number back from a thread after a moment. Use it to measure slow sync calls."""
    sleep(0.01)
    return n


@tool(kind="readonly")
async def failing(n: int) -> int:
    """Fail in one of two ways. Use it to measure failures."""
    await asyncio.sleep(0)
    raise ToolError("told") if n % 2 else ValueError("raised")


@tool(kind="readonly")
async def streaming(n: int) -> AsyncIterator[str]:
    """Give a text in pieces. Use it to measure streams."""
    for _ in range(20):
        yield f"{n}" * 100


@tool(kind="readonly", timeout=0.05)
async def hanging(n: int) -> None:
    """Never end. Use it to measure time limits."""
    await asyncio.sleep(60)


@tool(kind="readonly", timeout=0.05)
def threaded_hanging(n: int, context: ToolContext) -> None:
    """Never end, in a thread. Use it to measure time limits of sync tools."""
    context.cancellation.wait(20)


@tool(kind="readonly")
async def nesting(n: int, context: ToolContext) -> Any:
    """Call another tool. Use it to measure calls of calls."""
    return (await context.call("threaded", {"n": n})).data


TOOLS: tuple[Tool[Any], ...] = (
    quick, threaded, threaded_slow, failing, streaming, hanging, threaded_hanging, nesting,
)  # fmt: skip
_WEIGHTS = {
    "quick": 300, "threaded": 300, "threaded_slow": 60, "failing": 100, "streaming": 40, "hanging": 20, "nesting": 40,
    "threaded_hanging": 8, "unknown": 20, "wrong": 40, "cancelled": 40, "streamed": 40, "batch": 10, "Read": 60,
    "Edit": 30, "Grep": 10, "Bash": 10, "background": 1,
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Sample:
    """What the process has."""

    seconds: float
    calls: int
    cpu: float
    megabytes: float
    blocks: int
    """Of memory that Python's objects have."""
    objects: int
    threads: int
    tasks: int
    files: int
    sessions: int


class Soak:
    """Makes calls of every kind, and takes samples of the process."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.runtime = runtime
        self.calls = 0
        self.samples: list[Sample] = []
        self.outcomes: Counter[str] = Counter()
        self._folder = folder
        self._chance = random.Random(7)
        self._began = monotonic()
        self._types: Counter[str] = Counter()
        for number in range(AT_ONCE):
            (folder / f"notes_{number}.txt").write_text("a line of words\n" * 200 + "count = 0\n")

    async def go_on(self, until: Callable[[], bool]) -> None:
        """Make calls, several at once, until it is enough."""
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(self._sessions(number, until))

    async def _sessions(self, number: int, until: Callable[[], bool]) -> None:
        """One session after the other; what a session keeps goes with it."""
        while not until():
            session = Session(workspace=self._folder, environment=self.runtime.session.environment)
            count = 0
            try:
                await self._read(number, session)
                while count < CALLS_OF_A_SESSION and not until():
                    [kind] = self._chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])
                    await self._do(kind, number, count, session)
                    count += 1
                    self.calls += 1
            finally:
                await session.close()

    async def _do(self, kind: str, number: int, count: int, session: Session) -> None:
        run = self.runtime.run
        work: Awaitable[Any]
        match kind:
            case "Read":
                await self._read(number, session)
                return
            case "Edit":
                text = (self._folder / f"notes_{number}.txt").read_text().rpartition("count = ")[2].strip()
                edited = {"old_string": f"count = {text}", "new_string": f"count = {int(text) + 1}"}
                work = run("Edit", {"file_path": f"notes_{number}.txt", **edited}, session=session)
            case "Grep":
                work = run("Grep", {"pattern": "words", "output_mode": "count"}, session=session)
            case "Bash":
                work = run("Bash", {"command": f"cd . && X={count} && ls notes_{number}.txt"}, session=session)
            case "background":
                work = run("Bash", {"command": "sleep 0.2", "run_in_background": True}, session=session)
            case "wrong":
                work = run("quick", {"m": count, "n": "no number"}, session=session)
            case "cancelled":
                task = asyncio.ensure_future(run("hanging", {"n": count}, session=session))
                await asyncio.sleep(0.002)
                task.cancel()
                await asyncio.wait({task})
                return
            case "streamed":
                async for _event in self.runtime.stream(RawCall("streaming", {"n": count}), session=session):
                    pass
                return
            case "batch":
                names = ("quick", "threaded", "failing", "quick")
                await self.runtime.batch([RawCall(name, {"n": count}) for name in names], session=session)
                return
            case _:
                work = run(kind, {"n": count}, session=session)
        result = await work
        self.outcomes[f"{kind}: {result.error.kind.value if result.error else 'done'}"] += 1

    async def _read(self, number: int, session: Session) -> None:
        result = await self.runtime.run("Read", {"file_path": f"notes_{number}.txt"}, session=session)
        assert result.success, result.llm_content

    def sample(self) -> Sample:
        """What the process has now that nothing runs."""
        gc.collect()
        gc.collect()
        objects = gc.get_objects()
        taken = Sample(
            monotonic() - self._began, self.calls, process_time(), resident(), sys.getallocatedblocks(), len(objects),
            threading.active_count(), len(asyncio.all_tasks()), open_files(),
            sum(type(one) is Session for one in objects),
        )  # fmt: skip
        self.samples.append(taken)
        return taken

    def grown_types(self, most: int = 12) -> list[tuple[str, int]]:
        """The types with the most new objects since this was last asked."""
        now = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
        grown = Counter({name: count - self._types[name] for name, count in now.items()})
        self._types = now
        return [(name, count) for name, count in grown.most_common(most) if count > 0]


def resident() -> float:
    """Megabytes of the process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


async def soaked(folder: Path, rounds: int, until: Callable[[Soak, int], bool], tell: bool = False) -> Soak:
    """A runtime of the command line that has made calls in so many rounds, with a sample after each."""
    from ferrule.app.build import App
    from ferrule.app.settings import AuditSettings, PermissionSettings, Settings
    from ferrule.core.access import Mode

    settings = Settings(
        permissions=PermissionSettings(mode=Mode.ACCEPT_EDITS, allow=["Bash(sleep 0.2)"]),
        audit=AuditSettings(path=folder.parent / "audit.db"),
    )
    async with App(settings, folder) as app:
        for one in TOOLS:
            app.tools.registry.register(one)
        soak = Soak(app.runtime, folder)
        for number in range(rounds):
            await soak.go_on(lambda number=number: until(soak, number))
            await asyncio.sleep(0.5)
            taken = soak.sample()
            if tell:
                print(line(taken), flush=True)
                print("      " + ", ".join(f"{name} +{count}" for name, count in soak.grown_types()), flush=True)
    return soak


def line(taken: Sample) -> str:
    return (
        f"{taken.seconds:7.0f} s {taken.calls:>9,} calls {taken.megabytes:7.1f} MB {taken.blocks:>9,} blocks "
        f"{taken.objects:>8,} objects {taken.threads:>3} threads {taken.tasks:>3} tasks {taken.files:>3} files "
        f"{taken.sessions:>3} sessions"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    began, each = monotonic(), options.minutes * 60 / options.samples
    with tempfile.TemporaryDirectory(prefix="ferrule-soak-") as made:
        folder = Path(made).resolve() / "work"
        folder.mkdir()
        os.environ.update(FERRULE_DATA=f"{made}/data", FERRULE_CONFIG=f"{made}/none.toml")
        soak = asyncio.run(
            soaked(
                folder,
                options.samples,
                lambda _soak, number: monotonic() - began >= each * (number + 1),
                tell=not options.json,
            )
        )
    if options.json:
        print(json.dumps([asdict(one) for one in soak.samples]))
    else:
        print(
            f"{process_time():.0f} s of CPU; " + ", ".join(f"{what} {n:,}" for what, n in sorted(soak.outcomes.items()))
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
