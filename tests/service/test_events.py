"""Events of a call: as they happen, again from any point, and in bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import ToolContext, tool
from ferrule.client import ServiceError
from ferrule.service.live import MOST_EVENT_CHARS, MOST_EVENTS
from tests.service.serving import running


async def test_a_stream_gives_progress_and_output_and_ends_with_the_result(store: str, tmp_path: Path) -> None:
    """P9."""
    async with running(store, tmp_path) as service:
        client = await service.client()
        seen = [event async for event in client.stream("count", {"to": 3})]
        assert [event.type for event in seen][:2] == ["call.created", "call.started"]
        assert [event.id for event in seen] == list(range(1, len(seen) + 1))
        output = [event.data["content"] for event in seen if event.type == "call.output"]
        assert output == ["1 ", "2 ", "3 "]
        assert [event.data["message"] for event in seen if event.type == "call.progress"][-1] == "at 3"
        assert (seen[-1].type, seen[-1].data["result"]["llm_content"]) == ("call.succeeded", "1 2 3 ")


async def test_a_stream_is_resumed_after_the_last_event(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        seen = [event async for event in client.stream("count", {"to": 3})]
        call = seen[0].call
        for event in seen:
            rest = [one async for one in client.events(call, after=event.id)]
            assert rest == seen[event.id :]


async def test_another_instance_tells_the_events_too(postgres_url: str, tmp_path: Path) -> None:
    async with running(postgres_url, tmp_path) as one, running(postgres_url, tmp_path, key=one.key) as two:
        here, there = await one.client(), await two.client()
        call = await here.call("count", {"to": 20}, wait=0)
        followed = [event async for event in there.events(call.id)]
        assert followed == [event async for event in here.events(call.id)]
        assert followed[-1].type == "call.succeeded"


@tool(kind="readonly")
async def chatter(context: ToolContext) -> str:
    """Say more than anyone keeps."""
    for number in range(MOST_EVENTS + 500):
        context.partial(number)
        if number % 100 == 0:
            await asyncio.sleep(0)
    return "done"


async def test_more_output_than_is_kept_ends_in_a_reset(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, tools=(chatter,)) as service:
        client = await service.client()
        seen = [event async for event in client.stream("chatter")]
        assert seen[-2].type == "reset"
        assert seen[-1].type == "call.succeeded"
        assert len(seen) <= MOST_EVENTS + 4


async def test_few_pieces_that_are_large_end_in_a_reset_too(tmp_path: Path) -> None:
    """What is kept of a call's output is bounded by its size, not only by the number of its pieces."""

    @tool(kind="readonly")
    async def pour(context: ToolContext) -> AsyncIterator[str]:
        """Give a lot of output."""
        for _ in range(200):
            yield "x" * 60_000

    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, tools=(pour,)) as service:
        client = await service.client()
        seen = [event async for event in client.stream("pour")]
        assert [event.type for event in seen[-2:]] == ["reset", "call.succeeded"]
        kept = sum(len(event.data["content"]) for event in seen if event.type == "call.output")
        assert kept <= MOST_EVENT_CHARS + 60_000
        assert len(seen[-1].data["result"]["llm_content"]) > 0


async def test_a_reader_that_never_reads_holds_nobody_up(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:
        _, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
        body = json.dumps({"tool": "count", "arguments": {"to": 5}}).encode()
        head = f"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\nAccept: text/event-stream"
        head += f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        client = await service.client()
        while not (found := (await client.calls(tool="count")).calls):
            await asyncio.sleep(0.05)
        assert (await client.get_call(found[0].id, wait=30)).status == "succeeded"
        writer.close()


async def test_events_of_no_call_are_a_404(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        with pytest.raises(ServiceError) as missing:
            _ = [event async for event in client.events("0" * 32)]
        assert missing.value.status == 404


async def test_a_stream_of_a_call_ends_with_the_rights_to_see_it(store: str, tmp_path: Path) -> None:
    """O4: a revoked key hears nothing more, and what runs for it is stopped."""
    async with running(store, tmp_path) as service:
        admin = await service.client()
        key = await admin.create_key("admin")
        web = await service.http(key.secret)
        body = {"tool": "count", "arguments": {"to": 400}}
        heard: list[str] = []
        async with (
            asyncio.timeout(60),
            web.stream("POST", "/v1/calls", json=body, headers={"Accept": "text/event-stream"}) as stream,
        ):
            async for line in stream.aiter_lines():
                heard.append(line)
                if len(heard) == 20:
                    await admin.revoke_key(key.id)
        assert not any("call.succeeded" in line for line in heard)
        call = (await admin.calls()).calls[0]
        assert (await admin.get_call(call.id, wait=30)).status == "cancelled"


async def test_streams_that_wait_do_not_read_the_store_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P10: calls that wait for approval cost nothing, however many follow them."""
    async with running(f"sqlite:///{tmp_path / 'service.db'}", tmp_path) as service:
        admin, web = await service.client(), await service.http()
        asked = [await admin.call("note", {"text": str(number)}, wait=0) for number in range(5)]
        begun, ended = 0, 0

        async def follow(call: str) -> None:
            nonlocal begun, ended
            async with web.stream("GET", f"/v1/calls/{call}/events") as stream:
                begun += 1
                async for line in stream.aiter_lines():
                    ended += line.startswith("event: call.succeeded")

        streams = [asyncio.create_task(follow(one.id)) for one in asked for _ in range(10)]
        while begun < len(streams):
            await asyncio.sleep(0.02)
        await asyncio.sleep(1)
        reads, read = 0, service.service.database.read

        def counted(*given: Any) -> Any:
            nonlocal reads
            reads += 1
            return read(*given)

        monkeypatch.setattr(service.service.database, "read", counted)
        await asyncio.sleep(2)
        assert reads < len(streams) / 2
        for approval in await admin.approvals():
            await admin.approve(approval)
        async with asyncio.timeout(30):
            await asyncio.gather(*streams)
        assert ended == len(streams)
