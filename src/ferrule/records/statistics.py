"""Counts and durations of each tool, kept in memory: what the metrics page and the panel read."""

from __future__ import annotations

import math
import sqlite3
import threading
from array import array
from bisect import bisect_left
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.core.phrases import phrase
from ferrule.records.database import AuditError, open_for_reading, transaction
from ferrule.records.row import OWN_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ferrule.pipeline.stages import CallRecord


UNKNOWN = "(unknown)"
"""Where calls of tools that do not exist are counted: a model can invent names without end."""
OTHER = "(other)"
"""Where tools are counted once there are `MAX_TOOLS` of them."""
MAX_TOOLS = 10_000

BOUNDS: tuple[float, ...] = tuple(0.01 * 2 ** (step / 2) for step in range(-20, 29))
"""Upper bounds of the duration buckets in seconds, 10 µs to 164 s, each √2 times the one before."""

RAN = frozenset({"execute", "format", "record"})
_REFUSED = "permission_error"


def was_refused(record: CallRecord) -> bool:
    """Whether permission was denied. A tool that fails with a permission error of its own was not refused."""
    return record.outcome == _REFUSED and record.stage not in RAN


def was_run(record: CallRecord) -> bool:
    """Whether the call got as far as the tool; only then does its duration say something about the tool."""
    return record.stage in RAN


@dataclass(slots=True, frozen=True)
class ToolUsage:
    """How one tool was used. `count` is every call: `success`, `failure` and `denied` add up to it.

    Durations are in seconds, of the calls that ran (`ran` of them); None when none did. What a user took to answer is
    not in them: `asked` calls waited for that, for `wait_p50` and `wait_p95` seconds.
    """

    tool: str
    count: int
    success: int
    failure: int
    denied: int
    ran: int
    p50: float | None
    p95: float | None
    max: float | None
    asked: int = 0
    wait_p50: float | None = None
    wait_p95: float | None = None


@dataclass(slots=True, frozen=True)
class Durations:
    """How many calls fell under each of `BOUNDS` (the last number is those above all), and their sum."""

    buckets: tuple[int, ...]
    sum: float


class _Times:
    __slots__ = ("buckets", "max", "sum")

    def __init__(self) -> None:
        self.sum = self.max = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)

    def add(self, seconds: float) -> None:
        self.sum += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        if seconds > self.max:
            self.max = seconds

    def quantile(self, share: float) -> float | None:
        """The middle of the bucket that the quantile falls into, but never more than was seen."""
        running = list(accumulate(self.buckets))
        if not running[-1]:
            return None
        index = bisect_left(running, share * running[-1])
        return self.max if index >= len(BOUNDS) else min(BOUNDS[index] / 2**0.25, self.max)


class _Counts:
    __slots__ = ("denied", "failure", "queued", "ran", "success", "waited")

    def __init__(self) -> None:
        self.success = self.failure = self.denied = 0
        self.ran, self.waited, self.queued = _Times(), _Times(), _Times()


class Statistics:
    """A recorder that only counts."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._tools: dict[str, _Counts] = {}

    def record(self, record: CallRecord) -> None:
        """Count one record. On the way of every call, so there is no lock: it would cost as much as the rest.

        CPython lets another thread in after a call, never inside `+=` on a number, and none of these has a
        call between reading and writing. A build without the global lock may miss a count now and then.
        """
        counts = self._tools.get(record.tool if record.version else UNKNOWN) or self._make(record)
        if record.outcome == "success":
            counts.success += 1
        elif was_refused(record):
            counts.denied += 1
        else:
            counts.failure += 1
        if record.stage in RAN:
            counts.ran.add(record.duration)
        if record.waited:
            counts.waited.add(record.waited)
        if record.queued:
            counts.queued.add(record.queued)

    def _make(self, record: CallRecord) -> _Counts:
        with self._making:
            name = record.tool if record.version else UNKNOWN
            if len(self._tools) >= MAX_TOOLS and name not in self._tools:
                name = OTHER
            return self._tools.setdefault(name, _Counts())

    def snapshot(self) -> list[ToolUsage]:
        """Every tool's usage so far, by name. Quantiles are read off the buckets: right to within a fifth."""
        return [_usage(tool, counts) for tool, counts in sorted(self._tools.items())]

    def durations(self) -> dict[str, Durations]:
        """The histogram of each tool: how long its calls took."""
        return {tool: _durations(counts.ran) for tool, counts in sorted(self._tools.items())}

    def waits(self) -> dict[str, Durations]:
        """How long calls waited for a user's answer, of each tool with any that did."""
        return {tool: _durations(one.waited) for tool, one in sorted(self._tools.items()) if any(one.waited.buckets)}

    def queues(self) -> dict[str, Durations]:
        """How long calls waited for their turn, of each tool with any that did."""
        return {tool: _durations(one.queued) for tool, one in sorted(self._tools.items()) if any(one.queued.buckets)}


