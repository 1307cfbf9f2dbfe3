"""Figures of a tenant's calls over time, and by tool or user: how many, how they ended, how long they took, the cost.

Sums of the calls of minutes, half hours, four hours and days are kept, so that nobody has to count every call again.
A span is summed up once it has been over for minutes, and only where it has many calls. Nothing is added to the writing
of a call: where a call of such a span is added, changed or deleted after all, the database notes that, the calls of the
span are counted one by one again, and later summed up again. A reader covers a time with the largest spans that there
are and has the database count the calls in between. Percentiles are read from groups of durations, whose bounds
lie 26 % apart.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sqlalchemy import and_, case, delete, exists, func, insert, literal, or_, select, text, update

from ferrule.service.database import dialect_module
from ferrule.service.documents import new_id, shown_time
from ferrule.service.tables import LATE, SUM_STEPS, call_spans, call_sums, calls, changed_spans, tenants

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

    from ferrule.service.database import Database
    from ferrule.service.writer import GroupWriter

BOUNDS = tuple(0.001 * 10 ** (step / 10) for step in range(65))
"""Seconds, from a millisecond to forty minutes; what takes longer is in one group."""
LAST_ID = "g"
"""Comes after every id."""
WORTH_SUMMING = 200
"""Calls; to count fewer takes no longer than to read their sums."""
_SETTLED = LATE + 180
_NOT_RUN = -1
_MOST_AT_ONCE = 20
_LOOK_SECONDS, _LOOK_AGAIN_SECONDS, _IDLE_SECONDS = 60.0, 6 * 3600.0, 600.0
_MOST_TENANTS, _MOST_SECONDS = 20, 0.5
"""So many tenants are looked at in one go, and for so long in one round: other things wait for the end of it."""
_WRITERS_SECONDS, _WRITERS_AGAIN = 1.0, 0.02
_GIVEN_UP = 600.0
"""After so many seconds a span that an instance began to sum up is another's to do."""
_WINDOWS = {60: 2 * 3600, 1_800: 2 * 86_400, 14_400: 9 * 86_400}
"""How far back spans of a size are made, in seconds; days are made of all calls that there are."""


def id_at(moment: float) -> str:
    """How the ids of calls begin that were made then: they sort by time."""
    return f"{int(moment * 1000):012x}"


def moment_of(call: str) -> float:
    return int(call[:12], 16) / 1000


@dataclass(slots=True)
class CallFigures:
    """Sums of some calls."""

    calls: int = 0
    succeeded: int = 0
    failed: int = 0
    denied: int = 0
    cost: float = 0.0
    waited: float = 0.0
    durations: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def started(self) -> int:
        return sum(self.durations.values())

    def add(self, other: CallFigures) -> None:
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for took, count in other.durations.items():
            self.durations[took] = self.durations.get(took, 0) + count

    def document(self) -> dict[str, Any]:
        started = self.started
        return {
            "calls": self.calls, "failed": self.failed, "denied": self.denied, "cost": round(self.cost, 6),
            "p50": self.quantile(0.5), "p95": self.quantile(0.95),
            "waited": round(self.waited / started, 6) if started else None,
        }  # fmt: skip

    def quantile(self, share: float) -> float | None:
        """The upper bound of the group that this share of durations ends in."""
        wanted, seen = share * self.started, 0
        for took in sorted(self.durations):
            seen += self.durations[took]
            if seen >= wanted:
                return round(BOUNDS[min(took, len(BOUNDS) - 1)], 6)
        return None


_SUMMED = ("calls", "succeeded", "failed", "denied", "cost", "waited")


class SpanPiece(NamedTuple):
    """A stretch of ids, from the first to before the last; `span` where its calls are summed up."""

    begins: str
    ends: str
    span: str | None


_IS_TRUE = call_spans.c.complete & ~exists().where(
    changed_spans.c.tenant == call_spans.c.tenant, changed_spans.c.span == call_spans.c.id
)
"""Of a span: it is summed up, and none of its calls has changed since."""


def cover(
    connection: Connection, tenant: str, begins: str, ends: str, steps: Sequence[int],
    match: ColumnElement[bool] | None = None,
) -> Iterator[SpanPiece]:  # fmt: skip
    """The pieces of a time, newest first. With `match`, only those that may have calls which match, down to single
    calls: what the sums rule out is left out.
    """
    return _cover(connection, tenant, begins, ends, steps, match, _settled_id(_database_time(connection)))


