"""A connection that is lost between COMMIT and its answer (R5): the service finds out what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from ferrule.app.settings import PermissionSettings
from ferrule.service import database
from ferrule.service.tables import calls, entity_rows, usage, work
from tests.service.losing import LosingProxy
from tests.service.serving import Running, running, started
from tests.service.shop import ALLOW, Order, open_shop, order

pytestmark = pytest.mark.slow

RUNS = PermissionSettings(allow=["note"])


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[LosingProxy]:
    made = LosingProxy(postgres_url)
    yield made
    made.close()


async def counted(service: Running, column: Any) -> Any:
    return await service.service.database.read(
        "default", lambda connection: connection.execute(select(func.count(column))).scalar()
    )


@pytest.mark.parametrize("key", [None, "one-key"])
async def test_a_call_whose_start_was_stored_unheard_runs_once(
    proxy: LosingProxy, tmp_path: Path, key: str | None
) -> None:
    started.clear()
    async with running(proxy.url, tmp_path, permissions=RUNS) as service:
        client, web = await service.client(), await service.http()
        proxy.lose_after("INSERT INTO calls")
        headers = {"Idempotency-Key": key} if key else {}
        answer = await web.post("/v1/calls", json={"tool": "note", "arguments": {"text": "x"}}, headers=headers)
        assert proxy.lost == 1
        assert (answer.status_code, answer.json()["status"]) == (200, "succeeded")
        assert started == ["x"]
        assert await counted(service, calls.c.id) == 1
        used = await service.service.database.read(
            "default", lambda connection: connection.execute(select(func.sum(usage.c.calls))).scalar()
        )
        assert used == 1
        assert (await client.verify_audit()).rows == 1


@pytest.mark.parametrize("tool", ["add", "note"])
async def test_an_end_that_was_stored_unheard_is_told_and_recorded_once(
    proxy: LosingProxy, tmp_path: Path, tool: str, caplog: pytest.LogCaptureFixture
) -> None:
    started.clear()
    async with running(proxy.url, tmp_path, permissions=RUNS) as service:
        client = await service.client()
        proxy.lose_after("INSERT INTO audit ")
        call = await client.call(tool, {"a": 1, "b": 2} if tool == "add" else {"text": "x"})
        assert proxy.lost == 1
        assert call.status == "succeeded"
        assert (await client.verify_audit()).rows == 1
        assert await counted(service, work.c.call) == 0
        assert "lease was lost" not in caplog.text


async def test_a_decision_that_was_stored_unheard_is_acknowledged(proxy: LosingProxy, tmp_path: Path) -> None:
    started.clear()
    async with running(proxy.url, tmp_path) as service:
        client = await service.client()
        call = await client.call("note", {"text": "decided"}, wait=0)
        approval = await client.approval(call.approval or "")
        proxy.lose_after("UPDATE approvals")
        assert (await client.approve(approval)).status == "approved"
        assert proxy.lost == 1
        assert (await client.get_call(call.id, wait=30)).status == "succeeded"
        assert started == ["decided"]


async def test_a_row_that_was_stored_unheard_is_there_once(proxy: LosingProxy, tmp_path: Path) -> None:
    rules = PermissionSettings(allow=list(ALLOW))
    async with running(proxy.url, tmp_path, models={"order": Order}, permissions=rules) as service:
        client = await service.client()
        await open_shop(client)
        proxy.lose_after("INSERT INTO entity_rows")
        assert (await order(client, "Ann", 40))["customer"] == "Ann"
        assert proxy.lost == 1
        assert await counted(service, entity_rows.c.id) == 1


async def test_what_cannot_be_found_out_is_no_success_and_never_runs(
    proxy: LosingProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is told to try again, so that what was stored must not run besides."""
    started.clear()

    def unknown(*_: object) -> bool:
        raise database.OutcomeUnknown("It is not known.")

    async with running(proxy.url, tmp_path, permissions=RUNS, lease_seconds=1) as service:
        web, client = await service.http(), await service.client()
        with monkeypatch.context() as patched:
            patched.setattr("ferrule.service.writer.was_committed", unknown)
            proxy.lose_after("INSERT INTO calls")
            answer = await web.post("/v1/calls", json={"tool": "note", "arguments": {"text": "x"}})
        assert (answer.status_code, answer.json()["code"]) == (503, "store")
        async with asyncio.timeout(60):
            while (found := (await client.calls()).calls[0]).status != "lost":
                await asyncio.sleep(0.1)
        assert found.tool == "note"
        assert started == []


def test_a_transaction_that_was_undone_is_said_to_be(postgres_url: str) -> None:
    store, number = database.Database(postgres_url), 0
    with pytest.raises(RuntimeError), store.transaction("default", writes=True) as connection:
        number = connection.exec_driver_sql("SELECT txid_current()").scalar_one()
        connection.execute(update(calls).values(status="failed"))
        raise RuntimeError
    assert not database.was_committed(store.engine, number)
    with store.transaction("default", writes=True) as connection:
        number = connection.exec_driver_sql("SELECT txid_current()").scalar_one()
    assert database.was_committed(store.engine, number)
    store.close()
