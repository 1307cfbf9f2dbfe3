"""`ferrule.client`: the same with and without `await`, and safe to send again."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import httpx2
import pytest

from ferrule.app.settings import PermissionSettings
from ferrule.client import AsyncClient, Client, ServiceError, Unreachable
from tests.service.serving import running, started


def test_both_clients_have_the_same_methods() -> None:
    def methods(owner: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(value).parameters)
            for name, value in inspect.getmembers(owner, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(Client) == methods(AsyncClient)


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
        with pytest.raises(Unreachable):
            await client.create_user("ann")
        assert "ann" in [user.name for user in await client.users()]


async def test_a_service_that_is_not_there_is_said_in_words() -> None:
    async with AsyncClient("http://127.0.0.1:1", "fk_x", tries=1) as client:
        with pytest.raises(Unreachable, match="The service did not answer"):
            await client.me()