def _durations(times: _Times) -> Durations:
    return Durations(tuple(times.buckets), times.sum)


def _usage(tool: str, counts: _Counts) -> ToolUsage:
    ran, waited = counts.ran, counts.waited
    took = sum(ran.buckets)
    return ToolUsage(
        tool=tool,
        count=counts.success + counts.failure + counts.denied,
        success=counts.success,
        failure=counts.failure,
        denied=counts.denied,
        ran=took,
        p50=ran.quantile(0.50),
        p95=ran.quantile(0.95),
        max=ran.max if took else None,
        asked=sum(waited.buckets),
        wait_p50=waited.quantile(0.50),
        wait_p95=waited.quantile(0.95),
    )


# Usage summed up block by block while the log is written, so that figures over a million rows need not read them all.


BLOCK = 4096
"""Rows of a block: number `n` has those after `n * BLOCK`, up to its end."""
NEEDED = ("tool", "version", "kind", "tenant", "outcome", "stage", "time", "duration", "waited")
_ROWS = f"SELECT {', '.join(NEEDED)} FROM calls WHERE seq > ? AND seq <= ?"  # noqa: S608 - our own
BLOCKS_A_TURN = 8


class _BlockCounts:
    """How one tool was used by one tenant."""

    __slots__ = ("count", "denied", "durations", "first", "last", "success", "waits")

    def __init__(self) -> None:
        self.count = self.success = self.denied = 0
        self.first, self.last = math.inf, -math.inf
        self.durations, self.waits = array("d"), array("d")

    def stored(self) -> tuple[Any, ...]:
        # In order, because those of many blocks are sorted in no time then.
        times = (array("d", sorted(one)).tobytes() for one in (self.durations, self.waits))
        return (self.first, self.last, self.count, self.success, self.denied, *times)


class UsageSums(dict[tuple[str, str | None], _BlockCounts]):
    """Usage by tool and tenant, of any rows and blocks."""

    def add_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        for tool, version, kind, tenant, outcome, stage, time, duration, waited in rows:
            if kind in OWN_KINDS:
                continue
            key = (tool if version else UNKNOWN, tenant)
            counts = self.get(key)
            if counts is None:
                counts = self[key] = _BlockCounts()
            ran = stage in RAN
            counts.count += 1
            counts.success += outcome == "success"
            counts.denied += outcome == "permission_error" and not ran
            counts.first, counts.last = min(counts.first, time), max(counts.last, time)
            if ran:
                counts.durations.append(duration)
            if waited:
                counts.waits.append(waited)

    def add_stored(self, tool: str, tenant: str | None, count: int, success: int, denied: int, *times: bytes) -> None:
        counts = self.setdefault((tool, tenant), _BlockCounts())
        counts.count += count
        counts.success += success
        counts.denied += denied
        counts.durations.frombytes(times[0])
        counts.waits.frombytes(times[1])

    def of_block(self, block: int) -> list[tuple[Any, ...]]:
        """What is stored of it, in the order in which it is stored."""
        return [(block, tool, tenant, *counts.stored()) for (tool, tenant), counts in self.items()]

    def by_tool(self) -> list[ToolUsage]:
        together: dict[str, _BlockCounts] = {}
        for (tool, _), one in self.items():
            counts = together.setdefault(tool, _BlockCounts())
            counts.count, counts.success = counts.count + one.count, counts.success + one.success
            counts.denied += one.denied
            counts.durations += one.durations
            counts.waits += one.waits
        return [_tool_usage(tool, counts) for tool, counts in sorted(together.items())]


class StoredBlock(NamedTuple):
    """A block that is summed up, and the times of its first and last calls."""

    number: int
    first_time: float
    last_time: float


