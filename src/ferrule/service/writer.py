"""The one thread that writes: calls, events, audit rows and administration, committed in groups.

A call that changes something is on disk before it starts, so that a crash can be told from a call that never was.
One that can be repeated starts at once; when it ends before its first row was written, both are one insert.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from queue import Empty, SimpleQueue
from time import sleep, time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from ferrule.records.row import content_of, hash_of
from ferrule.service.database import DatabaseProblem, said_by_driver
from ferrule.service.tables import approvals, audit, audit_heads, calls, events, idempotency_keys, usage, work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from ferrule.pipeline.stages import CallRecord
    from ferrule.service.database import Database

logger = logging.getLogger("ferrule.service")

T = TypeVar("T")

IDEMPOTENCY_SECONDS = 24 * 3600.0
_MOST_IN_GROUP = 2_000
_SOON = 0.05
_LINGER = 0.002
_BUSY = 6
"""How many things in one group say that more are on their way."""


@dataclass(slots=True, frozen=True)
class UsedKey:
    """An idempotency key that was used before, and for what."""

    fingerprint: str
    call: str
    batch: bool


@dataclass(slots=True)
class Op:
    """Something to write, and whoever waits for it."""

    tenant: str
    future: asyncio.Future[Any] | None = field(default=None, kw_only=True)


_NOTHING = Op("")


@dataclass(slots=True)
class InsertCalls(Op):
    """New calls; with a key, only where it was not used before. `due` is when somebody else looks after them."""

    rows: list[dict[str, Any]]
    owner: str
    due: float
    key: str | None = None
    fingerprint: str = ""
    approval: dict[str, Any] | None = None
    """What the first of them waits for; it is nobody's work then until that is decided."""


@dataclass(slots=True)
class FinishCall(Op):
    """How a call ended; gives False where it was somebody else's by then."""

    call: str
    owner: str
    values: dict[str, Any]
    news: bool = False
    """Whether other instances are told; somebody may wait there."""
    paid_by: tuple[str, str, str] | None = None
    """The user, key and tool of a call that cost something."""


@dataclass(slots=True)
class AddEvent(Op):
    row: dict[str, Any]


@dataclass(slots=True)
class AddAudit(Op):
    record: CallRecord


@dataclass(slots=True)
class StoreChange(Op):
    """Any other change, inside the tenant's transaction; whatever it gives or raises goes to whoever waits."""

    make: Callable[[Connection], Any]


@dataclass(slots=True)
class _Group:
    """What one transaction writes of one tenant."""

    inserts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    work: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    audit: list[Sequence[Any]] = field(default_factory=list["Sequence[Any]"])
    approvals: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    finishes: list[FinishCall] = field(default_factory=list[FinishCall])
    changes: list[StoreChange] = field(default_factory=list[StoreChange])