def _cover(
    connection: Connection, tenant: str, begins: str, ends: str, steps: Sequence[int],
    match: ColumnElement[bool] | None, settled: str,
) -> Iterator[SpanPiece]:  # fmt: skip
    if not steps:
        yield SpanPiece(begins, ends, None)
        return
    step, *finer = steps
    span = call_spans.c
    query = select(span.begins, span.ends, span.id, (literal(True) if match is None else match).label("matches"))
    query = query.where(span.tenant == tenant, span.step == step, _IS_TRUE, span.begins >= begins)
    at = ends
    for row in connection.execute(query.where(span.ends <= min(ends, settled)).order_by(span.begins.desc())).all():
        if row.ends < at:
            yield from _cover(connection, tenant, row.ends, at, finer, match, settled)
        if match is None:
            yield SpanPiece(row.begins, row.ends, row.id)
        elif row.matches:
            yield from _cover(connection, tenant, row.begins, row.ends, finer, match, settled)
        at = row.begins
    if begins < at:
        yield from _cover(connection, tenant, begins, at, finer, match, settled)


def may_match(filters: Mapping[str, str]) -> ColumnElement[bool]:
    """Whether a span can have calls of this tool, user and status."""
    tool, user, status = (filters.get(name) for name in ("tool", "user", "status"))
    side, scope, name = (
        ("own", user or "", tool) if tool and user else ("user", "", user) if user else ("tool", "", tool)
    )
    one = call_sums.c
    mine = [one.tenant == call_spans.c.tenant, one.side == side, one.scope == scope, one.span == call_spans.c.id]
    if name is not None:
        mine.append(one.name == name)
    if status is not None:
        mine.append(one.succeeded > 0 if status == "succeeded" else one.calls > one.succeeded)
    return select(literal(1)).where(*mine).exists()


def figures_between(
    connection: Connection, tenant: str, starts: Sequence[float], step: int, by: str, *, user: str | None
) -> Iterator[tuple[int, str, CallFigures]]:
    """The figures of calls since the first start, by the number of the start that they follow, and by name: of one
    user's calls alone where given.
    """
    ids = [id_at(start) for start in starts]
    pieces = list(cover(connection, tenant, ids[0], LAST_ID, [one for one in SUM_STEPS if one <= step]))
    places = {piece.span: bisect_right(ids, piece.begins) - 1 for piece in pieces if piece.span is not None}
    one, side, scope = call_sums.c, by if user is None else "own", user or ""
    stored = select(call_sums).where(one.tenant == tenant, one.side == side, one.scope == scope)
    for row in connection.execute(stored.where(one.span.in_(list(places)))) if places else ():
        yield places[row.span], user if user is not None and by == "user" else row.name, _stored_figures(row)
    for piece in pieces:
        if piece.span is None:
            first, last = bisect_right(ids, piece.begins) - 1, bisect_left(ids, piece.ends)
            later = [(calls.c.id < ids[at], at - 1) for at in range(first + 1, last)]
            at = case(*later, else_=last - 1) if later else literal(first)
            for row in _grouped(connection, tenant, piece, at.label("at"), calls.c[by].label("name"), user=user):
                yield row.at, row.name, _counted(row)


def _grouped(connection: Connection, tenant: str, piece: SpanPiece, *names: Any, user: str | None = None) -> Any:
    """Calls counted one by one, in groups of the same names and about the same duration."""
    ended, started = calls.c.finished, calls.c.started
    refused = or_(
        calls.c.result.like('%"type":"permission_error"%'), calls.c.result.like('%"type": "permission_error"%')
    )
    took = case(*((ended - started <= bound, index) for index, bound in enumerate(BOUNDS)), else_=len(BOUNDS))
    query = select(
        *names,
        case((and_(ended.is_not(None), started.is_not(None)), took), else_=_NOT_RUN).label("took"),
        func.count().label("calls"),
        func.sum(case((calls.c.status == "succeeded", 1), else_=0)).label("succeeded"),
        func.sum(case((calls.c.status.in_(("failed", "lost", "expired")), 1), else_=0)).label("failed"),
        func.sum(case((and_(calls.c.status == "failed", refused), 1), else_=0)).label("denied"),
        func.sum(calls.c.cost).label("cost"),
        func.sum(func.coalesce(started - calls.c.created, 0.0)).label("waited"),
    ).where(calls.c.tenant == tenant, calls.c.id >= piece.begins, calls.c.id < piece.ends)
    if user is not None:
        query = query.where(calls.c.user == user)
    return connection.execute(query.group_by(*(one.name for one in names), "took"))


def _counted(row: Any) -> CallFigures:
    durations = {} if row.took == _NOT_RUN else {row.took: row.calls}
    return CallFigures(**{name: getattr(row, name) for name in _SUMMED}, durations=durations)


def _stored_figures(row: Any) -> CallFigures:
    durations = {int(took): count for took, count in json.loads(row.durations).items()}
    return CallFigures(**{name: getattr(row, name) for name in _SUMMED}, durations=durations)


class _DueSpan(NamedTuple):
    step: int
    begins: str
    ends: str
    id: str


