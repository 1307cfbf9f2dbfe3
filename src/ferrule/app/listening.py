"""Serving over HTTP, for the service, the panel and `ferrule mcp serve`: the socket, uvicorn until a signal, and heads
that are slow, huge or false.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ferrule.core.loops import no_more_on_signal, on_signal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HEAD_SECONDS = 20.0
"""How long the head of a request may take to come."""
HEAD_BYTES = 65_536
"""How large it may be: its path and its headers. What frames the pieces of a body is bounded by the body."""
_MOST_HEADERS = 200
STALLED_SECONDS = 120
"""How long a client may leave what it asked for unread."""
_ENDS = tuple(one.name for one in signal.Signals if one.name in ("SIGTERM", "SIGINT", "SIGHUP"))
"""The signals that end a server: those there are on this system."""


class CannotListen(ValueError):  # noqa: N818 - reads as what it says
    """An address that cannot be served on; says why."""


def url_of(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens; raises `CannotListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, or the loop leaves the delay on that small answers suffer from.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # whoever stops reading is cut off, with all that waits for them
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
        listening.bind((host, port))
        listening.listen(backlog)
    except OSError as error:
        listening.close()
        raise CannotListen(f"{host}:{port} cannot be served on: {error.strerror or error}.") from None
    return listening


async def serve_app(
    app: Any,
    listening: socket.socket,
    *,
    until: asyncio.Event | None = None,
    drain: Callable[[], Awaitable[None]] | None = None,
    protocol: Callable[[Any], type[Any]] = lambda chosen: chosen,
    **options: Any,
) -> None:
    """Serve an ASGI application with uvicorn until SIGTERM, Ctrl-C or SIGHUP, or until the event is set.

    It goes on answering while it waits for `drain`; a second signal ends it at once. No signal is raised again: what
    is around the server must close too. `protocol` may extend the one that uvicorn chose, and `options` go to uvicorn.
    """
    import uvicorn

    usual: dict[str, Any] = {
        "interface": "asgi3", "ws": "none", "lifespan": "off", "log_config": None, "access_log": False,
        "server_header": False, "proxy_headers": False,
    }  # fmt: skip
    config = uvicorn.Config(app, **(usual | options))
    config.load()
    config.http_protocol_class = protocol(with_head_limit(config.http_protocol_class))
    server: Any = uvicorn.Server(config)
    server.capture_signals = nullcontext
    loop, tasks = asyncio.get_running_loop(), list[asyncio.Task[None]]()

    async def stop() -> None:
        try:
            if drain is not None:
                await drain()
        finally:
            server.should_exit = True

    def end() -> None:
        if tasks:
            server.should_exit = server.force_exit = True
        else:
            tasks.append(loop.create_task(stop()))

    async def end_with(event: asyncio.Event) -> None:
        await event.wait()
        end()

    for number in _ENDS:
        on_signal(number, end)
    waiting = None if until is None else loop.create_task(end_with(until))
    try:
        await server.serve([listening])
    finally:
        if waiting is not None:
            waiting.cancel()
        for number in _ENDS:
            no_more_on_signal(number)


class HeadTooLarge(Exception):  # noqa: N818 - reads as what it says
    """The head of a request is larger than anybody needs."""


class _NoHeaders(list[tuple[bytes, bytes]]):
    """Takes the place of a request's headers once they are complete: what comes after a body is none of them."""

    def append(self, _trailer: object) -> None:
        pass


_NO_HEADERS = _NoHeaders()


def with_head_limit(protocol: Any, seconds: float | None = None) -> type[Any]:
    """The protocol that uvicorn has chosen, without connections on which half a request stands; with httptools also
    without heads that never end, and without trailers that pass for headers, which it leaves to others.
    """

    def bound(name: str) -> Any:  # once: they are called for every request
        return getattr(protocol, name, None)

    feed, begin, start = bound("data_received"), bound("on_message_begin"), bound("on_headers_complete")
    take, complete = bound("on_body"), bound("on_message_complete")

    class HeadLimited(protocol):
        _seen: object = None
        _looking: asyncio.TimerHandle | None = None
        _in_message = False
        _received = 0
        _piece = 0
        _first_piece = 0
        _body = 0

        def data_received(self, data: bytes) -> None:
            self._piece = len(data)
            self._received += self._piece
            feed(self, data)
            if self._in_message and self._received - 8 * self._body > HEAD_BYTES + len(data):
                self._refuse_head()

        def on_message_begin(self) -> None:
            self._in_message, self._received, self._body = True, 0, 0
            self._first_piece = self._piece  # some of it may be of the request before
            begin(self)

        def on_headers_complete(self) -> None:
            come = self._first_piece + self._received  # the head, and perhaps more
            if come > HEAD_BYTES:
                size = len(self.url) + sum([len(name) + len(value) for name, value in self.headers])
                if size > HEAD_BYTES:
                    raise HeadTooLarge
            if len(self.headers) > _MOST_HEADERS:
                raise HeadTooLarge
            start(self)
            if not self.parser.should_upgrade():
                self.headers = _NO_HEADERS

        def on_body(self, body: bytes) -> None:
            self._body += len(body)
            take(self, body)

        def on_message_complete(self) -> None:
            self._in_message = False
            complete(self)

        def send_400_response(self, msg: str) -> None:
            failed = sys.exception()
            if failed is not None and isinstance(failed.__context__, HeadTooLarge):
                self._refuse_head()
            else:
                super().send_400_response(msg)  # pyright: ignore[reportUnknownMemberType]

        def _refuse_head(self) -> None:
            said = f"The head of the request has more than {HEAD_BYTES:,} bytes or {_MOST_HEADERS} headers.".encode()
            if self.cycle is None or self.cycle.response_complete:
                head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(said)}\r\nconnection: close"
                self.transport.write(
                    b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + head.encode() + b"\r\n\r\n" + said
                )
            self.transport.close()

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType]
            self._look_later()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._looking is not None:
                self._looking.cancel()
            super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

        def _look_later(self) -> None:
            self._looking = self.loop.call_later(HEAD_SECONDS if seconds is None else seconds, self._look)

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
