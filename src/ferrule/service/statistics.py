"""Figures of a tenant's calls over time, and by tool or user: how many, how they ended, how long they took, the cost.

The database does the counting: it groups calls by time, by whose they are, and by how long they took, and gives back a
few thousand numbers at most. Percentiles are read from the groups of durations, whose bounds lie 26 % apart.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import BigInteger, and_, case, cast, func, or_, select

from ferrule.service.documents import shown_time
from ferrule.service.tables import calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

PERIODS: dict[str, tuple[float, float]] = {
    "hour": (3600.0, 60.0), "day": (86_400.0, 1800.0), "week": (7 * 86_400.0, 4 * 3600.0),
    "month": (30 * 86_400.0, 86_400.0),
}  # fmt: skip
"""How far back, and in which steps, in seconds."""
_BOUNDS = tuple(0.001 * 10 ** (step / 10) for step in range(65))
"""Seconds, from a millisecond to forty minutes; what takes longer is in one group."""
_NOT_RUN = -1
_MOST_NAMES = 100


@dataclass(slots=True)
class CallFigures:
    """Sums of some calls."""

    calls: int = 0
    failed: int = 0
    denied: int = 0
    cost: float = 0.0
    waited: float = 0.0
    started: int = 0
    durations: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, row: Any) -> None:
        self.calls += row.count
        self.failed += row.failed
        self.denied += row.denied
        self.cost += row.cost
        self.waited += row.waited
        if row.took != _NOT_RUN:
            self.started += row.count
            self.durations[row.took] = self.durations.get(row.took, 0) + row.count

    def document(self) -> dict[str, Any]:
        return {
            "calls": self.calls, "failed": self.failed, "denied": self.denied, "cost": round(self.cost, 6),
            "p50": self.quantile(0.5), "p95": self.quantile(0.95),
            "waited": round(self.waited / self.started, 6) if self.started else None,
        }  # fmt: skip

    def quantile(self, share: float) -> float | None:
        """The upper bound of the group that this share of durations ends in."""
        wanted, seen = share * self.started, 0
        for took in sorted(self.durations):
            seen += self.durations[took]
            if seen >= wanted:
                return round(_BOUNDS[min(took, len(_BOUNDS) - 1)], 6)
        return None


def add_duration(durations: dict[int, int], seconds: float) -> None:
    """Count a duration in its group, for figures that are not made by the database."""
    took = bisect_left(_BOUNDS, seconds)
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
    ended, started = calls.c.finished, calls.c.started
    refused = or_(
        calls.c.result.like('%"type":"permission_error"%'), calls.c.result.like('%"type": "permission_error"%')
    )
    took = case(*((ended - started <= bound, index) for index, bound in enumerate(_BOUNDS)), else_=len(_BOUNDS))
    columns: Any = (
        ((cast(calls.c.created, BigInteger) - int(since)) // int(step)).label("at"),
        calls.c[by].label("name"),
        case((and_(ended.is_not(None), started.is_not(None)), took), else_=_NOT_RUN).label("took"),
        func.count().label("count"),
        func.sum(case((calls.c.status.in_(("failed", "lost", "expired")), 1), else_=0)).label("failed"),
        func.sum(case((and_(calls.c.status == "failed", refused), 1), else_=0)).label("denied"),
        func.sum(calls.c.cost).label("cost"),
        func.sum(func.coalesce(started - calls.c.created, 0.0)).label("waited"),
    )
    # Ids begin with the time, so that the key finds the first: no other index is needed.
    query = select(*columns).where(calls.c.tenant == tenant, calls.c.id >= f"{int(since * 1000):012x}")
    if user is not None:
        query = query.where(calls.c.user == user)
    by_step: dict[int, CallFigures] = {}
    by_name: dict[str, CallFigures] = {}
    for row in connection.execute(query.where(calls.c.created >= since).group_by("at", "name", "took")):
        by_step.setdefault(min(int(row.at), int(seconds / step)), CallFigures()).add(row)
        by_name.setdefault(row.name, CallFigures()).add(row)
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
        for name in ("calls", "failed", "denied", "cost", "waited", "started"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
        for took, count in one.durations.items():
            total.durations[took] = total.durations.get(took, 0) + count
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
