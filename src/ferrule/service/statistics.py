"""Figures of a tenant's calls over time, and by tool or user: how many, how they ended, how long they took, the cost.

Most of the counting is done already (`call_sums`), the rest by the database: it groups calls by time, by whose they
are, and by how long they took. Percentiles are read from the groups of durations, whose bounds lie 26 % apart.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Literal

from ferrule.service.call_sums import BOUNDS, CallFigures, figures_between
from ferrule.service.documents import shown_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

PERIODS: dict[str, tuple[float, float]] = {
    "hour": (3600.0, 60.0), "day": (86_400.0, 1800.0), "week": (7 * 86_400.0, 4 * 3600.0),
    "month": (30 * 86_400.0, 86_400.0),
}  # fmt: skip
"""How far back, and in which steps, in seconds."""
_MOST_NAMES = 100


def add_duration(durations: dict[int, int], seconds: float) -> None:
    """Count a duration in its group, for figures that are not made by the database."""
    took = bisect_left(BOUNDS, seconds)
    durations[took] = durations.get(took, 0) + 1


def step_of(moment: float, period: str, now: float) -> int | None:
    """The step that a moment is in; None before the first."""
    since = _start(now, period)
    return int((moment - since) // PERIODS[period][1]) if moment >= since else None


def figures_of(
    connection: Connection, tenant: str, period: str, by: Literal["tool", "user"], now: float, *, user: str | None
) -> tuple[dict[int, CallFigures], dict[str, CallFigures]]:
    """Figures by step and by name; of one user's calls alone where given."""
    seconds, step = PERIODS[period]
    since = _start(now, period)
    starts = [since + index * step for index in range(int(seconds / step) + 1)]
    by_step: dict[int, CallFigures] = {}
    by_name: dict[str, CallFigures] = {}
    for at, name, figures in figures_between(connection, tenant, starts, int(step), by, user=user):
        by_step.setdefault(at, CallFigures()).add(figures)
        by_name.setdefault(name, CallFigures()).add(figures)
    return by_step, by_name


def statistics_document(
    period: str, by: str, now: float, by_step: dict[int, CallFigures], by_name: dict[str, CallFigures]
) -> dict[str, Any]:
    """What `GET /v1/statistics` answers: every step, also those without calls, and the busiest names."""
    seconds, step = PERIODS[period]
    since = _start(now, period)
    steps = [by_step.get(index, CallFigures()) for index in range(int(seconds / step) + 1)]
    busiest = sorted(by_name.items(), key=lambda item: (-item[1].calls, item[0]))[:_MOST_NAMES]
    return {
        "period": period, "by": by, "step": step, "since": shown_time(since),
        "total": total_of(by_name.values()).document(),
        "points": [{"at": shown_time(since + index * step), **one.document()} for index, one in enumerate(steps)],
        "names": [{"name": name, **one.document()} for name, one in busiest],
    }  # fmt: skip


def total_of(figures: Iterable[CallFigures]) -> CallFigures:
    total = CallFigures()
    for one in figures:
        total.add(one)
    return total


def merged(all_figures: Iterable[dict[int, CallFigures]]) -> dict[int, CallFigures]:
    """Steps of several tenants as one."""
    found: dict[int, list[CallFigures]] = {}
    for figures in all_figures:
        for at, one in figures.items():
            found.setdefault(at, []).append(one)
    return {at: total_of(many) for at, many in found.items()}


def _start(now: float, period: str) -> float:
    """Steps begin at whole multiples, so that a figure does not change as time goes on."""
    seconds, step = PERIODS[period]
    return (now // step) * step - seconds
