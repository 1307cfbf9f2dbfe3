"""Timing that holds on a busy machine: many short rounds, contenders in turn, the best and the median of each."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter, process_time

Work = Callable[[], Awaitable[object]]


@dataclass(slots=True, frozen=True)
class Time:
    """Seconds for one unit of work."""

    best: float
    median: float


async def in_turn(contenders: dict[str, Work], *, rounds: int = 200, seconds: float = 0.002) -> dict[str, Time]:
    """Time contenders against each other: each round runs every one of them for about `seconds`.

    Interference only ever adds time, so the best round is the truest; the median says how a busy machine feels.
    """
    often = {name: await _how_often(work, seconds) for name, work in contenders.items()}
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, work in contenders.items():
                count = often[name]
                began = perf_counter()
                for _ in range(count):
                    await work()
                taken[name].append((perf_counter() - began) / count)
            await asyncio.sleep(0)
            gc.collect(0)  # between the rounds, so that nobody pays for another's garbage
    finally:
        gc.enable()
    return {name: Time(min(times), median(times)) for name, times in taken.items()}


async def cpu_of(work: Work, *, rounds: int, count: int = 200) -> Time:
    """CPU seconds for one unit of work, of every thread of this process: those that wait for nobody count as well."""
    for _ in range(count):
        await work()
    taken: list[float] = []
    for _ in range(rounds):
        gc.collect(0)
        began = process_time()
        for _ in range(count):
            await work()
        taken.append((process_time() - began) / count)
    return Time(min(taken), median(taken))


async def _how_often(work: Work, seconds: float) -> int:
    for _ in range(20):
        await work()
    began = perf_counter()
    for _ in range(20):
        await work()
    return max(1, round(seconds / ((perf_counter() - began) / 20)))


@dataclass(slots=True, frozen=True)
class Row:
    """One line of the report. Without a `bar` it is there to be known, not to be met."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    note: str = ""

    @property
    def met(self) -> bool:
        return self.bar is None or self.value <= self.bar


def report(rows: list[Row], *, as_json: bool) -> int:
    """Print the rows; the exit code is 1 when a bar was missed."""
    missed = [row for row in rows if not row.met]
    if as_json:
        print(json.dumps([asdict(row) | {"met": row.met} for row in rows], indent=2))
    else:
        width = max(len(row.name) for row in rows)
        for row in rows:
            mark = " " if row.bar is None else ("✓" if row.met else "✗")
            bar = "" if row.bar is None else f"≤ {row.bar:g}"
            print(f"{mark} {row.name:<{width}}  {row.value:>9.3g} {row.unit:<4} {bar:<7} {row.note}".rstrip())
        print(f"\n{len(missed)} bars missed." if missed else "\nEvery bar is met.")
    return 1 if missed else 0


def versus(
    name: str, times: dict[str, Time], bar: float | None, contender: str = "ferrule", against: str = "bare"
) -> Row:
    """A contender's time as a multiple of the bare work's, from the best rounds; the note has what lies behind it."""
    one, bare = times[contender], times[against]
    note = (
        f"{one.best * 1e6:.1f} µs against {bare.best * 1e6:.1f} µs; median {one.median / bare.median:.2f}× "
        f"({one.median * 1e6:.1f} / {bare.median * 1e6:.1f})"
    )
    return Row(name, one.best / bare.best, "×", bar, note)
