"""Retention: each tenant's audit log is kept as long as is set for it, and what is left still verifies."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update
from sqlalchemy.exc import DBAPIError

from ferrule.client import ServiceError
from ferrule.records.row import retention_content
from ferrule.service import tenant_records
from ferrule.service.tables import audit, audit_heads
from ferrule.service.tenant_records import remove_old_audit
from ferrule.service.writer import append_audit
from tests.service.serving import Running, running


async def grow_old(service: Running, tenant: str, *days: float) -> None:
    """Rows of calls that ended so many days ago."""
    rows = [
        (time() - age * 86_400, "s", f"c{number}", None, "add", "1", "readonly", tenant, "ann", None, "{}", 2, "",
         "allow", "", None, None, "record", "success", None, 0.0, 0, 0, 0, "[]", 0.0, 0.0, None, None)
        for number, age in enumerate(days)
    ]  # fmt: skip
    await service.service.writer.change(tenant, lambda connection: append_audit(connection, tenant, rows))


async def test_each_tenant_keeps_its_log_as_long_as_is_set_and_the_rest_verifies(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O3, O4: a checkpoint says what went, and a row of the chain says that it is ours."""
    monkeypatch.setattr(tenant_records, "MOST_REMOVED", 2)
    monkeypatch.setattr("ferrule.service.upkeep.MOST_REMOVED", 2)
    async with running(store, tmp_path, audit_days=90) as service:
        admin = await service.client()
        boss, _ = await service.tenant("short")
        keeper, _ = await service.tenant("long")
        assert (await admin.change_tenant("short", audit_days=7)).audit_days == 7
        await admin.change_tenant("long", audit_days=0)
        for tenant in ("default", "short", "long"):
            await grow_old(service, tenant, 400, 100, 30, 20, 10, 1.5)
        await boss.call("add", {"a": 1, "b": 1})
        await service.service.upkeep.clean()
        kept = {name: await client.audit() for name, client in (("default", admin), ("short", boss), ("long", keeper))}
        calls = {name: [row["call_id"] for row in page.rows if row["tool"] == "add"] for name, page in kept.items()}
        assert calls["default"] == ["c2", "c3", "c4", "c5"]
        assert calls["short"][0] == "c5"
        assert calls["long"] == [f"c{number}" for number in range(6)]
        for client, removed in ((admin, 2), (boss, 5), (keeper, 0)):
            verified = await client.verify_audit()
            assert (verified.ok, verified.why, verified.removed_to) == (True, "", removed)
        before = len((await boss.audit()).rows)
        await service.service.upkeep.clean()
        assert len((await boss.audit()).rows) == before
        await boss.call("add", {"a": 2, "b": 2})
        assert (await boss.verify_audit()).ok


async def test_a_checkpoint_that_somebody_moved_does_not_pass(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        client = await service.client()
        for number in range(4):
            await client.call("add", {"a": number, "b": 0})

        def forge(connection: Any) -> None:
            second = connection.execute(select(audit).where(audit.c.seq == 2)).one()
            connection.execute(audit.delete().where(audit.c.seq <= 2))
            connection.execute(update(audit_heads).values(removed_to=2, removed_hash=second.hash))

        await service.service.writer.change("default", forge)
        found = await client.verify_audit()
        assert (found.ok, found.why) == (False, "Rows up to 2 are gone, and no retention row of the chain says so.")


async def test_on_postgresql_rows_go_with_a_trace_and_not_before_a_day(postgres_url: str, tmp_path: Path) -> None:
    """The application's role has no right to remove them but through one function."""
    async with running(postgres_url, tmp_path) as service:
        await service.tenant("other")
        await grow_old(service, "default", 400, 100, 0.5)
        await grow_old(service, "other", 400)
        database = service.service.database
        with pytest.raises(DBAPIError, match="does not say"), database.transaction("default") as connection:
            connection.execute(text("SELECT ferrule_remove_audit(2)"))
        with pytest.raises(DBAPIError, match="for a day at least"), database.transaction("default") as connection:
            note = retention_content(time(), 3, "", 3)
            append_audit(connection, "default", [note])
            connection.execute(text("SELECT ferrule_remove_audit(3)"))
        with database.transaction("default") as connection:
            assert remove_old_audit(connection, "default", 30) == 2
        with database.transaction("other") as connection:
            assert len(connection.execute(select(audit)).all()) == 1


async def test_a_chain_without_its_head_begins_anew_instead_of_losing_rows(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        database = service.service.database
        with database.transaction("default", writes=True) as connection:
            connection.execute(delete(audit_heads))
        client = await service.client()
        assert (await client.call("add", {"a": 1, "b": 2})).status == "succeeded"
        assert (await client.verify_audit()).ok
        with database.transaction("default") as connection:
            assert len(connection.execute(select(audit)).all()) == 1


async def test_less_than_a_day_is_refused(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        admin = await service.client()
        with pytest.raises(ServiceError) as short:
            await admin.change_tenant("default", audit_days=0.5)
        assert (short.value.status, short.value.code) == (400, "invalid")
        boss, _ = await service.tenant("other")
        with pytest.raises(ServiceError) as own:  # nobody shortens the record of their own tenant
            await boss.change_tenant("other", audit_days=1)
        assert own.value.status == 403