@dataclass(slots=True)
class _Looked:
    """How far the spans of one size of a tenant are made, or too small to be, and when the next one may be due."""

    upto: str
    again: float = 0.0


class CallSums:
    """Sums up what is due, of every tenant. Instances never do the same span at once."""

    def __init__(self, database: Database, writer: GroupWriter) -> None:
        self._database = database
        self._writer = writer
        self._looked: dict[tuple[str, int], _Looked] = {}
        self._again: dict[str, float] = {}
        """When a tenant is looked at again."""
        self._left: list[str] = []
        """Tenants to look at, the next one last."""
        self._look_at = self._forget_at = 0.0
        self._ahead = float("-inf")
        """Of the database's clock before ours, which never goes back."""

    async def keep_up(self) -> bool:
        """Go through all tenants once a minute, for a moment, and sum up their next spans; says whether more are left
        to do, which is at once.
        """
        now = monotonic()
        if not self._left:
            if now < self._look_at:
                return False
            self._look_at = now + _LOOK_SECONDS
            ahead = await self._database.read(None, _database_time) - monotonic()
            # Spans whose calls have changed are found again, and those of a time that a clock says is yet to come.
            if now >= self._forget_at or ahead < self._ahead - 1:
                self._looked.clear()
                self._again.clear()
                self._forget_at = now + _LOOK_AGAIN_SECONDS
            self._ahead = ahead
            self._left = list(
                await self._database.read(None, lambda one: one.execute(select(tenants.c.tenant)).scalars().all())
            )
        while self._left and monotonic() < now + _MOST_SECONDS:
            some = [self._left.pop() for _ in range(min(len(self._left), _MOST_TENANTS))]
            for tenant, due in (await self._database.read(None, partial(self._due_of, of=some))).items():
                if len(due) == _MOST_AT_ONCE:
                    self._left.insert(0, tenant)
                for span in await self._claim(tenant, due):
                    rows = await self._database.read(tenant, partial(_sum_up, tenant=tenant, span=span))
                    await self._writer.change(tenant, partial(_store, tenant=tenant, span=span, rows=rows))
        return bool(self._left)

    def _due_of(self, connection: Connection, of: list[str]) -> dict[str, list[_DueSpan]]:
        """By tenant, what is to be done: an empty list where spans are only to be removed."""
        now, found = _database_time(connection), dict[str, list[_DueSpan]]()
        for tenant in of:
            if now >= self._again.get(tenant, 0.0):
                self._database.speak_for(connection, tenant)
                due, removing = self._due(connection, tenant, now)
                if due or removing:
                    found[tenant] = due
        return found

    def _due(self, connection: Connection, tenant: str, now: float) -> tuple[list[_DueSpan], bool]:
        """Spans that are over, have many calls and are not summed up, the smallest first; and whether there are some of
        a time that is not over.
        """
        found: list[_DueSpan] = []
        removing = False
        for step in reversed(SUM_STEPS):
            mine = (call_spans.c.tenant == tenant) & (call_spans.c.step == step)
            looked = self._looked.get((tenant, step))
            if looked is None:
                looked = self._looked[tenant, step] = _Looked("")
                early = select(call_spans.c.id).where(mine, call_spans.c.begins > _settled_id(now - step))
                removing = removing or connection.execute(early.limit(1)).first() is not None
            if now < looked.again:
                continue
            looked.upto = max(looked.upto, id_at(now - _WINDOWS[step]) if step in _WINDOWS else "")
            while len(found) < _MOST_AT_ONCE:
                ids = select(calls.c.id).where(calls.c.tenant == tenant).order_by(calls.c.id)
                first = connection.execute(ids.where(calls.c.id >= looked.upto, calls.c.id < LAST_ID).limit(1)).scalar()
                if first is None:
                    looked.again = now + _IDLE_SECONDS
                    break
                begins = moment_of(first) // step * step
                if begins + step > now - _SETTLED:
                    looked.again = begins + step + _SETTLED
                    break
                span = _DueSpan(step, id_at(begins), id_at(begins + step), new_id())
                many = ids.where(calls.c.id >= first, calls.c.id < span.ends).offset(WORTH_SUMMING - 1).limit(1)
                made = select(call_spans.c.id).where(mine, call_spans.c.begins == span.begins, _IS_TRUE)
                if connection.execute(many).first() and not connection.execute(made).first():
                    found.append(span)
                looked.upto = span.ends
        self._again[tenant] = min(self._looked[tenant, step].again for step in SUM_STEPS)
        return found, removing

    async def _claim(self, tenant: str, due: list[_DueSpan]) -> list[_DueSpan]:
        """Store that these are summed up from here on: the database notes any later change of their calls."""
        if self._database.is_sqlite:
            return await self._writer.change(tenant, partial(_add_spans, tenant=tenant, due=due))

        def claim() -> list[_DueSpan]:
            with self._database.transaction(tenant, writes=True) as connection:
                # Of two that remove the same rows in another order each would wait for the other.
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(hashtext('call_spans'), hashtext(:of))"), {"of": tenant}
                )
                added = _add_spans(connection, tenant, due)
            # A transaction that has changed a call and has not seen the spans must be over before they are counted.
            until, before = monotonic() + _WRITERS_SECONDS, set[str]()
            while added:
                with self._database.transaction(None) as connection:
                    writing = set(connection.execute(_WRITERS).scalars())
                before = before & writing if before else writing
                if not before:
                    break
                if monotonic() >= until:  # they are found again once they count as given up
                    self._again[tenant] = monotonic() + self._ahead + _GIVEN_UP
                    for step in SUM_STEPS:
                        del self._looked[tenant, step]
                    return []
                sleep(_WRITERS_AGAIN)
            return added

        return await asyncio.to_thread(claim)


