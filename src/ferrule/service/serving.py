"""Serves an instance over HTTP until a signal, and then ends it without breaking what runs."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from ferrule.app.listening import ENDS, listen, with_head_limit
from ferrule.core.loops import no_more_on_signal, on_signal
from ferrule.service.http import HttpApp
from ferrule.service.routes import ENDPOINTS, MCP_ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ferrule.service.service import Service

_BACKLOG = 2048


async def serve(
    service: Service,
    host: str,
    port: int,
    *,
    ready: Callable[[int], None] = lambda port: None,
    until: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, Ctrl-C or SIGHUP, or until the event is set; `ready` hears the port.

    Then new calls are refused while those that run come to their end, which whoever waits for them still hears. A
    second signal ends it at once.
    """
    listening = listen(host, port, _BACKLOG)
    try:
        config = uvicorn.Config(
            HttpApp(service, (*ENDPOINTS, *MCP_ENDPOINTS)),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=5,
        )
        config.load()
        config.http_protocol_class = _with_joined_writes(with_head_limit(config.http_protocol_class))
        async with service:
            ready(listening.getsockname()[1])
            await _DrainingServer(config, service, until).serve([listening])
    finally:
        listening.close()


class _DrainingServer(uvicorn.Server):
    """Drains the service before it stops to answer."""

    def __init__(self, config: uvicorn.Config, service: Service, until: asyncio.Event | None) -> None:
        super().__init__(config)
        self._service = service
        self._until = until
        self._draining: asyncio.Task[None] | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        for number in ENDS:
            on_signal(number.name, self._on_end)
        waiting = asyncio.get_running_loop().create_task(self._until.wait()) if self._until is not None else None
        if waiting is not None:
            waiting.add_done_callback(lambda _: self._on_end())
        try:
            yield
        finally:
            if waiting is not None:
                waiting.cancel()
            for number in ENDS:
                no_more_on_signal(number.name)

    def _on_end(self) -> None:
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        try:
            await self._service.drain()
            await self._service.close_mcp()  # or its streams would be waited for
        finally:
            self.should_exit = True


class _JoinedWrites:
    """A transport that sends all that is written in one turn of the loop at once: uvicorn writes the head of an answer
    and its body one after the other, and sending is the dearest part of both.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)

    def _send(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._transport.write(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _with_joined_writes(protocol: Any) -> type[Any]:
    class WithJoinedWrites(protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(_JoinedWrites(transport, self.loop))  # pyright: ignore[reportUnknownMemberType]

    return WithJoinedWrites
