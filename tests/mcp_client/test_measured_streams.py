"""A server that says too much has to wait, and costs no memory meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from ferrule.mcp_client import connection as measured_streams
from ferrule.mcp_client.connection import measured


class Peer:
    """The other end: what it sends is taken, or not yet."""

    def __init__(self) -> None:
        self.send, self.read = anyio.create_memory_object_stream[Any](0)
        self.write, self.receive = anyio.create_memory_object_stream[Any](100)

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Any]:
        async with self.send, self.receive:
            yield self.read, self.write

    async def say(self, message: Any) -> None:
        await self.send.send(SessionMessage(message))


def asks(key: int) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=key, method="roots/list")


def takes_back(key: int) -> JSONRPCNotification:
    params = {"requestId": key}
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)


def answer(key: int) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=key, result={}))


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_requests_are_taken_than_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_streams, "OPEN_REQUESTS", 3)
    peer = Peer()
    async with measured(peer.streams()) as (read, write), read, write:
        taken: list[int] = []

        async def take() -> None:
            while True:
                taken.append((await anext(read)).message.id)

        async def flood() -> None:
            for key in (1, 1, 2, 3, 4, 5, 6):  # the same id twice is two requests
                await peer.say(asks(key))

        tasks = [asyncio.create_task(take()), asyncio.create_task(flood())]
        await settled()
        assert taken == [1, 1, 2]
        await write.send(answer(1))
        await settled()
        assert taken == [1, 1, 2, 3]
        await write.send(answer(1))
        await write.send(answer(99))  # nobody asked that
        await settled()
        assert taken == [1, 1, 2, 3, 4]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_a_server_takes_back_is_not_open_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_streams, "OPEN_REQUESTS", 2)
    peer = Peer()
    async with measured(peer.streams()) as (read, write), read, write:
        for key in range(1, 20):
            for message in (asks(key), takes_back(key)):
                saying = asyncio.create_task(peer.say(message))
                assert (await anext(read)).message == message
                await saying


async def test_what_comes_unasked_is_read_at_its_pace_and_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []

    class Counted:
        def __init__(self, most: int) -> None:
            assert most == 1_000

        async def spend(self, amount: int = 1) -> None:
            spent.append(amount)

    monkeypatch.setattr(measured_streams, "Pace", Counted)
    peer = Peer()
    async with measured(peer.streams()) as (read, write), read, write:
        for message in (asks(1), takes_back(1), answer(5).message):
            saying = asyncio.create_task(peer.say(message))
            assert (await anext(read)).message == message
            await saying
    assert spent == [1, 1]
