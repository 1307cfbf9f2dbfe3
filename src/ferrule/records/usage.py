"""The same usage figures, from the audit log: over any time, and over every process that wrote to it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from ferrule.records.database import open_for_reading
from ferrule.records.row import GAP, RETENTION
from ferrule.records.statistics import UNKNOWN, ToolUsage

if TYPE_CHECKING:
    from pathlib import Path

# Nearest-rank quantiles: the smallest duration that at least that share of the calls did not exceed.
_QUERY = """
WITH chosen AS (
    SELECT CASE version WHEN '' THEN :unknown ELSE tool END AS tool, outcome, duration, waited,
           stage IN ('execute', 'format', 'record') AS ran
    FROM calls
    WHERE kind NOT IN (:retention, :gap) AND time >= :since AND time < :until AND (:every_tenant OR tenant IS :tenant)
), counted AS (
    SELECT tool, count(*) AS count, sum(outcome = 'success') AS success,
           sum(outcome = 'permission_error' AND NOT ran) AS denied, sum(ran) AS ran
    FROM chosen GROUP BY tool
), ranked AS (
    SELECT tool, duration, row_number() OVER (PARTITION BY tool ORDER BY duration) AS rank,
           count(*) OVER (PARTITION BY tool) AS rows
    FROM chosen WHERE ran
), quantiles AS (
    SELECT tool, min(CASE WHEN rank >= 0.50 * rows THEN duration END) AS p50,
           min(CASE WHEN rank >= 0.95 * rows THEN duration END) AS p95, max(duration) AS max
    FROM ranked GROUP BY tool
), waits AS (
    SELECT tool, waited, row_number() OVER (PARTITION BY tool ORDER BY waited) AS rank,
           count(*) OVER (PARTITION BY tool) AS rows
    FROM chosen WHERE waited > 0
), answers AS (
    SELECT tool, max(rows) AS asked, min(CASE WHEN rank >= 0.50 * rows THEN waited END) AS wait_p50,
           min(CASE WHEN rank >= 0.95 * rows THEN waited END) AS wait_p95
    FROM waits GROUP BY tool
)
SELECT tool, count, success, count - success - denied, denied, ran, p50, p95, max, coalesce(asked, 0), wait_p50,
       wait_p95
FROM counted LEFT JOIN quantiles USING (tool) LEFT JOIN answers USING (tool) ORDER BY tool
"""
_EVERY: Any = object()
_FOREVER = float("inf")


def statistics_of(
    path: str | Path, *, since: float = -_FOREVER, until: float = _FOREVER, tenant: str | None = _EVERY
) -> list[ToolUsage]:
    """Usage of each tool between two times (seconds since 1970), of one tenant or of all."""
    values = {
        "unknown": UNKNOWN,
        "retention": RETENTION,
        "gap": GAP,
        "since": since,
        "until": until,
        "every_tenant": tenant is _EVERY,
        "tenant": None if tenant is _EVERY else tenant,
    }
    with closing(open_for_reading(path)) as connection:
        return [ToolUsage(*row) for row in connection.execute(_QUERY, values)]