_WRITERS = text(
    "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE relation = 'calls'::regclass AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND mode = 'RowExclusiveLock'"
)
"""The transactions that write calls."""


def _database_time(connection: Connection) -> float:
    if connection.dialect.name == "sqlite":
        return time()
    return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def _settled_id(now: float) -> str:
    """Where spans end that are long enough over. Others are left by a clock that was set back since: the database does
    not note changes of calls that it takes for new.
    """
    return id_at(now - _SETTLED)


def _add_spans(connection: Connection, tenant: str, due: list[_DueSpan]) -> list[_DueSpan]:
    """Make room for spans, and add those that nobody else sums up."""
    span, changed = call_spans.c, changed_spans.c
    given_up = span.complete.is_(False) & (span.id < id_at(time() - _GIVEN_UP))
    early = span.ends > _settled_id(_database_time(connection))
    noted = span.id.in_(select(changed.span).where(changed.tenant == tenant))
    connection.execute(delete(call_spans).where(span.tenant == tenant, or_(given_up, early, noted)))
    there = select(span.id).where(span.tenant == tenant)
    connection.execute(delete(changed_spans).where(changed.tenant == tenant, changed.span.not_in(there)))
    if not due:
        return []
    rows = [{"tenant": tenant, **one._asdict(), "complete": False} for one in due]
    adding = dialect_module(connection.dialect.name).insert(call_spans).on_conflict_do_nothing()
    added = set(connection.execute(adding.values(rows).returning(span.id)).scalars())
    return [one for one in due if one.id in added]


def _sum_up(connection: Connection, tenant: str, span: _DueSpan) -> list[dict[str, Any]]:
    """The rows of `call_sums` for a span, from smaller spans as far as there are any."""
    sums: dict[tuple[str, str, str], CallFigures] = {}

    def add(figures: CallFigures, *key: str) -> None:
        sums.setdefault((key[0], key[1], key[2]), CallFigures()).add(figures)

    finer = [step for step in SUM_STEPS if step < span.step]
    for piece in cover(connection, tenant, span.begins, span.ends, finer):
        if piece.span is not None:
            stored = select(call_sums).where(call_sums.c.tenant == tenant, call_sums.c.span == piece.span)
            for row in connection.execute(stored):
                add(_stored_figures(row), row.side, row.scope, row.name)
        else:
            for row in _grouped(connection, tenant, piece, calls.c.user, calls.c.tool):
                figures = _counted(row)
                add(figures, "tool", "", row.tool)
                add(figures, "user", "", row.user)
                add(figures, "own", row.user, row.tool)
    return [
        {
            "tenant": tenant, "side": side, "scope": scope, "span": span.id, "name": name,
            **{each: getattr(one, each) for each in _SUMMED}, "durations": json.dumps(one.durations),
        }
        for (side, scope, name), one in sums.items()
    ]  # fmt: skip


def _store(connection: Connection, tenant: str, span: _DueSpan, rows: list[dict[str, Any]]) -> None:
    """Keep the sums, unless the span is gone since they were begun."""
    mine = (call_spans.c.tenant == tenant) & (call_spans.c.step == span.step) & (call_spans.c.begins == span.begins)
    mine &= call_spans.c.id == span.id
    if connection.execute(select(call_spans.c.id).where(mine).with_for_update()).first() is not None:
        if rows:
            connection.execute(insert(call_sums), rows)
        connection.execute(update(call_spans).where(mine).values(complete=True))


def remove_left_sums(connection: Connection, tenant: str) -> None:
    """Remove the sums of spans that are gone."""
    there = select(call_spans.c.id).where(call_spans.c.tenant == tenant)
    connection.execute(delete(call_sums).where(call_sums.c.tenant == tenant, call_sums.c.span.not_in(there)))


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