class GroupWriter:
    """Takes what is to be written from the event loop, and says when it is committed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: SimpleQueue[Op | None] = SimpleQueue()
        self._lazy: deque[Op] = deque()
        self._waking: asyncio.TimerHandle | None = None
        self._busy = False
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="ferrule-write", daemon=True)
        self._thread.start()
        dialect = sqlite if database.is_sqlite else postgresql
        claimed = dialect.insert(idempotency_keys)
        self._claim = claimed.on_conflict_do_update(
            index_elements=["tenant", "user", "key"],
            set_={name: claimed.excluded[name] for name in ("fingerprint", "call", "batch", "created")},
            where=idempotency_keys.c.created < claimed.excluded.created - IDEMPOTENCY_SECONDS,
        ).returning(idempotency_keys.c.key)

    def put(self, op: Op) -> None:
        """Write it with the next thing that somebody waits for, or soon; for the event loop's thread alone."""
        self._lazy.append(op)
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(_SOON, self._wake)

    def _wake(self) -> None:
        self._waking = None
        if self._lazy:
            self._queue.put(_NOTHING)

    def write(self, op: Op) -> asyncio.Future[Any]:
        """Write it, and wait until it is committed."""
        op.future = asyncio.get_running_loop().create_future()
        self._queue.put(op)
        return op.future

    def change(self, tenant: str, make: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Make any change in a transaction for that tenant."""
        return self.write(StoreChange(tenant, make))

    def close(self) -> None:
        """Write what is queued, and end."""
        self._queue.put(None)
        self._thread.join()
        self._let_go()

    # In the thread

    def _run(self) -> None:
        going = True
        while going:
            ops: list[Op] = []
            one = self._queue.get()
            if self._busy:
                sleep(_LINGER)  # others are about to come: one commit serves them all
            while one is not None:
                ops.append(one)
                if len(ops) >= _MOST_IN_GROUP:
                    break
                try:
                    one = self._queue.get_nowait()
                except Empty:
                    break
            going = one is not None
            # All that was put before any of them is here by now, and comes first.
            lazy = [self._lazy.popleft() for _ in range(len(self._lazy))]
            ops = [*lazy, *(op for op in ops if op is not _NOTHING)]
            if ops:
                self._commit(ops)

    def _commit(self, ops: list[Op]) -> None:
        self._busy = len(ops) >= _BUSY
        try:
            settled = self._together(ops)
        except Exception as error:  # noqa: BLE001 - one of them is at fault; the others must not suffer for it
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                logger.warning("The database was lost and is tried again: %s", said_by_driver(error))
            self._let_go()
            settled = [pair for op in ops for pair in self._alone(op)]
        _settle(settled)

    def _alone(self, op: Op) -> list[tuple[Op, Any]]:
        try:
            return self._together([op])
        except DBAPIError as error:
            self._let_go()
            logger.warning("A row could not be written: %s", said_by_driver(error))
            return [(op, DatabaseProblem(f"The database cannot be written: {said_by_driver(error)}"))]
        except Exception as error:  # noqa: BLE001 - it goes to whoever waits
            self._let_go()
            return [(op, error)]

    def _together(self, ops: list[Op]) -> list[tuple[Op, Any]]:
        results: list[tuple[Op, Any]] = []
        if self._connection is None:
            self._connection = self._database.engine.connect().execution_options(writes=True)
        connection = self._connection
        with connection.begin():
            for tenant, group in self._grouped(connection, ops, results):
                self._write_group(connection, tenant, group, results)
        return results

    def _let_go(self) -> None:
        if self._connection is not None:
            try:
                self._connection.close()
            except DBAPIError:
                self._connection.invalidate()
            self._connection = None

    def _grouped(self, connection: Connection, ops: list[Op], results: list[tuple[Op, Any]]) -> Any:
        """The work of each tenant, tenants in order: two instances never wait for each other in a circle."""
        by_tenant: dict[str, list[Op]] = {}
        for op in ops:
            by_tenant.setdefault(op.tenant, []).append(op)
        for tenant in sorted(by_tenant):
            self._database.speak_for(connection, tenant)
            yield tenant, self._group(connection, by_tenant[tenant], results)

    def _group(self, connection: Connection, ops: list[Op], results: list[tuple[Op, Any]]) -> _Group:
        group = _Group()
        finishing = {op.call: op for op in ops if isinstance(op, FinishCall)}
        for op in ops:
            if isinstance(op, InsertCalls):
                taken = self._take_key(connection, op) if op.key is not None else None
                if taken is None:
                    if op.approval is not None:
                        group.approvals.append(op.approval)
                    for row in op.rows:
                        done = finishing.get(row["id"])
                        if done is not None and op.future is None:  # it ended before its first row was written
                            del finishing[row["id"]]
                            group.inserts.append({**row, **done.values})
                            results.append((done, True))
                        else:
                            group.inserts.append(row)
                            group.work.append(
                                {"tenant": op.tenant, "call": row["id"], "owner": op.owner, "due": op.due}
                            )
                results.append((op, taken))
            elif isinstance(op, AddEvent):
                group.events.append(op.row)
                results.append((op, None))
            elif isinstance(op, AddAudit):
                group.audit.append(content_of(op.record))
                results.append((op, None))
            elif isinstance(op, StoreChange):
                group.changes.append(op)
        group.finishes = list(finishing.values())
        return group

    def _take_key(self, connection: Connection, op: InsertCalls) -> UsedKey | None:
        row = op.rows[0]
        key = {"tenant": op.tenant, "user": row["user"], "key": op.key}
        call, batch = (row["batch"], True) if row["batch"] else (row["id"], False)
        values = {**key, "fingerprint": op.fingerprint, "call": call, "batch": batch, "created": row["created"]}
        if connection.execute(self._claim, values).first() is not None:
            return None
        found = connection.execute(_KEY, key).one()
        return UsedKey(found.fingerprint, found.call, found.batch)

    def _write_group(self, connection: Connection, tenant: str, group: _Group, results: list[tuple[Op, Any]]) -> None:
        if group.inserts:
            _run(connection, "insert calls", group.inserts)
            self._count_usage(connection, tenant, group.inserts)
        if group.work:
            connection.execute(_INSERT_WORK, group.work)
        if group.approvals:
            connection.execute(_INSERT_APPROVALS, group.approvals)
        if group.events:
            connection.execute(_INSERT_EVENTS, group.events)
        if group.finishes:
            results += self._finish(connection, tenant, group.finishes)
        if group.audit:
            append_audit(connection, tenant, group.audit)
        for change in group.changes:
            results.append((change, change.make(connection)))

    def _count_usage(self, connection: Connection, tenant: str, rows: list[dict[str, Any]]) -> None:
        day = day_of(time())
        counts = Counter((row["user"], row["key"], row["tool"]) for row in rows)
        costs: Counter[tuple[str, str, str]] = Counter()
        for row in rows:
            if row["cost"]:
                costs[row["user"], row["key"], row["tool"]] += row["cost"]
        _run(
            connection,
            "count usage",
            [
                {"tenant": tenant, "day": day, "user": user, "key": key, "tool": tool, "calls": count,
                 "cost": float(costs[user, key, tool])}
                for (user, key, tool), count in sorted(counts.items())
            ],
        )  # fmt: skip

    def _count_cost(self, connection: Connection, tenant: str, finishes: list[FinishCall]) -> None:
        day = day_of(time())
        rows = [
            {"tenant": tenant, "day": day, "user": one.paid_by[0], "key": one.paid_by[1], "tool": one.paid_by[2],
             "calls": 0, "cost": one.values["cost"]}
            for one in finishes if one.paid_by is not None
        ]  # fmt: skip
        if rows:
            _run(connection, "count usage", sorted(rows, key=lambda row: (row["user"], row["key"], row["tool"])))

    def _finish(self, connection: Connection, tenant: str, finishes: list[FinishCall]) -> list[tuple[Op, Any]]:
        """End the calls that are still ours: one whose lease was lost has been judged by somebody else."""
        results: list[tuple[Op, Any]] = []
        mine: set[str] = set()
        for owner in {one.owner for one in finishes}:
            ids = [one.call for one in finishes if one.owner == owner]
            found = connection.execute(_OWNED, {"tenant_": tenant, "owner_": owner, "calls_": ids})
            mine.update(found.scalars())
        rows = [{"tenant_": tenant, "id_": one.call, **one.values} for one in finishes if one.call in mine]
        if rows:
            connection.execute(_FINISH, rows)
            connection.execute(_END_WORK, {"tenant_": tenant, "calls_": sorted(mine)})
            self._count_cost(connection, tenant, [one for one in finishes if one.call in mine])
        for one in finishes:
            results.append((one, one.call in mine))
            if one.news:
                self._database.notify(connection, f"call:{one.call}")
        return results


def append_audit(connection: Connection, tenant: str, contents: Sequence[Sequence[Any]]) -> None:
    """Add rows to a tenant's chain: each carries the hash of the one before, from whichever instance that came."""
    head: tuple[int, str] | None = _run(connection, "lock head", {"tenant_": tenant}).fetchone()
    seq, hash_before = head if head is not None else (0, "")
    rows: list[dict[str, Any]] = []
    for content in contents:
        seq += 1
        sealed = hash_of(seq, content, hash_before)  # text and numbers, which JSON gives back as they were
        kept = json.dumps(content)
        rows.append({"tenant": tenant, "seq": seq, "content": kept, "prev_hash": hash_before, "hash": sealed})
        hash_before = sealed
    _run(connection, "insert audit", rows)
    new = {"tenant": tenant, "seq": seq, "hash": hash_before}
    if head is None:
        connection.execute(insert(audit_heads), new)
    else:
        _run(connection, "move head", [{"tenant_": tenant, "seq_": seq, "hash_": hash_before}])


@cache
def _hot(dialect: str) -> dict[str, str]:
    """The statements of every call as text, made once: putting them together costs more than running them."""
    kind: Any = sqlite if dialect == "sqlite" else postgresql
    form = sqlite.dialect(paramstyle="named") if dialect == "sqlite" else postgresql.dialect(paramstyle="pyformat")
    counted = kind.insert(usage)
    mine = audit_heads.c.tenant == bindparam("tenant_")
    statements: dict[str, Any] = {
        "insert calls": kind.insert(calls).on_conflict_do_nothing(),
        "count usage": counted.on_conflict_do_update(
            index_elements=["tenant", "day", "user", "key", "tool"],
            set_={name: usage.c[name] + counted.excluded[name] for name in ("calls", "cost")},
        ),
        "lock head": select(audit_heads.c.seq, audit_heads.c.hash).where(mine).with_for_update(),
        "move head": update(audit_heads).where(mine).values(seq=bindparam("seq_"), hash=bindparam("hash_")),
        "insert audit": insert(audit),
    }
    return {name: str(statement.compile(dialect=form)) for name, statement in statements.items()}


def _run(connection: Connection, name: str, values: Any) -> Any:
    """Run one of them on the driver's own connection, in the transaction that is open on it."""
    cursor: Any = cast("Any", connection.connection.driver_connection).cursor()
    run = cursor.executemany if isinstance(values, list) else cursor.execute
    run(_hot(connection.dialect.name)[name], values)
    return cursor


def day_of(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


def _settle(settled: list[tuple[Op, Any]]) -> None:
    """Tell each loop once of all that is committed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for op, result in settled:
        if op.future is not None:
            by_loop.setdefault(op.future.get_loop(), []).append((op.future, result))
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, pairs)
        except RuntimeError:
            continue  # the loop is closed: nobody waits any more


def _resolve(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in pairs:
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


_KEY = select(idempotency_keys.c.fingerprint, idempotency_keys.c.call, idempotency_keys.c.batch).where(
    idempotency_keys.c.tenant == bindparam("tenant"),
    idempotency_keys.c.user == bindparam("user"),
    idempotency_keys.c.key == bindparam("key"),
)
_INSERT_WORK = insert(work)
_INSERT_EVENTS = insert(events)
_INSERT_APPROVALS = insert(approvals)
_OWNED = (
    select(work.c.call)
    .where(
        work.c.tenant == bindparam("tenant_"),
        work.c.owner == bindparam("owner_"),
        work.c.call.in_(bindparam("calls_", expanding=True)),
    )
    .with_for_update()
)
_END_WORK = delete(work).where(
    work.c.tenant == bindparam("tenant_"), work.c.call.in_(bindparam("calls_", expanding=True))
)
_FINISH = update(calls).where(calls.c.tenant == bindparam("tenant_"), calls.c.id == bindparam("id_"))
_HEAD = (
    select(audit_heads.c.seq, audit_heads.c.hash).where(audit_heads.c.tenant == bindparam("tenant_")).with_for_update()
)
