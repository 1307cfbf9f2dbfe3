"""Sums of calls say what a count of every call says, whatever happens; filters find what is there (P5, O5)."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from time import time
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from ferrule.service import call_sums
from ferrule.service.call_sums import PERIODS, CallFigures, CallSums, figures_of, id_at, remove_left_sums
from ferrule.service.database import Database
from ferrule.service.directory import create_tenant
from ferrule.service.documents import new_id
from ferrule.service.messages import TenantRequest
from ferrule.service.stored_calls import StoredCalls, new_call_row
from ferrule.service.tables import HEAD, SUM_STEPS, call_spans, calls, changed_spans, turn_entries
from ferrule.service.tables import call_sums as sums_table
from ferrule.service.vocabulary import STATUSES
from ferrule.service.writer import GroupWriter

NOW = time()
AGES = (5.0, 200.0, 400.0, 3000.0, 3500.0, 7000.0, 80_000.0, 90_000.0, 600_000.0, 2_000_000.0, 3_000_000.0)
TOOLS, USERS = ("add", "read", "write"), ("ann", "bob")
REFUSED = json.dumps({"error": {"type": "permission_error"}})


class Store:
    """A database with its writer, and what a test does to the calls in it."""

    def __init__(self, url: str) -> None:
        owner = Database(url, owner=True)
        owner.migrate()
        owner.close()
        self.database = Database(url)
        self.writer = GroupWriter(self.database)
        self.stored = StoredCalls(self.database)
        for name in ("home", "other"):
            with self.database.transaction(name, writes=True) as connection:
                create_tenant(connection, TenantRequest(name=name))

    async def change(self, work: Any, tenant: str = "home") -> Any:
        return await self.writer.change(tenant, work)

    async def sum_up(self) -> None:
        await CallSums(self.database, self.writer).keep_up()

    async def spans(self) -> int:
        query = select(call_spans.c.id).where(call_spans.c.tenant == "home", call_sums._IS_TRUE)  # pyright: ignore[reportPrivateUsage]
        return len(await self.database.read("home", lambda connection: connection.execute(query).all()))

    def close(self) -> None:
        self.writer.close()
        self.database.close()


@pytest.fixture
def home(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    # The module may have been imported minutes ago, and some calls here are made at the real time.
    monkeypatch.setattr(sys.modules[__name__], "NOW", time())
    monkeypatch.setattr(call_sums, "WORTH_SUMMING", 1)
    monkeypatch.setattr(call_sums, "_database_time", lambda _connection: NOW)  # pyright: ignore[reportUnknownLambdaType]
    made = Store(store)
    yield made
    made.close()


def call_of(chance: random.Random, tenant: str = "home") -> dict[str, Any]:
    created = NOW - chance.choice(AGES) - chance.random() * 60
    principal: Any = type("Somebody", (), {"tenant": tenant, "user": chance.choice(USERS), "key": "k"})()
    row = new_call_row(principal, chance.choice(TOOLS), {}, "r", status=chance.choice(STATUSES))
    row |= {"id": id_at(created) + new_id()[12:], "created": created, "cost": chance.choice((0.0, 0.25))}
    if chance.random() < 0.8:
        row["started"] = created + chance.random()
        if row["status"] not in ("queued", "running", "awaiting_approval"):
            row |= {"finished": row["started"] + chance.expovariate(3), "result": chance.choice((None, REFUSED))}
    return row


def some_change(chance: random.Random, ids: list[str]) -> Any:
    """Something that happens to calls: new ones, late ends, retention; or a transaction that is undone."""
    match chance.randrange(5):
        case 0 | 1:
            rows = [call_of(chance) for _ in range(chance.randrange(1, 8))]
            ids.extend(row["id"] for row in rows)
            return lambda connection: connection.execute(insert(calls), rows).rowcount
        case 2:
            values = {"status": chance.choice(("succeeded", "failed")), "started": NOW - 50, "finished": NOW - 49}
            one = calls.c.id == chance.choice(ids or [""])
            return lambda connection: connection.execute(update(calls).where(one).values(**values)).rowcount
        case 3:
            old = calls.c.finished < NOW - chance.choice(AGES)
            few = select(calls.c.id).where(old).limit(3)
            return lambda connection: connection.execute(delete(calls).where(calls.c.id.in_(few))).rowcount
        case _:
            row = call_of(chance)

            def undone(connection: Connection) -> None:
                connection.execute(insert(calls), [row])
                raise RuntimeError("killed")

            return undone


def recount(rows: list[dict[str, Any]], period: str, by: str, user: str | None) -> dict[tuple[Any, ...], Any]:
    """Every call, counted one by one."""
    seconds, step = PERIODS[period]
    since = (NOW // step) * step - seconds
    found: dict[tuple[Any, ...], CallFigures] = {}
    for row in rows:
        if row["id"] < id_at(since) or user not in (None, row["user"]):
            continue
        failed = row["status"] in ("failed", "lost", "expired")
        one = CallFigures(
            1, row["status"] == "succeeded", failed, row["status"] == "failed" and row["result"] == REFUSED,
            row["cost"], (row["started"] - row["created"]) if row["started"] is not None else 0.0,
        )  # fmt: skip
        if row["started"] is not None and row["finished"] is not None:
            took = row["finished"] - row["started"]
            one.durations[sum(took > bound for bound in call_sums.BOUNDS)] = 1
        at = min(int((int(row["id"][:12], 16) / 1000 - since) // step), seconds // step)
        for key in (("step", at), ("name", row[by])):
            found.setdefault(key, CallFigures()).add(one)
    return {key: shown(one) for key, one in found.items()}


def shown(one: CallFigures) -> tuple[Any, ...]:
    durations = sorted(one.durations.items())
    return one.calls, one.succeeded, one.failed, one.denied, round(one.cost, 6), round(one.waited, 6), durations


async def check(home: Store) -> None:
    query = select(calls).where(calls.c.tenant == "home").order_by(calls.c.id.desc())
    rows: Any = await home.database.read("home", lambda one: [dict(row) for row in one.execute(query).mappings()])
    for period in PERIODS:
        for by, user in (("tool", None), ("user", None), ("tool", "ann"), ("user", "bob")):
            read: Any = partial(figures_of, tenant="home", period=period, by=by, now=NOW, user=user)  # pyright: ignore[reportArgumentType]
            by_step, by_name = await home.database.read("home", read)
            said = {("step", at): shown(one) for at, one in by_step.items()}
            said |= {("name", name): shown(one) for name, one in by_name.items()}
            assert said == recount(rows, period, by, user), (period, by, user)
    for filters in (
        {"tool": "add"}, {"user": "ann"}, {"tool": "read", "user": "bob"}, {"status": "succeeded"}, {"tool": "none"},
        {"status": "failed", "tool": "write"}, {"status": "cancelled"}, {"session": "s"},
    ):  # fmt: skip
        listed: list[str] = []
        cursor: str | None = None
        while True:
            page, cursor = await home.stored.page("home", user=None, filters=filters, cursor=cursor, most=3)
            listed += [row["id"] for row in page]
            if cursor is None:
                break
        wanted = [row["id"] for row in rows if all(row[name] == value for name, value in filters.items())]
        assert listed == wanted, filters


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_sums_equal_a_recount_whatever_happens(home: Store, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a call changes while its span is summed up, and where an instance is killed in the middle of that."""
    chance, ids = random.Random(seed), list[str]()
    summing = call_sums._sum_up  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(call_sums, "_GIVEN_UP", -1.0)

    def sum_up_while_calls_change(connection: Connection, **given: Any) -> Any:
        rows = summing(connection, **given)
        fate = chance.random()
        if fate < 0.05:
            raise RuntimeError("killed")
        if fate < 0.3:
            waiting = asyncio.run_coroutine_threadsafe(home.change(some_change(chance, ids)), loop)
            with suppress(RuntimeError):
                waiting.result(30)
        return rows

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(call_sums, "_sum_up", sum_up_while_calls_change)
    most = 0
    for turn in range(12):
        for _ in range(chance.randrange(6)):
            with suppress(RuntimeError):
                await home.change(some_change(chance, ids))
        with suppress(RuntimeError):
            await home.sum_up()
        if turn % 4 == 3:
            await home.change(lambda connection: remove_left_sums(connection, "home"))
            await check(home)
        most = max(most, await home.spans())
    assert most > 0


