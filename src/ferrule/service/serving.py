"""Serves an instance over HTTP until a signal, and then ends it without breaking what runs."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import uvicorn

from ferrule.core.loops import no_more_on_signal, on_signal
from ferrule.service.http import HttpApp
from ferrule.service.routes import ENDPOINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ferrule.service.service import Service

HEAD_SECONDS = 20.0
"""How long the head of a request may take to come."""
STALLED_SECONDS = 120
"""How long a client may leave what it asked for unread."""
_BACKLOG = 2048
_ENDS = tuple(one for one in signal.Signals if one.name in ("SIGTERM", "SIGINT", "SIGHUP"))  # those there are here


class CannotListen(Exception):  # noqa: N818 - reads as what it says
    """An address that cannot be served on; says why."""


def is_local(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_of(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


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
    listening = _listen(host, port)
    try:
        config = uvicorn.Config(
            HttpApp(service, ENDPOINTS),
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
        config.http_protocol_class = _with_head_limit(config.http_protocol_class)
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
        for number in _ENDS:
            on_signal(number.name, self._on_end)
        waiting = asyncio.get_running_loop().create_task(self._until.wait()) if self._until is not None else None
        if waiting is not None:
            waiting.add_done_callback(lambda _: self._on_end())
        try:
            yield
        finally:
            if waiting is not None:
                waiting.cancel()
            for number in _ENDS:
                no_more_on_signal(number.name)

    def _on_end(self) -> None:
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        try:
            await self._service.drain()
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


def _with_head_limit(protocol: Any) -> type[Any]:
    """The protocol that uvicorn has chosen, without connections on which half a request stands."""

    class HeadLimited(protocol):
        _seen: object = None
        _looking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(_JoinedWrites(transport, self.loop))  # pyright: ignore[reportUnknownMemberType]
            self._look_later()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._looking is not None:
                self._looking.cancel()
            super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

        def _look_later(self) -> None:
            self._looking = self.loop.call_later(HEAD_SECONDS, self._look)

        def _look(self) -> None:
            """End it where half a request stands since it was last looked at. One that rests between two requests is
            left to uvicorn, which ends it later.
            """
            request = self.cycle
            answered = request is None or request.response_complete
            if answered and request is self._seen and self.timeout_keep_alive_task is None:
                self.transport.close()
                return
            self._seen = request
            self._look_later()

    return HeadLimited


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, or the loop leaves the delay on that small answers suffer from.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # whoever stops reading is cut off, with all that waits for them
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise CannotListen(f"{host}:{port} cannot be served on: {error.strerror or error}.") from None
    return listening