def stored_blocks(connection: sqlite3.Connection) -> list[StoredBlock]:
    query = "SELECT block, min(first_time), max(last_time) FROM usage GROUP BY block ORDER BY block"
    return [StoredBlock(*row) for row in connection.execute(query)]


def add_missing_blocks(connection: sqlite3.Connection) -> int:
    """Sum up blocks that are whole by now, a few at once so that nobody waits long; gives how many are left to do."""
    with transaction(connection):
        (end,) = connection.execute("SELECT seq FROM head").fetchone()
        (removed_to,) = connection.execute("SELECT seq FROM checkpoint").fetchone()
        (last,) = connection.execute("SELECT max(block) FROM usage").fetchone()
        first = max(-(-removed_to // BLOCK), 0 if last is None else last + 1)
        for block in range(first, min(end // BLOCK, first + BLOCKS_A_TURN)):
            usage = UsageSums()
            usage.add_rows(connection.execute(_ROWS, (block * BLOCK, (block + 1) * BLOCK)))
            # One without calls has a row all the same, which says that there is nothing to look for.
            rows = usage.of_block(block) or [(block, UNKNOWN, None, 0.0, 0.0, 0, 0, 0, b"", b"")]
            connection.executemany("INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return max(0, end // BLOCK - first - BLOCKS_A_TURN)


def _tool_usage(tool: str, counts: _BlockCounts) -> ToolUsage:
    ran, waits = sorted(counts.durations), sorted(counts.waits)
    failure = counts.count - counts.success - counts.denied
    return ToolUsage(
        tool, counts.count, counts.success, failure, counts.denied, len(ran), _quantile(ran, 0.50),
        _quantile(ran, 0.95), ran[-1] if ran else None, len(waits), _quantile(waits, 0.50), _quantile(waits, 0.95),
    )  # fmt: skip


def _quantile(times: list[float], share: float) -> float | None:
    """Nearest rank: the smallest that at least that share of them does not exceed."""
    return times[max(math.ceil(share * len(times)), 1) - 1] if times else None


_ROWS_BETWEEN = f"SELECT {', '.join(NEEDED)} FROM calls WHERE seq > ? AND seq <= ? AND time >= ? AND time < ?"  # noqa: S608
_STORED = "SELECT tool, tenant, count, success, denied, durations, waits FROM usage WHERE block = ?"
_EVERY: Any = object()
_FOREVER = float("inf")


def statistics_of(
    path: str | Path, *, since: float = -_FOREVER, until: float = _FOREVER, tenant: str | None = _EVERY
) -> list[ToolUsage]:
    """Usage of each tool between two times (seconds since 1970), of one tenant or of all."""
    only, values = ("", ()) if tenant is _EVERY else (" AND tenant IS ?", (tenant,))
    with closing(open_for_reading(path)) as connection:
        try:
            usage = _usage_between(connection, since, until, only, values)
            return [one for one in usage.by_tool() if one.count]
        except (TypeError, ValueError, OverflowError, sqlite3.Error) as problem:
            raise AuditError(
                phrase(
                    "{path} could not be read: {why}.", path=path, why=f"{problem}; `ferrule audit verify` says more"
                )
            ) from problem


def _usage_between(
    connection: sqlite3.Connection, since: float, until: float, only: str, values: tuple[str | None, ...]
) -> UsageSums:
    usage = UsageSums()
    connection.execute("BEGIN")  # the log may be written while we read
    (end,) = connection.execute("SELECT coalesce(max(seq), 0) FROM calls").fetchone()
    start = 0
    for block in stored_blocks(connection):
        first, last = block.number * BLOCK, (block.number + 1) * BLOCK
        if start < first:
            usage.add_rows(connection.execute(_ROWS_BETWEEN + only, (start, first, since, until, *values)))
        if since <= block.first_time and block.last_time < until:
            for stored in connection.execute(_STORED + only, (block.number, *values)):
                usage.add_stored(*stored)
        elif block.last_time >= since and block.first_time < until:
            usage.add_rows(connection.execute(_ROWS_BETWEEN + only, (first, last, since, until, *values)))
        start = last
    usage.add_rows(connection.execute(_ROWS_BETWEEN + only, (start, end, since, until, *values)))
    return usage
