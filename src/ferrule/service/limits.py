"""How much a tenant, a user and a key may use, in all and of single tools; and whose turn it is when many want to.

Rate and concurrency are counted by each instance. Calls a day and what calls cost are counted in the database, over all
instances and restarts; what another instance counted is seen within a few seconds. What a call costs is known when it
ends, so that calls which run while a limit is reached may go over it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, func, select

from ferrule.service.tables import usage
from ferrule.service.writer import day_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.service.database import Database
    from ferrule.service.directory import Directory, Principal

_DAY = 86_400.0
_COUNT_AGAIN = 5.0
"""After how many seconds the calls that other instances took are counted again."""
_STORED = ("calls_per_day", "spend_per_day", "spend_per_month")
"""Limits on what the store counts."""
_ROUNDING = 1e-9
"""Sums of what calls cost are a little off: ten times 0.1 is not quite 1."""
_ROOM, _SHARE = 64, 4
"""How many calls are worked on at once, and how many of them for one tenant where several have more than that."""
_SHARED_SECONDS = 1.0
_TURN_SECONDS = 0.005
_GONE_SECONDS = 0.002
"""After how long somebody whose call has ended is no longer expected to come again at once."""
_PAUSE_SECONDS = 0.004
"""And how long one that floods waits for others between two of its calls."""
_MOST_WAITING = 1_000
_MOST_SUBJECTS = 100_000


class LimitReached(Exception):  # noqa: N818 - reads as what it says
    """A limit that a request would go over; says whose, and when to come again."""

    def __init__(self, limit: str, whose: str, most: float, retry_after: float, message: str) -> None:
        super().__init__(message)
        self.limit = limit
        self.whose = whose
        self.most = most
        self.retry_after = retry_after


class TooManyAtOnce(LimitReached):
    """More calls than a limit lets through at once, however long anybody waits."""


class TokenBucket:
    """Lets `rate` through a second, and `burst` at once."""

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._at = monotonic()

    def take(self) -> float:
        """Take one; gives the seconds until there is one where there is none."""
        now = monotonic()
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self.rate

    def give_back(self) -> None:
        self._tokens = min(self.burst, self._tokens + 1.0)


class _Subject:
    """One tenant, user or key that has limits, in all or for one tool."""

    __slots__ = (
        "bucket", "counted_at", "day", "is_stored", "limits", "running", "spent_this_month",
        "spent_today", "today", "tool", "whose",
    )  # fmt: skip

    def __init__(self, whose: str, limits: Mapping[str, float], tool: str = "") -> None:
        self.whose = whose
        self.tool = tool
        self.limits = limits
        self.running = 0
        self.today = 0
        self.spent_today = self.spent_this_month = 0.0
        self.day = ""
        self.counted_at = -_DAY
        self.is_stored = any(limits.get(name) for name in _STORED)
        """Whether the store counts for one of them."""
        rate = limits.get("rate") or 0.0
        burst = limits.get("burst") or max(1.0, rate)
        self.bucket = TokenBucket(rate, max(1.0, burst)) if rate else None

    @property
    def calls(self) -> str:
        return f"calls of `{self.tool}`" if self.tool else "calls"

    def change(self, limits: Mapping[str, float]) -> None:
        """Take other limits; the count of what runs stays."""
        new = _Subject(self.whose, limits)
        self.limits, self.bucket, self.is_stored, self.counted_at = limits, new.bucket, new.is_stored, -_DAY


@dataclass(slots=True, frozen=True)
class ByteBounds:
    """What of one call is bounded by whom; 0 is no bound."""

    argument_bytes: int
    result_bytes: int


Admitted = tuple[tuple[_Subject, int], ...]
"""What calls were counted against, and how many of them."""


@dataclass(slots=True, frozen=True)
class _Plan:
    """What counts for calls of one caller, or of one caller with one tool."""

    subjects: tuple[_Subject, ...]
    bounds: ByteBounds
    tools: frozenset[str]
    """The tools that have limits of their own."""
    given: tuple[tuple[str, Mapping[str, Any]], ...]
    """The caller's limits that it was made of; a caller may have been read before or after a change."""


