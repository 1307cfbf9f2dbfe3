"""Entities: fields from a model or a database, rows of one tenant alone, and queries that cannot write."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from sqlalchemy import create_engine, text

from ferrule.app.service_settings import EntitySettings
from ferrule.app.settings import PermissionSettings, SettingsError, load_settings
from ferrule.core.context import Session, ToolContext
from ferrule.core.errors import ToolError
from ferrule.service.database import Database
from ferrule.service.entities import RowFilter, RowQuery
from ferrule.service.entity_catalog import EntityCatalog, EntityProblem
from tests.service.postgres import Cluster
from tests.service.serving import running
from tests.service.shop import ALLOW, Order, open_shop, order

INVOICES = (
    "CREATE TABLE invoices (number INTEGER PRIMARY KEY, company VARCHAR(63) NOT NULL, customer VARCHAR(20) NOT NULL, "
    "amount NUMERIC(10, 2) NOT NULL, due DATE, iban VARCHAR(34), paid BOOLEAN NOT NULL DEFAULT {false})"
)
ROWS = "INSERT INTO invoices (number, company, customer, amount, due, iban) VALUES (:n, :t, :c, :a, :d, 'SECRET')"


def context() -> ToolContext:
    return ToolContext(Session(), "call", "tool")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def invoices(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of somebody's database with invoices of two companies."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'billing.db'}"
        sqlite3.connect(tmp_path / "billing.db").close()
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        url = cluster.new_database(migrated=False)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(INVOICES.format(false="0" if request.param == "sqlite" else "FALSE")))
        for number, company, customer in ((1, "red", "Ann"), (2, "red", "Bob_%"), (3, "blue", "Cleo")):
            day = date(2026, 1, number).isoformat() if request.param == "sqlite" else date(2026, 1, number)
            connection.execute(text(ROWS), {"n": number, "t": company, "c": customer, "a": 10 * number, "d": day})
    engine.dispose()
    return url


@contextmanager
def catalog(store: str, **entities: EntitySettings) -> Generator[EntityCatalog]:
    owner = Database(store, owner=True)
    owner.migrate()
    owner.close()
    database = Database(store)
    made = EntityCatalog(database)
    for name, one in entities.items():
        made.add(name, one, Order if one.model else None)
    try:
        yield made
    finally:
        made.close()
        database.close()


def of_tenants(url: str, **more: Any) -> EntitySettings:
    return EntitySettings(url=url, table="invoices", tenant_column="company", hidden=["iban"], **more)


def sqlite_store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'service.db'}"


async def test_a_table_is_known_by_its_own_columns(invoices: str, tmp_path: Path) -> None:
    with catalog(sqlite_store(tmp_path), invoice=of_tenants(invoices)) as entities:
        found = entities.find("invoice", "red", ())
        fields = {field.name: (field.type, field.required, field.key) for field in found.fields.values()}
        made = not invoices.startswith("sqlite")  # SQLite makes a number by itself
        assert fields == {
            "number": ("integer", made, True), "customer": ("string", True, False), "amount": ("number", True, False),
            "due": ("date", False, False), "paid": ("boolean", False, False),
        }  # fmt: skip
        rows = await entities.read(found, "red", RowQuery(order=["-number"]), context())
        assert [row["customer"] for row in rows] == ["Bob_%", "Ann"]
        assert "SECRET" not in str(rows)
        for wrong in ("iban", "company", "number; DROP TABLE invoices", "*"):
            with pytest.raises(ToolError, match="has no field"):
                await entities.read(found, "red", RowQuery(filters=[RowFilter(field=wrong, value=1)]), context())


async def test_each_tenant_has_its_own_rows(invoices: str, tmp_path: Path) -> None:
    """O4."""
    with catalog(sqlite_store(tmp_path), invoice=of_tenants(invoices, writable=True)) as entities:
        found = entities.find("invoice", "blue", ())
        assert [row["number"] for row in await entities.read(found, "blue", RowQuery(), context())] == [3]
        which = [RowFilter(field="number", op="ge", value=1)]
        for act in (
            lambda connection: found.update(connection, "green", which, {"paid": True}, 10),
            lambda connection: found.delete(connection, "green", which, 10),
        ):
            with pytest.raises(ToolError, match="no such row"):
                await entities.change(found, "green", act, context())
        await entities.change(found, "blue", lambda one: found.delete(one, "blue", which, 10), context())
        assert len(await entities.read(found, "red", RowQuery(), context())) == 2
        values = {"number": 9, "customer": "Dan", "amount": "7.50"}
        made = await entities.change(found, "blue", lambda one: found.create(one, "blue", values), context())
        assert (made["number"], float(made["amount"])) == (9, 7.5)
        assert [row["number"] for row in await entities.read(found, "red", RowQuery(), context())] == [1, 2]


ALIKE = {
    "sqlite": ["company VARCHAR(63) COLLATE NOCASE", "company TEXT COLLATE RTRIM"],
    "postgresql": ["company citext", "company text COLLATE loose"],
}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
@pytest.mark.parametrize("which", [0, 1])
async def test_tenants_stay_apart_where_the_column_ignores_case(
    kind: str, which: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """O4: `Acme` is not `acme`, whatever the table's owner thinks."""
    column = ALIKE[kind][which]
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'billing.db'}"
        (tmp_path / "billing.db").touch()
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        url = cluster.new_database(migrated=False)
        database = url.partition("?")[0].rpartition("/")[2]
        if "citext" in column and not cluster.sql("SELECT 1 FROM pg_available_extensions WHERE name = 'citext'"):
            pytest.skip("needs the extension citext of PostgreSQL")
        cluster.sql("CREATE EXTENSION citext" if "citext" in column else LOOSE, database)
    others = ("Acme", "ACME", "acme ") if "RTRIM" not in column else ("acme ", "acme  ")
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE notes (number INTEGER PRIMARY KEY, {column} NOT NULL, said TEXT)"))
        for number, company in enumerate(("acme", *others)):
            connection.execute(text("INSERT INTO notes VALUES (:n, :c, 'x')"), {"n": number, "c": company})
    engine.dispose()
    chosen = EntitySettings(url=url, table="notes", tenant_column="company", writable=True)
    with catalog(sqlite_store(tmp_path), note=chosen) as entities:
        found = entities.find("note", "acme", ())
        assert [row["number"] for row in await entities.read(found, "acme", RowQuery(), context())] == [0]
        every = [RowFilter(field="number", op="ge", value=0)]
        changed = await entities.change(
            found, "acme", lambda one: found.update(one, "acme", every, {"said": "mine"}, 10), context()
        )
        assert len(changed) == 1
        await entities.change(found, "acme", lambda one: found.delete(one, "acme", every, 10), context())
        assert len(await entities.read(found, others[0], RowQuery(), context())) == 1


