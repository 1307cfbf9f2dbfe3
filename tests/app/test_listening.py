"""Half a request holds no connection, and a long answer keeps its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

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
