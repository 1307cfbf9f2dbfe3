"""The same usage figures, from the audit log: over any time, and over every process that wrote to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase
from ferrule.records.database import AuditError, open_for_reading
from ferrule.records.usage_blocks import BLOCK, NEEDED, UsageSums, stored_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.records.statistics import ToolUsage

_ROWS = f"SELECT {', '.join(NEEDED)} FROM calls WHERE seq > ? AND seq <= ? AND time >= ? AND time < ?"  # noqa: S608
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
            usage = _usage(connection, since, until, only, values)
            return [one for one in usage.by_tool() if one.count]
        except (TypeError, ValueError, OverflowError, sqlite3.Error) as problem:
            raise AuditError(
                phrase(
                    "{path} could not be read: {why}.", path=path, why=f"{problem}; `ferrule audit verify` says more"
                )
            ) from problem


def _usage(
    connection: sqlite3.Connection, since: float, until: float, only: str, values: tuple[str | None, ...]
) -> UsageSums:
    usage = UsageSums()
    connection.execute("BEGIN")  # the log may be written while we read
    (end,) = connection.execute("SELECT coalesce(max(seq), 0) FROM calls").fetchone()
    start = 0
    for block in stored_blocks(connection):
        first, last = block.number * BLOCK, (block.number + 1) * BLOCK
        if start < first:
            usage.add_rows(connection.execute(_ROWS + only, (start, first, since, until, *values)))
        if since <= block.first_time and block.last_time < until:
            for stored in connection.execute(_STORED + only, (block.number, *values)):
                usage.add_stored(*stored)
        elif block.last_time >= since and block.first_time < until:
            usage.add_rows(connection.execute(_ROWS + only, (first, last, since, until, *values)))
        start = last
    usage.add_rows(connection.execute(_ROWS + only, (start, end, since, until, *values)))
    return usage
