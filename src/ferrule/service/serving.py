"""Serves an instance over HTTP until a signal, and then ends it without breaking what runs."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from ferrule.app.listening import listen, serve_app
from ferrule.core.loops import LateTimers
from ferrule.service.http import HttpApp
from ferrule.service.routes import ENDPOINTS, MCP_ENDPOINTS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from ferrule.service.service import Service

_BACKLOG = 2048
_GARBAGE = (10_000, 20, 50)
"""After how many new objects Python looks for rings of garbage: a call leaves none."""
_SWITCH_SECONDS = 0.001
"""How long the event loop goes on while the writer or a tool wants to: under load a call waits for each of them."""


async def serve(
    service: Service,
    host: str,
    port: int,
    *,
    pages: Callable[[ASGIApp], ASGIApp] | None = None,
    ready: Callable[[int], None] = lambda port: None,
    until: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, Ctrl-C or SIGHUP, or until the event is set; `ready` hears the port. `pages` puts others in
    front of the API, as the panel.

    Then new calls are refused while those that run come to their end, which whoever waits for them still hears. A
    second signal ends it at once.
    """
    api = HttpApp(service, (*ENDPOINTS, *MCP_ENDPOINTS))

    async def drain() -> None:
        await service.drain()
        await service.close_mcp()  # or its streams would be waited for

    with listen(host, port, _BACKLOG) as listening:
        async with service:
            # What is here now stays: looking through it again and again is a good part of what a call would cost.
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GARBAGE)
            sys.setswitchinterval(_SWITCH_SECONDS)
            ready(listening.getsockname()[1])
            await serve_app(
                api if pages is None else pages(api), listening, until=until, drain=drain, protocol=_with_exchanges,
                http="httptools", timeout_keep_alive=75, timeout_graceful_shutdown=5,
            )  # fmt: skip


class _Exchange(RequestResponseCycle):
    """One request and its answer. Where the answer is whole, its head and its body are sent at once: sending is the
    dearest part of both. `HttpApp` takes a body that has come, and sends what it has, without a message for each.
    """

    task: asyncio.Task[None]
    tasks: set[asyncio.Task[None]]
    """Those that the server waits for when it stops."""
    _head: Any = None

    async def run_asgi(self, app: Any) -> None:
        """As uvicorn does it, whose own would be a step more for whatever the application waits for."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.response_complete and not self.disconnected:
                raise RuntimeError("The application has returned without an answer.")
        except BaseException:
            self.logger.exception("Exception in ASGI application")
            if self.response_started:
                self.transport.close()
            else:
                await self.send_500_response()
        finally:
            self.on_response = _nothing_more
            self.tasks.discard(self.task)

    def take_body(self) -> bytes | None:
        """The body, where all of it is here."""
        if self.more_body or self.disconnected or self.response_complete:
            return None
        body, self.body = bytes(self.body), bytearray()
        self.message_event.clear()
        return body

    def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole answer whose headers give its length; False where that takes messages."""
        held_up = self.flow.write_paused or self.disconnected or self.response_started
        if held_up or not self.keep_alive or self.scope["method"] == "HEAD":
            return False
        self._send_whole(status, headers, body)
        return True

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._head = message if self._may_wait(dict(message["headers"])) else None
            if self._head is None:
                await super().send(message)
            return
        head, self._head = self._head, None
        if head is None:
            await super().send(message)
        elif message.get("more_body") or self.flow.write_paused or self.disconnected:
            await super().send(head)
            await super().send(message)
        else:
            headers, body = head["headers"], message.get("body", b"")
            if dict(headers)[b"content-length"] != b"%d" % len(body):
                raise RuntimeError("The answer is not as long as it says.")
            self._send_whole(head["status"], headers, body)

    def _may_wait(self, headers: dict[bytes, bytes]) -> bool:
        """Whether all of the answer comes right behind its head, on a connection that goes on."""
        whole = b"content-length" in headers and b"connection" not in headers
        return whole and self.keep_alive and not self.response_started and self.scope["method"] != "HEAD"

    def _send_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        head = b"".join([b"%b: %b\r\n" % header for header in headers])
        if head.count(b"\n") != len(headers) or head.count(b"\r") != len(headers) or b"\x00" in head:
            raise RuntimeError("A header of the answer holds what would end it.")
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(b"".join((STATUS_LINE[status], head, b"\r\n", body)))
        self.message_event.set()
        self.on_response()


def _nothing_more() -> None:
    """What a response that is over tells whoever sent it."""


def _with_exchanges(protocol: Any) -> type[Any]:
    """The protocol that uvicorn has chosen, for many short requests on connections that go on."""
    resting = LateTimers()

    class WithExchanges(protocol):
        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            cycle.__class__ = _Exchange  # uvicorn has no place to say which class it is
            cycle.tasks = self.tasks
            cycle.task = task = self.loop.create_task(cycle.run_asgi(app))
            self.tasks.add(task)  # and it is taken out by itself: being called back would take a turn of the loop

        def on_response_complete(self) -> None:
            if self.pipeline or self.transport.is_closing():
                super().on_response_complete()  # pyright: ignore[reportUnknownMemberType]
                return
            self.server_state.total_requests += 1
            self._unset_keepalive_if_required()
            if self.flow.read_paused:
                self.flow.resume_reading()
            self.timeout_keep_alive_task = resting.start(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    return WithExchanges