LOOSE = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"


@pytest.mark.parametrize("own", [True, False])
async def test_a_statement_that_does_not_end_is_ended(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """R5: by the database itself, in the store and in somebody's database, and the connection is good afterwards."""
    monkeypatch.setattr("ferrule.service.entities.STATEMENT_SECONDS", 0.2)
    (tmp_path / "other.db").touch()
    with closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE invoices (number INTEGER PRIMARY KEY, company TEXT)")
    chosen = of_tenants(f"sqlite:///{tmp_path / 'other.db'}", writable=True)
    chosen = EntitySettings(model="tests.service.shop:Order", writable=True) if own else chosen
    endless = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT max(n) FROM more"
    with catalog(store, thing=chosen) as entities:
        found = entities.find("thing", "red", ())
        for _ in range(2):
            with pytest.raises(ToolError, match="took too long") as slow:
                await entities.change(found, "red", lambda one: one.execute(text(endless)).all(), context())
            assert slow.value.kind == "timeout_error"
            assert await entities.read(found, "red", RowQuery(), context()) == []


async def test_one_tenant_never_has_all_threads(tmp_path: Path) -> None:
    """Also not with calls that were cancelled, and are still in a thread."""
    with catalog(sqlite_store(tmp_path)) as entities:
        going = threading.Event()
        ran: list[int] = []
        loud = [asyncio.ensure_future(entities.run("loud", lambda: going.wait(60))) for _ in range(50)]
        late = asyncio.ensure_future(entities.run("loud", lambda: ran.append(1)))
        await asyncio.sleep(0.05)
        for one in (*loud[:5], late):
            one.cancel()
        async with asyncio.timeout(30):
            assert await entities.run("calm", lambda: "done") == "done"
        going.set()
        await asyncio.wait([*loud, late])
        assert ran == []  # cancelled before it began


async def test_a_query_cannot_write_whatever_it_tries(invoices: str, store: str) -> None:
    """Read-only in the engine: the database refuses, not our good intentions."""
    model = EntitySettings(model="tests.service.shop:Order", writable=True)
    with catalog(store, invoice=of_tenants(invoices, writable=True), order=model) as entities:
        for name, statement in (("invoice", "DELETE FROM invoices"), ("order", "DELETE FROM entity_rows")):
            found = entities.find(name, "red", ())
            ran: list[str] = []

            def find(connection: Any, tenant: str, query: Any, statement: str = statement, ran: Any = ran) -> Any:
                ran.append(statement)
                connection.execute(text(statement))

            original, found.find = found.find, find  # type: ignore[method-assign]
            with pytest.raises(ToolError, match=r"cannot be used: .*(read-only|readonly)"):
                await entities.read(found, "red", RowQuery(), context())
            assert ran == [statement]
            found.find = original  # type: ignore[method-assign]
            await entities.read(found, "red", RowQuery(), context())
        found = entities.find("order", "red", ())  # and what follows on the same connection may write
        await entities.change(
            found, "red", lambda connection: found.create(connection, "red", {"customer": "A", "total": 1}), context()
        )


async def test_more_rows_than_meant_are_none(invoices: str, tmp_path: Path) -> None:
    """One transaction: all or nothing."""
    with catalog(sqlite_store(tmp_path), invoice=of_tenants(invoices, writable=True)) as entities:
        found = entities.find("invoice", "red", ())
        every = [RowFilter(field="number", op="ge", value=0)]
        with pytest.raises(ToolError, match="More than 1 row of `invoice` would change, so none was changed"):
            await entities.change(found, "red", lambda one: found.delete(one, "red", every, 1), context())
        with pytest.raises(ToolError, match="would change every row"):
            await entities.change(found, "red", lambda one: found.delete(one, "red", [], 1), context())
        with pytest.raises(ToolError, match="was not changed"):

            def both(connection: Any) -> Any:
                found.update(connection, "red", [RowFilter(field="number", value=1)], {"paid": True}, 1)
                return found.create(connection, "red", {"number": 2, "customer": "again", "amount": 1})

            await entities.change(found, "red", both, context())
        rows = await entities.read(found, "red", RowQuery(filters=[RowFilter(field="paid", value=True)]), context())
        assert rows == []


NASTY = ("'; DROP TABLE invoices; --", "%", "_", "\\", '"', "Bob_%", "é\U0001f600", "NULL", "1 OR 1=1", "x" * 500)


async def test_values_are_values_and_nothing_else(invoices: str, tmp_path: Path) -> None:
    with catalog(sqlite_store(tmp_path), invoice=of_tenants(invoices)) as entities:
        found = entities.find("invoice", "red", ())
        for value in NASTY:
            for op in ("eq", "contains", "starts_with"):
                one = RowFilter(field="customer", op=op, value=value)  # type: ignore[arg-type]
                rows = await entities.read(found, "red", RowQuery(filters=[one]), context())
                wanted = {"eq": str.__eq__, "contains": str.__contains__, "starts_with": str.startswith}[op]
                assert [row["customer"] for row in rows] == [name for name in ("Ann", "Bob_%") if wanted(name, value)]
        for field, value in (("number", "one"), ("due", "soon"), ("paid", "perhaps"), ("number", 2**70)):
            with pytest.raises(ToolError) as error:
                query = RowQuery(filters=[RowFilter(field=field, value=value)])
                await entities.read(found, "red", query, context())
            assert error.value.kind == "validation_error"


ORDERS = [
    {"customer": "Ann", "total": 5, "due": "2026-01-10", "pieces": 2},
    {"customer": "Bob", "total": 40.5, "urgent": True, "status": "paid", "pieces": 10},
    {"customer": "张三", "total": 0, "due": "2026-01-09", "pieces": 9},
]
FIELD_VALUES = {
    "customer": st.sampled_from(["Ann", "Bob", "张三", "x"]), "total": st.sampled_from([0, 5, 40.5, 41]),
    "pieces": st.sampled_from([2, 9, 10]), "urgent": st.booleans(),
    "due": st.sampled_from(["2026-01-09", "2026-01-10"]),
}  # fmt: skip
OPS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a is not None and a < b,
    "ge": lambda a, b: a is not None and a >= b,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_filter_finds_what_python_would_find(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Law: rows of a model compare as their types do, on either store; 9 pieces are fewer than 10."""
    store = sqlite_store(tmp_path) if kind == "sqlite" else request.getfixturevalue("cluster").new_database()
    with catalog(store, order=EntitySettings(model="x:y", writable=True)) as entities:
        found = entities.find("order", "red", ())
        for values in ORDERS:
            with found.transaction("red", writes=True) as connection:
                found.create(connection, "red", values)
        everything = [Order.model_validate(one).model_dump(mode="json") for one in ORDERS]

        @settings(max_examples=60, deadline=None)
        @given(
            st.sampled_from(sorted(FIELD_VALUES)).flatmap(lambda name: st.tuples(st.just(name), FIELD_VALUES[name])),
            st.sampled_from(sorted(OPS)),
        )
        def holds(condition: tuple[str, Any], op: Any) -> None:
            name, value = condition
            if name == "urgent" and op in ("lt", "ge"):
                return
            query = RowQuery(filters=[RowFilter(field=name, op=op, value=value)])
            with found.transaction("red", writes=False) as connection:
                rows = found.find(connection, "red", query)
            wanted = [one["customer"] for one in everything if OPS[op](one[name], value)]
            assert sorted(row["customer"] for row in rows) == sorted(wanted)

        holds()


async def test_a_model_checks_what_is_stored(store: str, tmp_path: Path) -> None:
    with catalog(store, order=EntitySettings(model="x:y", writable=True)) as entities:
        found = entities.find("order", "red", ())
        made = await entities.change(
            found, "red", lambda one: found.create(one, "red", {"customer": "Ann", "total": 1}), context()
        )
        which = [RowFilter(field="id", value=made["id"])]
        for values, said in (
            ({"total": -1}, "`total` of `order`: Input should be greater than or equal to 0."),
            ({"totl": 1}, "The entity `order` has no field `totl`."),
            ({"id": "other"}, "`id` names a row and cannot be changed."),
            ({"status": "a\x00b"}, "A value of `order` holds a NUL character."),
        ):
            with pytest.raises(ToolError) as error:
                await entities.change(
                    found, "red", lambda one, v=values: found.update(one, "red", which, v, 1), context()
                )
            assert error.value.message == said
        changed = await entities.change(
            found, "red", lambda one: found.update(one, "red", which, {"total": 2}, 1), context()
        )
        assert (changed[0]["total"], changed[0]["customer"]) == (2.0, "Ann")


def test_an_entity_that_cannot_be_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.delenv("NO_SUCH", raising=False)
    with catalog(sqlite_store(tmp_path)) as entities:
        for settings_ in (
            EntitySettings(url="mysql://x/y", tenants=["a"]),
            EntitySettings(url="nonsense", tenants=["a"]),
            EntitySettings(url="sqlite:////nowhere/at/all.db", tenants=["a"]),
            EntitySettings(url_variable="NO_SUCH", tenants=["a"]),
            EntitySettings(model="no.such:Thing"),
            EntitySettings(model="os:path"),
            EntitySettings(url="postgresql://me:hunter2@db/x"),
            EntitySettings(model="a:b", url="postgresql://me:hunter2@db/x"),
            EntitySettings(table="x"),
        ):
            with pytest.raises(EntityProblem) as error:
                entities.add("thing", settings_)
            said.append(str(error.value))
    assert said == snapshot(
        [
            "`service.entities.thing.url` must be `sqlite:////path/to/file.db` or `postgresql://user@host/name`.",
            "`service.entities.thing.url` must be `sqlite:////path/to/file.db` or `postgresql://user@host/name`.",
            "`service.entities.thing.url`: there is no file /nowhere/at/all.db.",
            "`service.entities.thing`: the variable NO_SUCH is not set.",
            "`service.entities.thing.model`: 'no.such:Thing' cannot be imported: No module named 'no'.",
            "`service.entities.thing.model`: 'os:path' is not a pydantic model.",
            "`service.entities.thing` needs a `tenant_column`, or `tenants` that may have all of the table.",
            "`service.entities.thing` needs either a `model`, or a `url` (or `url_variable`).",
            "`service.entities.thing` needs either a `model`, or a `url` (or `url_variable`).",
        ]
    )
    file = tmp_path / "f.toml"
    monkeypatch.setenv("FERRULE_CONFIG", str(file))
    file.write_text("[service.entities.x]\nmodle = 'a:b'\n")
    with pytest.raises(SettingsError, match=r"no setting `service.entities.x.modle`. Did you mean `model`\?"):
        load_settings(tmp_path)


async def test_the_service_reflects_a_table_and_keeps_tenants_apart(invoices: str, tmp_path: Path) -> None:
    """The whole way: settings, an intent about a table, two tenants."""
    entities = {"invoice": of_tenants(invoices, writable=True)}
    allow = PermissionSettings(allow=["intent__pay"])
    async with running(sqlite_store(tmp_path), tmp_path, permissions=allow, entities=entities) as service:
        red, _ = await service.tenant("red")
        blue, _ = await service.tenant("blue")
        for boss in (red, blue):
            await boss.put_intent(
                "pay", description="Mark an invoice as paid.",
                parameters={"type": "object", "properties": {"number": {"type": "integer", "description": "Which"}},
                            "required": ["number"]},
                handler={"type": "data", "operation": "update", "entity": "invoice", "values": {"paid": True}},
            )  # fmt: skip
        assert (await red.run_intent("pay", {"number": 1})).data["rows"][0]["paid"] is True
        foreign = await blue.run_intent("pay", {"number": 2})
        assert foreign.error is not None
        assert foreign.error.message == "There is no such row in `invoice`."


def test_one_that_is_not_for_everyone_does_not_exist_for_others(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    sqlite3.connect(file).close()
    only = EntitySettings(url=f"sqlite:///{file}", tenants=["red"], roles=["clerk"])
    with catalog(sqlite_store(tmp_path), thing=only) as entities:
        assert entities.find("thing", "red", ("clerk",)).name == "thing"
        for tenant, roles in (("blue", ("clerk",)), ("red", ("member",)), ("red", ())):
            assert entities.all(tenant, roles) == []
            with pytest.raises(ToolError, match="There is no entity `thing`"):
                entities.find("thing", tenant, roles)
        with pytest.raises(ToolError, match="There is no table `thing`"):
            _ = entities.find("thing", "red", ("clerk",)).fields


async def test_what_is_hidden_stays_hidden_and_is_kept_through_changes(store: str, tmp_path: Path) -> None:
    hidden = {"order": EntitySettings(model="tests.service.shop:Order", hidden=["pieces"], writable=True)}
    rules = PermissionSettings(allow=list(ALLOW))
    async with running(store, tmp_path, entities=hidden, permissions=rules) as service:
        client = await service.client()
        await open_shop(client)
        made = await order(client, "Ann", 5)
        sent = await client.run_intent("close_order", {"id": made["id"]})
        gone = await client.run_intent("drop_order", {"id": made["id"]})
        assert (sent.status, gone.status) == ("succeeded", "succeeded"), (sent.error, gone.error)
        assert all("pieces" not in row for row in (made, sent.data["rows"][0], gone.data["rows"][0]))


async def test_null_is_not_less_than_anything(store: str, tmp_path: Path) -> None:
    """Or else an input that is null would delete every row."""
    rules = PermissionSettings(allow=[*ALLOW, "intent__drop_small"])
    async with running(store, tmp_path, models={"order": Order}, permissions=rules) as service:
        client = await service.client()
        await open_shop(client)
        await order(client, "Ann", 5)
        await client.put_intent(
            "drop_small", description="Delete the orders below a total.",
            parameters={"type": "object", "properties": {"n": {"type": ["number", "null"], "description": "Below it"}}},
            handler={"type": "data", "operation": "delete", "entity": "order", "most": 9,
                     "where": [{"field": "total", "op": "lt", "value": {"$ref": "input.n"}}]},
        )  # fmt: skip
        refused = await client.run_intent("drop_small", {"n": None})
        assert refused.error is not None
        assert refused.error.type == "validation_error"
        assert (await client.run_intent("find_orders", {})).data["count"] == 1
