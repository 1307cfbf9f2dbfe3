"""`GET /v1/events`: what happens in a tenant, for those who may see it, in bounded memory."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import tool
from ferrule.client import AsyncClient, ServiceError
from ferrule.service import feed, http
from ferrule.service.messages import FeedEvent
from tests.service.serving import Running, running


class Watcher:
    """Reads a client's events, from the moment on that the service has taken the request."""

    def __init__(self, client: AsyncClient, after: str = "") -> None:
        self._events: AsyncIterator[FeedEvent] = client.watch(after)
        self.seen: list[FeedEvent] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self._events:
            self.seen.append(event)

    async def until(self, kind: str, count: int = 1) -> FeedEvent:
        async with asyncio.timeout(100):
            while sum(event.type == kind for event in self.seen) < count:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.02)
        return [event for event in self.seen if event.type == kind][count - 1]

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.seen]


async def watching(service: Running, client: AsyncClient, after: str = "") -> Watcher:
    tenant = (await client.me()).tenant
    before = service.service.feed._streams[tenant]
    watcher = Watcher(client, after)
    while service.service.feed._streams[tenant] <= before:
        await asyncio.sleep(0.02)
    return watcher


async def test_calls_approvals_and_tools_are_told_as_they_happen(store: str, tmp_path: Path) -> None:
    """R8: a tool that is switched off or added is told too."""
    async with running(store, tmp_path) as service:
        client = await service.client()
        watcher = await watching(service, client)
        plain = await client.call("add", {"a": 1, "b": 2})
        await watcher.until("call.succeeded")
        assert [(one.type, one.call) for one in watcher.seen] == [
            (kind, plain.id) for kind in ("call.created", "call.started", "call.succeeded")
        ]
        asked = await client.call("note", {"text": "x"}, wait=0)
        waiting = await watcher.until("call.awaiting_approval")
        assert (waiting.call, waiting.data["approval"]) == (asked.id, asked.approval)
        await client.approve(await client.approval(asked.approval or ""))
        await watcher.until("call.succeeded", 2)
        assert watcher.types[3:] == [
            "call.created", "call.awaiting_approval", "approval.decided", "call.started", "call.succeeded"
        ]  # fmt: skip
        cancelled = await client.call("note", {"text": "y"}, wait=0)
        await client.cancel(cancelled.id)
        await watcher.until("call.cancelled")
        await client.switch_tool("add", enabled=False)
        await watcher.until("tools.changed")

        @tool(kind="readonly")
        def newcomer() -> str:
            """Be new."""
            return "new"

        service.service.tools.register(newcomer)
        await watcher.until("tools.changed", 2)
        await client.put_role("unrelated")
        await client.call("newcomer")
        await watcher.until("call.succeeded", 3)
        assert watcher.types.count("tools.changed") == 2
        await watcher.stop()


