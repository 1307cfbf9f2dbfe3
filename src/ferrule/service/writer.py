"""The one thread that writes: calls, events, audit rows and administration, committed in groups.

A call that changes something is on disk before it starts, so that a crash can be told from a call that never was.
One that can be repeated starts at once, and its first row is held back for a moment: when it ends within that, both
are one insert.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import itemgetter
from queue import Empty, SimpleQueue
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import DBAPIError

from ferrule.records.row import CONTENT, content_of
from ferrule.records.writer import settle
from ferrule.service.database import DatabaseProblem, OutcomeUnknown, dialect_module, said_by_driver, was_committed
from ferrule.service.documents import json_text, kept_arguments, stored_arguments
from ferrule.service.tables import audit, audit_heads, calls, events, idempotency_keys, usage, work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Executable

    from ferrule.pipeline.stages import CallRecord
    from ferrule.service.database import Database

logger = logging.getLogger("ferrule.service")

T = TypeVar("T")
Along = tuple["Callable[[Connection], object]", ...]

IDEMPOTENCY_SECONDS = 24 * 3600.0
_MOST_IN_GROUP = 2_000
FINISH_VALUES = (
    "status", "result", "arguments", "version", "approval", "started", "finished", "started_seq", "last_seq",
    "cost",
)  # fmt: skip
"""What the end of a call changes of its row."""
_ARGUMENTS = CONTENT.index("arguments")
_SOON = 0.05
SOON_WRITTEN = 0.5
"""Within how many seconds also what nobody waits for is surely written."""
_LINGER = 0.002
_SEEN_LATELY = 0.005
"""For how many seconds calls alone are no reason to look for changes of rights again."""
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
    along: Along = ()
    """What else is stored with them, in the same transaction: an approval, what a form was told."""


@dataclass(slots=True)
class FinishCall(Op):
    """How a call ended; gives False where it was somebody else's by then. From `arguments` secrets are taken out before
    they are stored.
    """

    call: str
    owner: str
    values: dict[str, Any]
    news: bool = False
    """Whether other instances are told; somebody may wait there."""
    paid_by: tuple[str, str, str] | None = None
    """The user, key and tool of a call that cost something."""
    first: InsertCalls | None = None
    """Its first row, where that was held back until now."""
    is_clean: bool = False
    """Whether its arguments have no secrets any more."""


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
    along: list[Callable[[Connection], object]] = field(default_factory=list["Callable[[Connection], object]"])
    finishes: list[FinishCall] = field(default_factory=list[FinishCall])
    changes: list[StoreChange] = field(default_factory=list[StoreChange])


class GroupWriter:
    """Takes what is to be written from the event loop, and says when it is committed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queue: SimpleQueue[Op | None] = SimpleQueue()
        self._lazy: deque[Op] = deque()
        self._held: dict[str, tuple[float, InsertCalls]] = {}
        """By call, until when: first rows that nobody waits for, whose calls may end any moment; of the event loop's
        thread alone."""
        self._waking: asyncio.TimerHandle | None = None
        self._busy = False
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="ferrule-write", daemon=True)
        self._thread.start()
        claimed = dialect_module(database.engine.dialect.name).insert(idempotency_keys)
        self._claim = claimed.on_conflict_do_update(
            index_elements=["tenant", "user", "key"],
            set_={name: claimed.excluded[name] for name in ("fingerprint", "call", "batch", "created")},
            where=idempotency_keys.c.created < claimed.excluded.created - IDEMPOTENCY_SECONDS,
        ).returning(idempotency_keys.c.key)

    def put(self, op: Op) -> None:
        """Write it with the next thing that somebody waits for, or soon; for the event loop's thread alone."""
        if self._held and type(op) is not AddAudit:
            self._before(op)
        self._lazy.append(op)
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(_SOON, self._wake)

    def hold(self, op: InsertCalls) -> None:
        """Write the first row of a call with its end, or soon where it takes longer."""
        self._held[op.rows[0]["id"]] = monotonic() + _SOON, op
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(_SOON, self._wake)

    def _wake(self) -> None:
        now = monotonic()
        for call in [call for call, (until, _) in self._held.items() if until <= now]:
            self._lazy.append(self._held.pop(call)[1])
        if self._lazy:
            self._queue.put(_NOTHING)
        self._waking = asyncio.get_running_loop().call_later(_SOON, self._wake) if self._held else None

    def _before(self, op: Op) -> None:
        """See that the first row of a call is written before an event or another change that may be about it."""
        if type(op) is AddEvent:
            calls = [op.row["call"]] if op.row["call"] in self._held else []
        elif type(op) is StoreChange:
            calls = [call for call, (_, first) in self._held.items() if op.tenant in ("", first.tenant)]
        else:
            return
        for call in calls:
            self._lazy.append(self._held.pop(call)[1])

    def write(self, op: Op) -> asyncio.Future[Any]:
        """Write it, and wait until it is committed."""
        if type(op) is FinishCall:
            if op.call in self._held:
                op.first = self._held.pop(op.call)[1]
        elif self._held:
            self._before(op)
        op.future = asyncio.get_running_loop().create_future()
        self._queue.put(op)
        return op.future

    def change(self, tenant: str, make: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Make any change in a transaction for that tenant."""
        return self.write(StoreChange(tenant, make))

    def execute(self, tenant: str, statement: Executable) -> asyncio.Future[int]:
        """Make one statement a change; gives how many rows it was about."""
        return self.change(tenant, lambda connection: connection.execute(statement).rowcount)

    def close(self) -> None:
        """Write what is queued, and end."""
        self._lazy.extend(first for _, first in self._held.values())
        self._held.clear()
        self._queue.put(None)
        self._thread.join()
        self._let_go()

    # In the thread

    def _run(self) -> None:
        going = True
        while going:
            ops: list[Op] = []
            one = self._queue.get()
            if self._busy and self._held:
                sleep(_LINGER)  # others run and are about to end: one commit serves them all
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
            if ops := [*lazy, *(op for op in ops if op is not _NOTHING)]:
                self._commit(ops)

    def _commit(self, ops: list[Op]) -> None:
        self._busy = len(ops) >= _BUSY
        try:
            settled = self._together(ops)
        except OutcomeUnknown as unknown:
            settled: list[tuple[Op, Any]] = [(op, unknown) for op in ops]
        except Exception as error:  # noqa: BLE001 - one of them is at fault; the others must not suffer for it
            if self._let_go(error):
                logger.warning("The database was lost and is tried again: %s", said_by_driver(error))
            settled = [pair for op in ops for pair in self._alone(op)]
        settle((op.future, result) for op, result in settled if op.future is not None)

    def _alone(self, op: Op) -> list[tuple[Op, Any]]:
        try:
            return self._together([op])
        except Exception as error:  # noqa: BLE001 - it goes to whoever waits
            self._let_go(error)
            if not isinstance(error, (DBAPIError, self._database.driver_error)):
                return [(op, error)]
            logger.warning("A row could not be written: %s", said_by_driver(error))
            return [(op, DatabaseProblem(f"The database cannot be written: {said_by_driver(error)}"))]

    def _together(self, ops: list[Op]) -> list[tuple[Op, Any]]:
        results: list[tuple[Op, Any]] = []
        if self._connection is None:
            self._connection = self._database.engine.connect().execution_options(writes=True)
        connection = self._connection
        for_driver = _are_for_driver(ops)
        number: int | None = None
        seen: tuple[int, float] | None = None
        try:
            with self._database.driver_transaction(connection) if for_driver else connection.begin():
                cursor: Any = None
                for tenant, group, spoken in self._grouped(connection, ops, results):
                    self._write_group(connection, tenant, group, results)
                    cursor = spoken
                now = monotonic()
                seen_lately = for_driver and now - self._database.changes_seen[1] < _SEEN_LATELY
                # On PostgreSQL a change of rights waits for this transaction, or this one for it: whoever starts a call
                # once it is stored knows of every change that was made before.
                if self._database.is_sqlite and not seen_lately:
                    seen = _cursor(connection).execute("SELECT count FROM changes").fetchone()[0], now
                elif not self._database.is_sqlite and any(type(op) is InsertCalls for op in ops):
                    counted = _cursor(connection)
                    counted.execute("SELECT count FROM changes FOR SHARE")
                    seen = counted.fetchone()[0], now
                if cursor is not None:
                    number = cursor.fetchone()[1]
        except Exception as error:
            # Only the answer to the COMMIT may be lost: what is stored is not stored again.
            if number is None or not self._let_go(error) or not was_committed(self._database.engine, number):
                raise
        if seen is not None:  # not before: whoever reads anew because of it must find what has changed
            self._database.changes_seen = seen
        return results

    def _let_go(self, error: Exception | None = None) -> bool:
        """Give the connection back; says whether the database was lost, and with it every other connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return isinstance(error, DBAPIError) and error.connection_invalidated
        lost = error is not None and self._database.is_lost(connection, error)
        try:
            if lost:
                connection.invalidate()
            connection.close()
        except DBAPIError:
            connection.invalidate()
        return lost

    def _grouped(self, connection: Connection, ops: list[Op], results: list[tuple[Op, Any]]) -> Any:
        """The work of each tenant, tenants in order: two instances never wait for each other in a circle."""
        by_tenant: dict[str, list[Op]] = {}
        for op in ops:
            by_tenant.setdefault(op.tenant, []).append(op)
        for tenant in sorted(by_tenant):
            spoken = self._database.write_for(connection, tenant)
            yield tenant, self._group(connection, by_tenant[tenant], results), spoken

    def _group(self, connection: Connection, ops: list[Op], results: list[tuple[Op, Any]]) -> _Group:
        group, is_sqlite = _Group(), self._database.is_sqlite
        recorded: dict[str, tuple[Any, Sequence[Any]]] = {}
        for op in ops:
            kind = type(op)
            if kind is AddAudit:
                record = cast("AddAudit", op).record
                content = content_of(record)
                recorded[record.call_id] = record.arguments, content
                group.audit.append(content)
            elif kind is FinishCall:
                op = cast("FinishCall", op)
                if not op.is_clean:
                    _clean(op, *recorded.get(op.call, (None, ())))
                if op.first is None:
                    group.finishes.append(op)
                else:  # it ended before its first row was written
                    row = {**op.first.rows[0], **op.values}
                    if is_sqlite:  # whose driver takes longer over a bool than over a whole row
                        row["repeatable"], row["cancelling"] = int(row["repeatable"]), int(row["cancelling"])
                    group.inserts.append(row)
                    results.append((op, True))
            elif kind is InsertCalls:
                op = cast("InsertCalls", op)
                taken = self._take_key(connection, op) if op.key is not None else None
                if taken is None:
                    group.along += op.along
                    group.inserts += op.rows
                    group.work += [
                        {"tenant": op.tenant, "call": row["id"], "owner": op.owner, "due": op.due} for row in op.rows
                    ]
                results.append((op, taken))
            elif kind is AddEvent:
                group.events.append(cast("AddEvent", op).row)
            else:
                group.changes.append(cast("StoreChange", op))
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
            _run_many(connection, "insert calls", group.inserts)
            self._count_usage(connection, tenant, group.inserts)
        if group.work:
            _run_many(connection, "insert work", group.work)
        for store in group.along:
            store(connection)
        if group.events:
            _run_many(connection, "insert events", group.events)
        if group.finishes:
            results += self._finish(connection, tenant, group.finishes)
        if group.audit:
            append_audit(connection, tenant, group.audit)
        for change in group.changes:
            results.append((change, change.make(connection)))

    def _count_usage(self, connection: Connection, tenant: str, rows: list[dict[str, Any]]) -> None:
        day, counts = day_of(time()), dict[tuple[str, str, str], list[float]]()
        for row in rows:
            counted = counts.setdefault((row["user"], row["key"], row["tool"]), [0, 0.0])
            counted[0] += 1
            counted[1] += row["cost"]
        _run_many(
            connection,
            "count usage",
            [
                {"tenant": tenant, "day": day, "user": user, "key": key, "tool": tool, "calls": calls_, "cost": cost}
                for (user, key, tool), (calls_, cost) in sorted(counts.items())
            ],
        )

    def _count_cost(self, connection: Connection, tenant: str, finishes: list[FinishCall]) -> None:
        day = day_of(time())
        rows = [
            {"tenant": tenant, "day": day, "user": one.paid_by[0], "key": one.paid_by[1], "tool": one.paid_by[2],
             "calls": 0, "cost": one.values["cost"]}
            for one in finishes if one.paid_by is not None
        ]  # fmt: skip
        if rows:
            _run_many(connection, "count usage", sorted(rows, key=lambda row: (row["user"], row["key"], row["tool"])))

    def _finish(self, connection: Connection, tenant: str, finishes: list[FinishCall]) -> list[tuple[Op, Any]]:
        """End the calls that are still ours: one whose lease was lost has been judged by somebody else."""
        results: list[tuple[Op, Any]] = []
        mine: set[str] = set()
        sqlite_ = self._database.is_sqlite
        for owner in {one.owner for one in finishes}:
            ids = sorted(one.call for one in finishes if one.owner == owner)
            cursor = _cursor(connection)
            cursor.execute(_END_WORK[sqlite_], (tenant, owner, json.dumps(ids) if sqlite_ else ids))
            mine.update(call for (call,) in cursor.fetchall())
        rows = [{"tenant_": tenant, "id_": one.call, **one.values} for one in finishes if one.call in mine]
        if rows:
            _run_many(connection, "finish", rows)
            self._count_cost(connection, tenant, [one for one in finishes if one.call in mine])
        for one in finishes:
            results.append((one, one.call in mine))
            if one.news:
                self._database.notify(connection, f"call:{one.call}")
        return results


def count_cost(connection: Connection, row: Mapping[str, Any], cost: float) -> None:
    """Count what a call cost that ends without a `FinishCall`."""
    counted = {name: row[name] for name in ("tenant", "user", "key", "tool")}
    _run_many(connection, "count usage", [{**counted, "day": day_of(time()), "calls": 0, "cost": cost}])


def _clean(op: FinishCall, recorded: Any, content: Sequence[Any]) -> None:
    """Take the secrets out of a call's arguments, unless its audit row has them like that already."""
    given = op.values["arguments"]
    if given is recorded:
        op.values["arguments"] = stored_arguments(content[_ARGUMENTS], content[_ARGUMENTS + 1])
    else:
        op.values["arguments"] = kept_arguments(given)
    op.is_clean = True


def find_key(connection: Connection, tenant: str, user: str, key: str) -> UsedKey | None:
    """What a key was used for in the last 24 hours."""
    fresh = idempotency_keys.c.created >= time() - IDEMPOTENCY_SECONDS
    found = connection.execute(_KEY.where(fresh), {"tenant": tenant, "user": user, "key": key}).first()
    return UsedKey(found.fingerprint, found.call, found.batch) if found is not None else None


def _are_for_driver(ops: list[Op]) -> bool:
    """Whether all that they write are statements of every call."""
    for op in ops:
        if isinstance(op, FinishCall):
            special = op.news
        elif isinstance(op, InsertCalls):
            special = op.key is not None or bool(op.along)
        else:
            special = isinstance(op, StoreChange)
        if special:
            return False
    return True


def append_audit(connection: Connection, tenant: str, contents: Sequence[Sequence[Any]]) -> None:
    """Add rows to a tenant's chain: each carries the hash of the one before, from whichever instance that came."""
    cursor = _cursor(connection)
    cursor.execute(_hot(connection.dialect.name)["lock head"].text, (tenant,))
    head: tuple[int, str] | None = cursor.fetchone()
    seq, hash_before = head if head is not None else (0, "")
    rows: list[dict[str, Any]] = []
    for content in contents:
        seq += 1
        kept = json_text(content)
        sealed = hash_of_text(seq, kept, hash_before)
        rows.append({"tenant": tenant, "seq": seq, "content": kept, "prev_hash": hash_before, "hash": sealed})
        hash_before = sealed
    _run_many(connection, "insert audit", rows)
    moved = {"tenant": tenant, "seq": seq, "hash": hash_before, "removed_to": 0, "removed_hash": ""}
    _run_many(connection, "insert head" if head is None else "move head", [moved])


def hash_of_text(seq: int, content: str, prev_hash: str) -> str:
    """What ties a row to the one before: SHA-256 over the very text that is stored."""
    return hashlib.sha256(f"{seq} {prev_hash} {content}".encode()).hexdigest()


class _HotStatement(NamedTuple):
    """A statement of every call as the driver takes it, and what puts a row's values in its order."""

    text: str
    values: Callable[[dict[str, Any]], Any]


@cache
def _hot(dialect: str) -> dict[str, _HotStatement]:
    """Made once: putting a statement together costs more than running it."""
    kind = dialect_module(dialect)
    form = kind.dialect(paramstyle="qmark" if dialect == "sqlite" else "format")
    counted = kind.insert(usage)
    mine = audit_heads.c.tenant == bindparam("tenant")
    ended: dict[str, Any] = {name: bindparam(name) for name in FINISH_VALUES}
    statements: dict[str, Any] = {
        "insert calls": kind.insert(calls).on_conflict_do_nothing(),
        "insert work": insert(work),
        "insert events": insert(events),
        "finish": update(calls)
        .where(calls.c.tenant == bindparam("tenant_"), calls.c.id == bindparam("id_"))
        .values(**ended),
        "count usage": counted.on_conflict_do_update(
            index_elements=["tenant", "day", "user", "key", "tool"],
            set_={name: usage.c[name] + counted.excluded[name] for name in ("calls", "cost")},
        ),
        "lock head": select(audit_heads.c.seq, audit_heads.c.hash).where(mine).with_for_update(),
        "move head": update(audit_heads).where(mine).values(seq=bindparam("seq"), hash=bindparam("hash")),
        "insert head": insert(audit_heads),
        "insert audit": insert(audit),
    }
    found: dict[str, _HotStatement] = {}
    for name, statement in statements.items():
        compiled = statement.compile(dialect=form)
        found[name] = _HotStatement(str(compiled), itemgetter(*compiled.positiontup))
    return found


def _cursor(connection: Connection) -> Any:
    """The driver's own, in the transaction that is open."""
    return connection.connection.cursor()


def _run_many(connection: Connection, name: str, rows: list[dict[str, Any]]) -> None:
    """Run one of the statements of every call, once for each row."""
    hot = _hot(connection.dialect.name)[name]
    _cursor(connection).executemany(hot.text, list(map(hot.values, rows)))


def day_of(moment: float) -> str:
    return _day(moment // 86_400)


@lru_cache(maxsize=2)
def _day(number: float) -> str:
    return datetime.fromtimestamp(number * 86_400, UTC).strftime("%Y-%m-%d")


_KEY = select(idempotency_keys.c.fingerprint, idempotency_keys.c.call, idempotency_keys.c.batch).where(
    idempotency_keys.c.tenant == bindparam("tenant"),
    idempotency_keys.c.user == bindparam("user"),
    idempotency_keys.c.key == bindparam("key"),
)
_END_WORK = {
    True: "DELETE FROM work WHERE tenant = ? AND owner = ? AND call IN (SELECT value FROM json_each(?)) RETURNING call",
    False: "DELETE FROM work WHERE tenant = %s AND owner = %s AND call = ANY(%s) RETURNING call",
}
"""On SQLite, and on PostgreSQL."""
