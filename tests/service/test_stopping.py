"""What a stop, a crash or a cancellation finds in the middle: nothing is stuck, forgotten or done twice."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from ferrule.app.settings import PermissionSettings
from ferrule.client import Client
from ferrule.service.messages import ApprovalRecord
from ferrule.service.tables import calls
from ferrule.service.writer import InsertCalls, Op
from tests.service.instances import Instance, marks_of
from tests.service.serving import running, started

NO_QUESTIONS = PermissionSettings(allow=["note", "slow_note"])


def approval_of(client: Client) -> ApprovalRecord:
    """The one that waits, once it does."""
    until = monotonic() + 60
    while monotonic() < until:
        if found := client.approvals():
            return found[0]
        sleep(0.05)
    raise AssertionError("nothing waits for an approval")


async def test_a_call_that_is_cancelled_while_its_end_is_stored_shows_its_end(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, permissions=NO_QUESTIONS) as service:
        client = await service.client()
        go_on = threading.Event()
        made = await client.call("slow_note", {"text": "late cancel", "seconds": 0.3}, wait=0)
        busy = service.service.writer.change("", lambda connection: go_on.wait(30))
        live = service.service.calls.live[made.id]
        while not live.ending:
            await asyncio.sleep(0.01)
        await client.cancel(made.id)
        go_on.set()
        await busy
        assert (await client.get_call(made.id, wait=30)).status == "succeeded"
        assert not service.service.calls.live


async def test_a_call_of_a_batch_that_is_cancelled_before_its_turn_never_begins(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, permissions=NO_QUESTIONS) as service:
        client = await service.client()
        first = {"tool": "slow_note", "arguments": {"text": "first", "seconds": 1}, "id": "first"}
        second = {"tool": "note", "arguments": {"text": {"$ref": "first"}}}
        made = await client.batch([first, second, {"tool": "note", "arguments": {"text": "third"}}], wait=0)
        await client.cancel(made.calls[1].id)
        ended = [(await client.get_call(call.id, wait=30)).status for call in made.calls]
        assert ended == ["succeeded", "cancelled", "succeeded"]
        assert "noted first" not in started
        rows = (await client.audit()).rows
        assert [row["outcome"] for row in rows if row["call_id"] == made.calls[1].id] == ["cancelled_error"]


def test_a_call_that_was_answered_with_202_is_there_after_a_crash(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'service.db'}"
    with Instance(tmp_path, store) as one:
        key = one.key
        with httpx2.Client(base_url=one.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as web:
            web.get("/v1/me")
            body = {"tool": "look", "arguments": {"text": "told", "seconds": 30}}
            made = web.post("/v1/calls", json=body, headers={"Prefer": "respond-async"})
            one.kill()
        assert made.status_code == 202
    with Instance(tmp_path, store) as two, Client(two.url, key) as client:
        assert client.get_call(made.json()["id"]).tool == "look"


@pytest.mark.parametrize("ended", ["kill", "end"])
def test_a_question_of_a_batch_outlives_its_instance(store: str, tmp_path: Path, ended: str) -> None:
    with Instance(tmp_path, store) as one, Client(one.url, key := one.key) as client:
        batch = client.batch([{"tool": "ask", "arguments": {"text": "batched"}}], wait=0)
        approval_of(client)
        getattr(one, ended)()
    with Instance(tmp_path, store, "two") as two, Client(two.url, key) as client:
        client.approve(approval_of(client))
        assert client.get_call(batch.calls[0].id, wait=50).status == "succeeded"
        assert marks_of(two.marks) == ["ask batched"]


def test_a_stop_waits_for_nobody_who_waits_for_an_approval(store: str, tmp_path: Path) -> None:
    with Instance(tmp_path, store) as one, Client(one.url, one.key) as client:
        waiting = client.call("ask", {"text": "a"}, wait=0)
        answers: list[int] = []
        headers = {"Authorization": f"Bearer {one.key}"}
        with httpx2.Client(base_url=one.url, headers=headers, timeout=60) as web:

            def wait() -> None:
                answers.append(web.get(f"/v1/calls/{waiting.id}?wait=50").status_code)

            def follow() -> None:
                with web.stream("GET", f"/v1/calls/{waiting.id}/events") as events:
                    answers.append(len([line for line in events.iter_lines() if line.startswith("event:")]))

            threads = [threading.Thread(target=one) for one in (wait, follow)]
            for thread in threads:
                thread.start()
            while one.log.count("/events") < 1:
                client.me()
            one.end()
            for thread in threads:
                thread.join(60)
        assert sorted(answers) == [2, 202]
        assert "Traceback" not in one.log


async def test_a_call_over_mcp_that_is_taken_back_while_it_is_stored_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp import Client as McpClient
    from mcp.client.streamable_http import streamable_http_client

    store = f"sqlite:///{tmp_path / 'service.db'}"
    async with running(store, tmp_path, permissions=NO_QUESTIONS) as service:
        go_on = threading.Event()
        headers = {"Authorization": f"Bearer {service.key}"}
        async with (
            httpx2.AsyncClient(headers=headers) as web,
            McpClient(streamable_http_client(f"{service.url}/mcp", http_client=web)) as agent,
        ):
            await agent.list_tools()
            writer = service.service.writer
            busy = writer.change("", lambda connection: go_on.wait(30))
            about_to, write = asyncio.Event(), writer.write

            def noted(op: Op) -> asyncio.Future[Any]:
                if isinstance(op, InsertCalls):
                    about_to.set()
                return write(op)

            monkeypatch.setattr(writer, "write", noted)
            call = asyncio.create_task(agent.call_tool("slow_note", {"text": "taken back", "seconds": 30}))
            await about_to.wait()
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            await asyncio.sleep(0.5)
            go_on.set()
            await busy
            until = monotonic() + 30
            query = select(calls.c.status).where(calls.c.tool == "slow_note")
            while True:
                found = await service.service.database.read(
                    "default", lambda connection: connection.execute(query).scalars().all()
                )
                if found == ["cancelled"]:
                    break
                assert monotonic() < until, found
                await asyncio.sleep(0.05)