async def test_sums_are_read_in_place_of_calls_and_a_late_end_is_counted(home: Store) -> None:
    chance = random.Random(1)
    rows = [call_of(chance) for _ in range(60)]
    await home.change(lambda connection: connection.execute(insert(calls), rows).rowcount)
    for _ in range(6):
        await home.sum_up()
    before = await home.spans()
    assert before >= len(SUM_STEPS)
    await check(home)
    late = next(row for row in rows if row["created"] < NOW - 2_900_000)
    end = update(calls).where(calls.c.id == late["id"]).values(status="failed", finished=NOW)
    await home.change(lambda connection: connection.execute(end).rowcount)
    assert await home.spans() < before, "the database itself has removed the spans of the call"
    await check(home)
    await home.sum_up()
    assert await home.spans() == before
    await check(home)


@pytest.mark.slow
async def test_instances_that_write_at_once_never_leave_wrong_sums(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that changed a call before its span was there ends before the span is counted."""
    monkeypatch.setattr(call_sums, "WORTH_SUMMING", 1)
    home, second = Store(postgres_url), Database(postgres_url)
    ids = list[str]()

    def write(seed: int) -> None:
        mine = random.Random(seed)
        for _ in range(40):
            with suppress(RuntimeError, DBAPIError), second.transaction("home", writes=True) as connection:
                some_change(mine, ids)(connection)
                connection.execute(text("SELECT pg_sleep(:long)"), {"long": mine.random() / 20})

    writing = [asyncio.create_task(asyncio.to_thread(write, seed)) for seed in range(3)]
    while not all(one.done() for one in writing):
        await home.sum_up()
        await asyncio.sleep(0.01)
    await asyncio.gather(*writing)
    await check(home)
    await home.sum_up()
    assert await home.spans() > 0
    await check(home)
    second.close()
    home.close()


async def test_sums_are_of_one_tenant_alone(home: Store) -> None:
    """O4: rows of another tenant are neither counted nor seen."""
    chance = random.Random(3)
    for tenant in ("home", "other"):
        rows = [call_of(chance, tenant) for _ in range(40)]
        await home.change(lambda connection, rows=rows: connection.execute(insert(calls), rows).rowcount, tenant)
    await home.sum_up()
    await check(home)
    for table in (call_spans, sums_table):
        for tenant in ("home", "other"):
            query = select(table.c.tenant).where(table.c.tenant == tenant)
            assert await home.database.read(tenant, lambda one, query=query: one.execute(query).first()) is not None
        if not home.database.is_sqlite:
            query = select(table.c.tenant).distinct()
            assert await home.database.read("home", lambda one, query=query: one.execute(query).all()) == [("home",)]


async def test_a_database_of_before_gets_the_sums_by_migration(store: str) -> None:
    made = Database(store, owner=True)
    made.migrate()
    with made.transaction(None, writes=True) as connection:
        for table in (call_spans, changed_spans, sums_table, turn_entries):
            table.drop(connection)
        for index in ("calls_by_session", "calls_ended_badly", "api_keys_by_age"):
            connection.execute(text(f"DROP INDEX {index}"))
        names = ["change", "delete"] if not made.is_sqlite else ["insert", "update", "delete"]
        for name in names:
            connection.execute(text(f"DROP TRIGGER calls_uncount_{name}" + ("" if made.is_sqlite else " ON calls")))
        if not made.is_sqlite:
            connection.execute(text("DROP FUNCTION ferrule_uncount()"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0005_batches'"))
    assert made.migrate() == ("0005_batches", HEAD)
    made.close()
    after = Database(store)
    after.check_guarded()
    after.close()
    home = Store(store)
    await home.sum_up()
    home.close()


def test_every_step_of_a_period_is_one_that_is_summed_up() -> None:
    assert {step for _, step in PERIODS.values()} == set(SUM_STEPS)


@pytest.fixture
def shared(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(call_sums, "WORTH_SUMMING", 1)
    made = Store(postgres_url)
    yield made
    made.close()


def late(connection: Connection, call: str) -> None:
    """The end of a call of which the sums are made, by somebody who waits for nothing for long."""
    connection.execute(text("SET LOCAL lock_timeout = '300ms'"))
    connection.execute(update(calls).where(calls.c.id == call).values(status="failed", finished=NOW))


async def test_summing_up_never_makes_a_writer_wait(shared: Store) -> None:
    """Also while another transaction that writes calls takes long, as the removal of many old ones does."""
    chance = random.Random(4)
    rows = [call_of(chance) for _ in range(60)]
    await shared.change(lambda connection: connection.execute(insert(calls), rows).rowcount)
    with shared.database.transaction("home", writes=True) as slow:
        late(slow, rows[0]["id"])
        summing = asyncio.create_task(shared.sum_up())
        written = 0
        while not summing.done():
            await shared.change(partial(late, call=chance.choice(rows[1:])["id"]))
            await asyncio.sleep(0.01)
            written += 1
        assert written > 1
    await summing
    assert await shared.spans() == 0, "a call was changed by somebody who had not seen that its span is summed up"
    await check(shared)


async def test_late_ends_in_two_spans_never_wait_for_each_other(shared: Store) -> None:
    """Two instances that end calls of the same spans in another order would stop each other for good."""
    chance = random.Random(5)
    rows: Any = [
        call_of(chance) | {"id": id_at(NOW - age) + new_id()[12:], "created": NOW - age} for age in (3000, 7000) * 2
    ]
    await shared.change(lambda connection: connection.execute(insert(calls), rows).rowcount)
    await shared.sum_up()
    assert await shared.spans()
    change = partial(shared.database.transaction, "home", writes=True)
    with change() as one, change() as other:
        late(one, rows[0]["id"])
        late(other, rows[1]["id"])
        late(one, rows[3]["id"])
        late(other, rows[2]["id"])
    await check(shared)


async def test_a_clock_that_is_set_back_leaves_no_wrong_sums(home: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are made after it are of a time whose spans may be summed up."""
    chance, real = random.Random(6), call_sums._database_time  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(call_sums, "_database_time", lambda _connection: NOW + 4000)  # pyright: ignore[reportUnknownLambdaType]
    rows = [call_of(chance) | {"id": new_id(), "created": time()} for _ in range(9)]
    await home.change(lambda connection: connection.execute(insert(calls), rows[:5]).rowcount)
    sums = CallSums(home.database, home.writer)
    while await sums.keep_up():
        pass
    assert await home.spans()
    monkeypatch.setattr(call_sums, "_database_time", real)
    await home.change(lambda connection: connection.execute(insert(calls), rows[5:]).rowcount)
    await check(home)
    monkeypatch.setattr(call_sums, "monotonic", lambda: NOW)  # a minute later
    await sums.keep_up()
    assert await home.spans() == 0
    await check(home)
