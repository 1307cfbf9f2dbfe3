"""Counts and durations of each tool, kept in memory: what the metrics page and the panel read."""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferrule.pipeline.record import CallRecord

UNKNOWN = "(unknown)"
"""Where calls of tools that do not exist are counted: a model can invent names without end."""
OTHER = "(other)"
"""Where tools are counted once there are `MAX_TOOLS` of them."""
MAX_TOOLS = 10_000

BOUNDS: tuple[float, ...] = tuple(0.01 * 2 ** (step / 2) for step in range(-20, 29))
"""Upper bounds of the duration buckets in seconds, 10 µs to 164 s, each √2 times the one before."""

_RAN = frozenset({"execute", "format", "record"})
_REFUSED = "permission_error"


def was_refused(record: CallRecord) -> bool:
    """Whether permission was denied. A tool that fails with a permission error of its own was not refused."""
    return record.outcome == _REFUSED and record.stage not in _RAN


def was_run(record: CallRecord) -> bool:
    """Whether the call got as far as the tool; only then does its duration say something about the tool."""
    return record.stage in _RAN


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
        if record.stage in _RAN:
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