class CallLimits:
    """Counts calls against the limits of whoever makes them."""

    def __init__(self, database: Database, directory: Directory, defaults: Mapping[str, Any]) -> None:
        self._database = database
        self._directory = directory
        self._defaults = {name: value for name, value in defaults.items() if value}
        self._subjects: dict[tuple[str, str, str, str], _Subject] = {}
        self._plans: dict[tuple[str, str, str, str], _Plan] = {}
        self._generation = -1
        self._last: tuple[Principal | None, _Plan | None] = None, None
        """Who was asked about last, as the same call asks several times."""

    async def admit(self, principal: Principal, calls: Mapping[str, int]) -> Admitted:
        """Count new calls, by tool; raises `LimitReached` and counts nothing where one limit would be gone over.

        What it gives is handed to `release` once they have ended.
        """
        counted = self._counted(principal, calls)
        for subject, _ in counted:
            if subject.is_stored:
                await self._count_stored(principal, subject)
        for subject, count in counted:
            if count > 1:
                _require_possible(subject, count)
        for subject, count in counted:
            self._check(subject, count)
        taken: list[TokenBucket] = []
        for subject, count in counted:
            if (bucket := subject.bucket) is None:
                continue
            for _ in range(count):
                if wait := bucket.take():
                    for other in taken:
                        other.give_back()
                    said = f"More than {bucket.rate:g} {subject.calls} a second are too many for this {subject.whose}."
                    raise LimitReached("rate", subject.whose, bucket.rate, wait, said)
                taken.append(bucket)
        for subject, count in counted:
            subject.running += count
            subject.today += count
        return counted

    async def admit_again(self, principal: Principal, tool: str, *, begun: bool = False) -> Admitted:
        """Count a call that came before and starts only now, such as one that was approved: its rate and its day were
        counted when it came. One that had `begun` keeps its place, wherever it goes on.
        """
        counted = self._counted(principal, {tool: 1})
        for subject, _ in counted:
            if subject.is_stored:
                await self._count_stored(principal, subject)
        for subject, count in () if begun else counted:
            self._check(subject, count, again=True)
        for subject, count in counted:
            subject.running += count
        return counted

    def _counted(self, principal: Principal, calls: Mapping[str, int]) -> Admitted:
        plan = self._plan(principal)
        every = sum(calls.values())
        counted = [(subject, every) for subject in plan.subjects]
        for tool in plan.tools.intersection(calls) if plan.tools else ():
            counted += [(subject, calls[tool]) for subject in self._plan(principal, tool).subjects if subject.tool]
        return tuple(counted)

    def release(self, admitted: Admitted) -> None:
        for subject, count in admitted:
            subject.running -= count

    def take_back(self, admitted: Admitted) -> None:
        """For calls that were let in and then not made."""
        for subject, count in admitted:
            subject.running -= count
            subject.today = max(0, subject.today - count)
            for _ in range(count if subject.bucket is not None else 0):
                assert subject.bucket is not None  # noqa: S101 - just looked
                subject.bucket.give_back()

    def charge(self, admitted: Admitted, tool: str, cost: float) -> None:
        """Count at once what a call cost; other instances read it from the store."""
        for subject, _ in admitted:
            if subject.tool in ("", tool):
                subject.spent_today += cost
                subject.spent_this_month += cost

    def bounds(self, principal: Principal, tool: str = "") -> ByteBounds:
        return self._plan(principal, tool).bounds

    def _check(self, subject: _Subject, count: int, *, again: bool = False) -> None:
        limits, whose = subject.limits, subject.whose
        most = limits.get("concurrency")
        if most and subject.running + count > most:
            said = f"{subject.running} {subject.calls} of this {whose} run, and {most:g} may."
            raise LimitReached("concurrency", whose, most, 1.0, said)
        if not subject.is_stored:
            return
        calls = subject.calls
        most = limits.get("calls_per_day")
        if most and not again and subject.today + count > most:
            said = f"This {whose} has made {subject.today} {calls} today (UTC), and {most:g} are allowed."
            raise LimitReached("calls_per_day", whose, most, _left_of_day(), said)
        for name, spent, when, left in (
            ("spend_per_day", subject.spent_today, "today", _left_of_day),
            ("spend_per_month", subject.spent_this_month, "this month", _left_of_month),
        ):
            most = limits.get(name)
            if most and spent >= most * (1 - _ROUNDING):
                said = f"The {calls} of this {whose} have cost {spent:.6g} {when} (UTC), and {most:g} is allowed."
                raise LimitReached(name, whose, most, left(), said)

    async def _count_stored(self, principal: Principal, subject: _Subject) -> None:
        """What all instances have counted; now and then, and when the day is a new one."""
        today = day_of(time())
        if subject.day == today and monotonic() - subject.counted_at < _COUNT_AGAIN:
            return
        subject.counted_at = monotonic()
        since = f"{today[:7]}-01" if subject.limits.get("spend_per_month") else today
        of_today = usage.c.day == today
        query = select(
            func.coalesce(func.sum(case((of_today, usage.c.calls), else_=0)), 0),
            func.coalesce(func.sum(case((of_today, usage.c.cost), else_=0.0)), 0.0),
            func.coalesce(func.sum(usage.c.cost), 0.0),
        ).where(usage.c.tenant == principal.tenant, usage.c.day >= since)
        if subject.whose != "tenant":
            query = query.where(usage.c[subject.whose] == getattr(principal, subject.whose))
        if subject.tool:
            query = query.where(usage.c.tool == subject.tool)
        calls, spent, in_all = await self._database.read(
            principal.tenant, lambda connection: connection.execute(query).one()
        )
        # What is not written yet is known here alone.
        same_day, same_month = subject.day == today, subject.day[:7] == today[:7]
        subject.today = max(calls, subject.today) if same_day else calls
        subject.spent_today = max(spent, subject.spent_today) if same_day else spent
        subject.spent_this_month = max(in_all, subject.spent_this_month) if same_month else in_all
        subject.day = today

    def _plan(self, principal: Principal, tool: str = "") -> _Plan:
        last, plan = self._last
        if last is principal and plan is not None and self._generation == self._directory.generation and not plan.tools:
            return plan
        if self._generation != self._directory.generation or len(self._plans) > _MOST_SUBJECTS:
            self._plans.clear()
            self._generation = self._directory.generation
        key = principal.tenant, principal.user, principal.key, ""
        plan = self._plans.get(key)
        if plan is None or (plan.given is not principal.limits and plan.given != principal.limits):
            for other in plan.tools if plan is not None else ():
                self._plans.pop((*key[:3], other), None)
            plan = self._plans[key] = self._new_plan(principal, "")
        self._last = principal, plan
        if tool not in plan.tools:
            return plan
        own = self._plans.get((*key[:3], tool))
        if own is None:
            own = self._plans[*key[:3], tool] = self._new_plan(principal, tool)
        return own

    def _new_plan(self, principal: Principal, tool: str) -> _Plan:
        subjects: list[_Subject] = []
        tools: set[str] = set()
        bounds = {"argument_bytes": 0, "result_bytes": 0}
        for whose, given in principal.limits:
            limits = self._merged(given) if whose == "tenant" else dict(given)
            of_tools: dict[str, dict[str, float]] = limits.pop("tools", None) or {}
            tools.update(of_tools)
            layers: list[tuple[str, dict[str, float]]] = [("", limits)]
            if tool in of_tools:
                layers.append((tool, of_tools[tool]))
            for name, values in layers:
                for bound in bounds:
                    if least := int(values.get(bound) or 0):
                        bounds[bound] = min(bounds[bound] or least, least)
                if any(values.get(one) for one in ("rate", "concurrency", *_STORED)):
                    subjects.append(self._subject(principal, whose, name, values))
        return _Plan(tuple(subjects), ByteBounds(**bounds), frozenset(tools), principal.limits)

    def _merged(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A tenant's limits over the service's own; of tools each by itself."""
        tools: dict[str, Any] = {**self._defaults.get("tools", {}), **(given.get("tools") or {})}
        return {**self._defaults, **given, "tools": tools}

    def _subject(self, principal: Principal, whose: str, tool: str, limits: Mapping[str, float]) -> _Subject:
        one = principal.tenant if whose == "tenant" else getattr(principal, whose)
        key = whose, principal.tenant, one, tool
        known = self._subjects.get(key)
        if known is None:
            known = self._subjects[key] = _Subject(whose, limits, tool)
        elif known.limits != limits:
            known.change(limits)
        return known


def _require_possible(subject: _Subject, count: int) -> None:
    """Raise `TooManyAtOnce` for a batch that no waiting makes possible."""
    bounds = {name: int(subject.limits.get(name) or 0) for name in ("concurrency", "calls_per_day")}
    bounds["burst"] = int(subject.bucket.burst) if subject.bucket is not None else 0
    name, most = min(((name, most) for name, most in bounds.items() if most), key=lambda one: one[1], default=("", 0))
    if most and count > most:
        said = (
            f"A batch with {count} {subject.calls} can never start: `{name}` of this {subject.whose} is {most}. "
            f"Send at most {most} in one batch."
        )
        raise TooManyAtOnce(name, subject.whose, most, 0.0, said)


def _left_of_day() -> float:
    return _DAY - time() % _DAY


def _left_of_month() -> float:
    now = datetime.now(UTC)
    following = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return (following - now).total_seconds()


class GateTurn:
    """A place among the calls that are worked on; given up at the end of a call, or after a moment by a slow one."""

    __slots__ = ("_gate", "_tenant", "until")

    def __init__(self, gate: FairGate, tenant: str, until: float) -> None:
        self._gate: FairGate | None = gate
        self._tenant = tenant
        self.until = until
        """When it is given up at the latest."""

    def release(self) -> None:
        if self._gate is not None:
            gate, self._gate = self._gate, None
            gate.left(self._tenant)


class FairGate:
    """Lets calls in by turns. Where several tenants want something, few of each are worked on at once: one that floods
    waits in its own queue, and neither the event loop nor the writer is full of its calls when another's come. One that
    floods beside others that do not has one place, and that only in the pauses of the others or every few milliseconds:
    what it has in work is what they wait for.

    A call that waits for something else than those two gives its place up.
    """

    def __init__(self, *, room: int = _ROOM, share: int = _SHARE, most_waiting: int = _MOST_WAITING) -> None:
        self._room = room
        self._share = share
        self._most_waiting = most_waiting
        self._inside: dict[str, int] = {}
        """By tenant, of those that have any."""
        self._total = 0
        self._given: deque[GateTurn] = deque()
        """Turns by when they end; one timer looks after all of them."""
        self._waiting: dict[str, deque[asyncio.Future[GateTurn]]] = {}
        self._flood_left = self._other_left = self._look_at = 0.0
        """When a call of the one that floods has left, and one of another; and when it is looked again who may come."""
        self._last = ""
        self._other_at = -_SHARED_SECONDS

    async def turn(self, tenant: str) -> GateTurn:
        """Wait for this tenant's turn; raises `LimitReached` where too many of it wait already."""
        loop = asyncio.get_running_loop()
        if tenant != self._last:
            self._last, self._other_at = tenant, monotonic() if self._last else self._other_at
        is_alone = self._other_at == -_SHARED_SECONDS
        if (
            self._total < self._room
            and tenant not in self._waiting
            and (is_alone or self._inside.get(tenant, 0) < self._most_inside)
        ):
            return self._give(tenant, loop)
        queue = self._waiting.get(tenant)
        if queue is None:
            queue = self._waiting[tenant] = deque()
        if len(queue) >= self._most_waiting:
            said = f"{len(queue)} calls of this tenant wait to be started already."
            raise LimitReached("waiting", "tenant", self._most_waiting, 1.0, said)
        future: asyncio.Future[GateTurn] = loop.create_future()
        queue.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # its turn came in the same moment
                future.result().release()
            raise

    @property
    def _most_inside(self) -> int:
        if self._other_at == -_SHARED_SECONDS or monotonic() - self._other_at >= _SHARED_SECONDS:
            self._other_at = -_SHARED_SECONDS  # none but the last has come for a while
            return self._room
        return self._share if len(self._waiting) > 1 else 1

    def _give(self, tenant: str, loop: asyncio.AbstractEventLoop) -> GateTurn:
        turn = GateTurn(self, tenant, loop.time() + _TURN_SECONDS)
        self._inside[tenant] = self._inside.get(tenant, 0) + 1
        self._total += 1
        if not self._given:
            loop.call_at(turn.until, self._end_turns, loop)
        self._given.append(turn)
        return turn

    def _end_turns(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the places of slow calls; most have given theirs up by themselves."""
        given, now = self._given, loop.time()
        while given and given[0].until <= now:
            given[0].release()
            given.popleft()
        if given:  # those that end in the next moment end together
            loop.call_at(max(given[0].until, now + _TURN_SECONDS / 2), self._end_turns, loop)

    def left(self, tenant: str) -> None:
        """A call has given up its place: whoever may come in does, one tenant after the other."""
        self._total -= 1
        self._inside[tenant] -= 1
        if not self._inside[tenant]:
            del self._inside[tenant]
        if not self._waiting:
            return
        if tenant in self._waiting:
            self._flood_left = monotonic()
        else:
            self._other_left = monotonic()
        self._let_more_in()

    def _let_more_in(self) -> None:
        """Let in whoever may come. One that floods beside others waits until none of them has been there for a moment,
        for those who wait for each answer ask again at once; but not for ever.
        """
        if all(len(queue) <= self._share for queue in self._waiting.values()) or self._most_inside > 1:
            self._let_all_in()
            return
        due = self._flood_left + _PAUSE_SECONDS
        if not self._total:
            due = min(due, self._other_left + _GONE_SECONDS)
        if (now := monotonic()) >= due:
            self._let_all_in()
        elif not now < self._look_at <= due:
            self._look_at = due
            asyncio.get_running_loop().call_later(due - now, self._look_again)

    def _look_again(self) -> None:
        self._look_at = 0.0  # by a clock with long steps it may not be time yet, and nobody else would look
        self._let_more_in()

    def _let_all_in(self) -> None:
        more = bool(self._waiting)
        while more:
            more = False
            for waiting in list(self._waiting):
                if self._total >= self._room:
                    return
                if self._inside.get(waiting, 0) < self._most_inside:
                    self._let_in(waiting)
                    more = True

    def _let_in(self, tenant: str) -> None:
        """The first that waits of a tenant, which is behind the others then."""
        queue = self._waiting.pop(tenant)
        while queue:
            future = queue.popleft()
            if not future.done():  # whoever waited may have been cancelled
                future.set_result(self._give(tenant, future.get_loop()))
                break
        if queue:
            self._waiting[tenant] = queue