async def test_a_reader_sees_what_it_may_see_and_no_more(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        boss, _ = await service.tenant("other")
        await admin.put_role("approver", allow=["Admin(approve others)"])
        ann, bob = await service.user("ann"), await service.user("bob", "approver")
        narrow = await service.client((await admin.create_key("ann", scopes=["approvals"])).secret)
        readers = {
            "ann": await watching(service, ann), "bob": await watching(service, bob),
            "admin": await watching(service, admin), "boss": await watching(service, boss),
            "narrow": await watching(service, narrow),
        }  # fmt: skip
        await ann.call("note", {"text": "ann's"}, wait=0)
        await bob.call("add", {"a": 1, "b": 1})
        await boss.call("add", {"a": 1, "b": 1})
        await readers["admin"].until("call.succeeded")
        await readers["bob"].until("call.succeeded")
        await readers["boss"].until("call.succeeded")
        await readers["narrow"].until("call.awaiting_approval")
        await readers["ann"].until("call.awaiting_approval")
        seen = {name: [(one.type, one.user) for one in reader.seen] for name, reader in readers.items()}
        of_ann = [("call.created", "ann"), ("call.awaiting_approval", "ann")]
        of_bob = [("call.created", "bob"), ("call.started", "bob"), ("call.succeeded", "bob")]
        assert seen["ann"] == of_ann
        assert seen["narrow"] == of_ann[1:]
        assert seen["bob"] == of_ann[1:] + of_bob
        assert seen["admin"] == of_ann + of_bob
        assert {user for _, user in seen["boss"]} == {"boss"}
        for reader in readers.values():
            await reader.stop()


async def test_a_reader_goes_on_where_it_was_or_is_told_to_start_anew(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        watcher = await watching(service, client)
        await client.call("add", {"a": 1, "b": 1})
        last = await watcher.until("call.succeeded")
        await watcher.stop()
        missed = await client.call("add", {"a": 2, "b": 2})
        await client.switch_tool("add", enabled=False)
        again = await watching(service, client, last.id)
        await again.until("call.succeeded")
        assert [(one.type, one.call) for one in again.seen] == [
            ("tools.changed", None),
            ("call.created", missed.id), ("call.started", missed.id), ("call.succeeded", missed.id),
        ]  # fmt: skip
        await again.stop()
        elsewhere = await watching(service, client, "0198c5a0-unheard-of.00000000")
        assert (await elsewhere.until("reset")).data["detail"].startswith("Something may have been missed.")
        await elsewhere.stop()
        plain = await service.http()
        for wrong in ("nonsense", "a.b", "x" * 300 + ".00000000"):
            assert (await plain.get("/v1/events", headers={"Last-Event-ID": wrong})).status_code == 400


async def test_a_stream_ends_with_its_credential_and_its_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_CHECK_SECONDS", 0.1)
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        admin = await service.client()
        ann = await service.user("ann", "admin")
        watcher = await watching(service, ann)
        await admin.call("add", {"a": 1, "b": 1})
        await watcher.until("call.succeeded")
        await admin.change_user("ann", roles=["member"])
        await admin.call("add", {"a": 1, "b": 1})
        await ann.call("add", {"a": 1, "b": 1})
        await watcher.until("call.succeeded", 2)
        assert [one.user for one in watcher.seen if one.type == "call.succeeded"] == ["admin", "ann"]
        key = next(one for one in await admin.keys() if one.user == "ann")
        await admin.revoke_key(key.id)
        with pytest.raises(ServiceError) as refused:
            await watcher.until("never")
        assert refused.value.status == 401


async def test_whoever_never_reads_costs_bounded_memory_and_is_told_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_EVENTS", 8)
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        client = await service.client()
        host, port = service.url.removeprefix("http://").split(":")
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((host, int(port)))
        stuck.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\n\r\n".encode())
        events = service.service.feed
        while not events._streams["default"]:
            await asyncio.sleep(0.02)
        row = {"tenant": "default", "id": "c", "user": "admin", "tool": "x" * 2_000, "session": None, "batch": None}
        for _ in range(6_000):
            events.tell(row, "call.created")
            await asyncio.sleep(0)
        ring = events.rings["default"]
        assert len(ring._events) < 16
        assert len(ring._numbers) < 16
        assert (await client.call("add", {"a": 1, "b": 1})).status == "succeeded"
        stuck.setblocking(False)
        got = b""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(100):
            while b"event: reset" not in got:
                got += await loop.sock_recv(stuck, 1_000_000)
        stuck.close()


async def test_streams_are_counted_and_end_with_their_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_MOST_OF_TENANT", 2)
    monkeypatch.setattr(http, "COMMENT_SECONDS", 0.05)
    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        client = await service.client()
        one, two = await watching(service, client), await watching(service, client)
        with pytest.raises(ServiceError) as many:
            await Watcher(client).until("never")
        assert (many.value.status, many.value.code) == (429, "streams")
        await one.stop()
        await two.stop()
        while service.service.feed._streams["default"]:
            await asyncio.sleep(0.02)
        async with (await service.http()).stream("GET", "/v1/events") as response:
            lines = response.aiter_lines()
            said = [await anext(lines) for _ in range(7)]
            assert said[0] == ": ferrule"
            assert said[2].startswith("id: ")
            assert ": still here" in said


async def test_instances_tell_each_other(postgres_url: str, tmp_path: Path) -> None:
    """O4, R8: on one PostgreSQL, whichever instance a call runs on; nothing is missed silently."""
    async with running(postgres_url, tmp_path) as one, running(postgres_url, tmp_path, key=one.key) as two:
        here, there = await one.client(), await two.client()
        watcher = await watching(one, here)
        await watcher.until("reset")  # from now on the other instance passes on what happens there
        call = await there.call("add", {"a": 1, "b": 1})
        assert (await watcher.until("call.succeeded")).call == call.id
        await there.switch_tool("count", enabled=False)
        await watcher.until("tools.changed")
        last = watcher.seen[-1].id
        await watcher.stop()
        missed = await there.call("add", {"a": 1, "b": 1})
        again = await watching(two, there, last)
        assert (await again.until("call.succeeded")).call == missed.id
        await again.stop()
        assert "reset" not in again.types


def test_an_event_fits_into_a_notification() -> None:
    """PostgreSQL takes less than 8,000 bytes."""
    from ferrule.service.feed import _MOST_SUMMARY

    row: dict[str, Any] = {"tool": "\N{SNOWMAN}" * 256, "session": "s" * 64, "batch": "b" * 36}
    event = {"id": "i" * 36, "type": "call.awaiting_approval", "call": "c" * 36, "user": "u" * 63, "at": "t" * 30}
    data = {**row, "approval": "a" * 36, "summary": "\N{PILE OF POO}" * _MOST_SUMMARY}
    assert len(f"feed:{'i' * 36}:{json.dumps(['t' * 63, {**event, 'data': data}])}") < 8_000
