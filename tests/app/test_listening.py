"""Half a request holds no connection, and a long answer keeps its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from ferrule.app.listening import with_head_limit

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def served(release: asyncio.Event) -> AsyncGenerator[int]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/long":
            await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_keep_alive=60)
    config.load()
    config.http_protocol_class = with_head_limit(config.http_protocol_class, 0.05)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await task


async def test_half_a_request_is_let_go_of() -> None:
    async with served(asyncio.Event()) as port:
        for before in (b"", HEAD + b"\r\n"):  # the first request, and one after another
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(before)
            if before:
                await reader.readuntil(b"ok")
            writer.write(HEAD)
            assert await reader.read() == b""
            writer.close()


async def test_an_answer_that_takes_long_is_waited_for() -> None:
    release = asyncio.Event()
    async with served(release) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD.replace(b"/ ", b"/long ") + b"\r\n")
        other, half = await asyncio.open_connection("127.0.0.1", port)
        half.write(HEAD)
        assert await other.read() == b""  # so the time is over, and this one was looked at too
        release.set()
        await reader.readuntil(b"ok")
        writer.close()
        half.close()


class Transport(asyncio.Transport):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""

    def write(self, data: Any) -> None:
        self.said += data

    def close(self) -> None:
        pass


@pytest.mark.parametrize("last", [0, 2, 100, 40_000])
@pytest.mark.parametrize("behind_another", [False, True])
async def test_a_head_is_too_large_whatever_pieces_it_comes_in(last: int, behind_another: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(app, http="httptools", ws="none", log_config=None, lifespan="off")
    config.load()
    transport = Transport()
    connection = with_head_limit(config.http_protocol_class)(config, ServerState(), {})
    connection.connection_made(transport)
    large = HEAD + b"Much: " + b"x" * 66_000 + b"\r\n\r\n"
    if behind_another:
        connection.data_received(HEAD + b"\r\n" + large[:10])
        large = large[10:]
        await asyncio.sleep(0.01)
        assert transport.said.endswith(b"ok")
    connection.data_received(large[: len(large) - last])
    if last:
        connection.data_received(large[-last:])
    connection.connection_lost(None)
    assert b"HTTP/1.1 431 " in transport.said
