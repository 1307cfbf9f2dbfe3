"""Usage summed up block by block while the log is written, so that figures over a million rows need not read them all.

A block is summed up once all its rows are there, and they never change. What it says can be computed again from the
rows at any time, and `verify` does that.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.records.row import OWN_KINDS
from ferrule.records.statistics import UNKNOWN, ToolUsage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

BLOCK = 4096
"""Rows of a block: number `n` has those after `n * BLOCK`, up to its end."""
SCHEMA = """
CREATE TABLE usage (
    block INTEGER NOT NULL, tool TEXT NOT NULL, tenant TEXT, first_time REAL NOT NULL, last_time REAL NOT NULL,
    count INTEGER NOT NULL, success INTEGER NOT NULL, denied INTEGER NOT NULL, durations BLOB NOT NULL,
    waits BLOB NOT NULL
);
CREATE INDEX usage_block ON usage (block)
"""
NEEDED = ("tool", "version", "kind", "tenant", "outcome", "stage", "time", "duration", "waited")
_ROWS = f"SELECT {', '.join(NEEDED)} FROM calls WHERE seq > ? AND seq <= ?"  # noqa: S608 - our own
_RAN = ("execute", "format", "record")
_BLOCKS_A_TURN = 8


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
            ran = stage in _RAN
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
    connection.execute("BEGIN IMMEDIATE")
    try:
        (end,) = connection.execute("SELECT seq FROM head").fetchone()
        (removed_to,) = connection.execute("SELECT seq FROM checkpoint").fetchone()
        (last,) = connection.execute("SELECT max(block) FROM usage").fetchone()
        first = max(-(-removed_to // BLOCK), 0 if last is None else last + 1)
        for block in range(first, min(end // BLOCK, first + _BLOCKS_A_TURN)):
            usage = UsageSums()
            usage.add_rows(connection.execute(_ROWS, (block * BLOCK, (block + 1) * BLOCK)))
            # One without calls has a row all the same, which says that there is nothing to look for.
            rows = usage.of_block(block) or [(block, UNKNOWN, None, 0.0, 0.0, 0, 0, 0, b"", b"")]
            connection.executemany("INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return max(0, end // BLOCK - first - _BLOCKS_A_TURN)


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
