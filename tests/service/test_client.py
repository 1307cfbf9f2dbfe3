"""`ferrule.client`: the same with and without `await`, and safe to send again."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from ferrule.app.settings import PermissionSettings
from ferrule.client import AsyncClient, Client, ServiceError, UnreachableError
from tests.service.serving import running, started


def test_both_clients_have_the_same_methods() -> None:
    def methods(owner: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(value).parameters)
            for name, value in inspect.getmembers(owner, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(Client) == methods(AsyncClient)


class FlakyBlocking(httpx2.HTTPTransport):
    """Loses the first answer after it was made."""

    lost = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        if not self.lost:
            self.lost = True
            response.read()
            raise httpx2.ReadError("the connection broke")
        return response


async def test_without_await_a_lost_answer_is_asked_for_again_and_a_stream_can_be_left(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:

        def work() -> None:
            with Client(service.url, service.key, transport=FlakyBlocking()) as client:
                assert client.call("add", {"a": 1, "b": 2}, wait=30).status == "succeeded"
                for event in client.stream("count", {"to": 3}):
                    assert event.type == "call.created"
                    break
                with ThreadPoolExecutor() as other:
                    seen = other.submit(next, client.watch())
                    while not seen.done():
                        client.batch([{"tool": "add", "arguments": {"a": 1, "b": 1}}])
                assert seen.result().type.startswith("call.")
                call = client.calls(tool="add", limit=1).calls[0]
                assert [event.type for event in client.events(call.id)][-1] == "call.succeeded"

        await asyncio.to_thread(work)


def test_without_await_inside_a_running_loop() -> None:
    """Code with a loop may still use the plain client, which needs none."""

    async def work() -> str:
        answer = {"tenant": "t", "user": "u", "roles": [], "scopes": [], "key": "k"}
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=answer))
        with Client("http://127.0.0.1:1", "fk_x", transport=transport) as client:
            return client.me().user

    assert asyncio.run(work()) == "u"


async def test_without_await(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:

        def work() -> None:
            with Client(service.url, service.key) as client:
                assert client.me().user == "admin"
                call = client.call("add", {"a": 20, "b": 22})
                assert call.result is not None
                assert call.result.data == 42
                assert [event.type for event in client.stream("count", {"to": 1})][-1] == "call.succeeded"
                with pytest.raises(ServiceError, match="There is no call `0`"):
                    client.get_call("0")

        await asyncio.to_thread(work)


class Flaky(httpx2.AsyncHTTPTransport):
    """Loses the first answers after they were made."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.left = lost

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if self.left:
            self.left -= 1
            await response.aread()
            raise httpx2.ReadError("the connection broke")
        return response


async def test_a_call_whose_answer_was_lost_is_sent_again_and_made_once(store: str, tmp_path: Path) -> None:
    started.clear()
    async with (
        running(store, tmp_path, permissions=PermissionSettings(allow=["note"])) as service,
        AsyncClient(service.url, service.key, transport=Flaky(2)) as client,
    ):
        call = await client.call("note", {"text": "once"})
        assert call.status == "succeeded"
        assert started == ["once"]


async def test_what_must_not_be_sent_again_is_not(tmp_path: Path) -> None:
    async with (
        running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service,
        AsyncClient(service.url, service.key, transport=Flaky(1)) as client,
    ):
        with pytest.raises(UnreachableError):
            await client.create_user("ann")
        assert "ann" in [user.name for user in await client.users()]


async def test_a_service_that_is_not_there_is_said_in_words() -> None:
    async with AsyncClient("http://127.0.0.1:1", "fk_x", tries=1) as client:
        with pytest.raises(UnreachableError, match="The service did not answer"):
            await client.me()
