"""The store: its schema is what the code says, and a row of one tenant is nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import insert, select, text
from sqlalchemy.exc import DBAPIError

from ferrule.service.database import APP_ROLE, Database, DatabaseProblem
from ferrule.service.directory import create_key, create_tenant, create_user
from ferrule.service.messages import KeyRequest, TenantRequest, UserRequest
from ferrule.service.stored_calls import new_call_row
from ferrule.service.tables import APPEND_ONLY, HEAD, SHARED, audit, calls, metadata, users, work
from ferrule.service.writer import FINISH_VALUES, FinishCall, GroupWriter, append_audit
from tests.service.postgres import Cluster


def migrated(url: str) -> Database:
    owner = Database(url, owner=True)
    owner.migrate()
    owner.close()
    return Database(url)


def fill(database: Database, *tenants: str) -> None:
    for name in tenants:
        with database.transaction(name, writes=True) as connection:
            create_tenant(connection, TenantRequest(name=name))
            create_user(connection, name, UserRequest(name="ann"))
            create_key(connection, name, KeyRequest(user="ann"))
            append_audit(connection, name, [[name, 1.5, None]])


def test_the_migrations_make_the_tables_of_the_code(tmp_path: Path, cluster: Cluster) -> None:
    for url in (f"sqlite:///{tmp_path / 'a.db'}", cluster.new_database(migrated=False)):
        database = Database(url, owner=True)
        assert database.revision() is None
        assert database.migrate() == (None, HEAD)
        assert database.migrate() == (HEAD, HEAD)
        with database.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
        database.close()


@pytest.mark.parametrize("revision", ["0003_intents", "9999_later"])
def test_a_database_of_another_version_is_refused(tmp_path: Path, revision: str) -> None:
    database = migrated(f"sqlite:///{tmp_path / 'a.db'}")
    with database.transaction(None, writes=True) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
    with pytest.raises(DatabaseProblem, match=f"is at revision {revision}, which this version .* Use the version"):
        database.migrate()
    database.close()


def test_without_a_tenant_no_row_of_any_tenant_is_seen(postgres_url: str) -> None:
    """O4: row-level security, not a condition that somebody must not forget."""
    database = migrated(postgres_url)
    fill(database, "one", "two")
    guarded = [table for table in metadata.sorted_tables if table.name not in SHARED]
    with database.transaction(None) as connection:
        assert [table.name for table in guarded if connection.execute(select(table)).first() is not None] == []
    with database.transaction("one") as connection:
        seen = {table.name: {row.tenant for row in connection.execute(select(table))} for table in guarded}
        assert seen["users"] == seen["audit"] == seen["api_keys"] == seen["roles"] == {"one"}
        assert all(tenants <= {"one"} for tenants in seen.values())
    database.close()


def test_a_row_for_another_tenant_is_refused(postgres_url: str) -> None:
    database = migrated(postgres_url)
    fill(database, "one", "two")
    with pytest.raises(DBAPIError, match="row-level security"), database.transaction("one") as connection:
        create_user(connection, "two", UserRequest(name="mallory"))
    with database.transaction("one", writes=True) as connection:
        assert connection.execute(users.update().where(users.c.tenant == "two").values(enabled=False)).rowcount == 0
        assert connection.execute(users.delete().where(users.c.tenant == "two")).rowcount == 0
    database.close()


def test_the_application_owns_nothing_and_cannot_rewrite_the_audit_log(postgres_url: str) -> None:
    database = migrated(postgres_url)
    fill(database, "one")
    with database.transaction("one") as connection:
        assert connection.execute(text("SELECT current_user")).scalar() == APP_ROLE
        owned = text("SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname = :role")
        assert connection.execute(owned, {"role": APP_ROLE}).scalar() == 0
    assert APPEND_ONLY == ("audit",)
    for change in (audit.update().values(content="[]"), audit.delete()):
        with pytest.raises(DBAPIError, match="permission denied"), database.transaction("one") as connection:
            connection.execute(change)
    database.close()


def test_a_role_for_which_the_rows_are_not_guarded_is_not_served(postgres_url: str, cluster: Cluster) -> None:
    database = migrated(postgres_url)
    database.check_guarded()
    cluster.sql("ALTER TABLE calls DISABLE ROW LEVEL SECURITY", database.url.database or "")
    with pytest.raises(DatabaseProblem, match="Row-level security does not hold"):
        database.check_guarded()
    database.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite://", "sqlite:///:memory:"])
def test_a_database_that_cannot_be_is_said_in_words(url: str) -> None:
    with pytest.raises(DatabaseProblem, match="sqlite:////path"):
        Database(url)


def test_every_key_of_a_tenants_table_begins_with_the_tenant() -> None:
    for table in metadata.sorted_tables:
        if table.name not in SHARED:
            assert next(iter(table.primary_key.columns)).name == "tenant", table.name


def test_a_call_row_has_every_column() -> None:
    """Rows are inserted in groups, and a group has one form."""
    principal: Any = type("Somebody", (), {"tenant": "t", "user": "u", "key": "k"})()
    assert sorted(new_call_row(principal, "x", {}, "r")) == sorted(column.name for column in calls.columns)
    insert(calls).values(**new_call_row(principal, "x", {}, "r"))


async def test_what_the_driver_refuses_is_a_problem_of_the_database_and_hurts_no_other_change(store: str) -> None:
    """Statements of every call go to the driver itself, whose errors SQLAlchemy does not wrap."""
    database = migrated(store)
    writer = GroupWriter(database)
    fill(database, "home")
    no_text: dict[str, Any] = dict.fromkeys(FINISH_VALUES, object()) | {"arguments": "{}"}
    bad = FinishCall("home", "a call", "somebody", no_text)
    due = {"tenant": "home", "call": "a call", "owner": "somebody", "due": 1.0}
    try:
        await writer.change("home", lambda connection: connection.execute(insert(work).values(due)))
        refused, kept = writer.write(bad), writer.change("home", lambda connection: 7)
        with pytest.raises(DatabaseProblem, match="cannot be written"):
            await refused
        assert await kept == 7
    finally:
        writer.close()
        database.close()
