"""Serves an instance over HTTP until a signal, and then ends it without breaking what runs."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from ferrule.app.listening import listen, serve_app
from ferrule.core.loops import LateTimers
from ferrule.service.http import HttpApp
from ferrule.service.routes import ENDPOINTS, MCP_ENDPOINTS

if TYPE_CHECKING:
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
    """One request and its answer. `HttpApp` takes a body that has come, and sends a whole answer at once, without a
    message for each: sending is the dearest part of a short call.
    """

    tasks: set[asyncio.Task[None] | None]
    """Those that the server waits for when it stops."""

    async def run_asgi(self, app: Any) -> None:
        try:
            await super().run_asgi(app)
        finally:
            self.tasks.discard(asyncio.current_task())

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
        head = b"".join([b"%b: %b\r\n" % header for header in headers])
        if head.count(b"\n") != len(headers) or head.count(b"\r") != len(headers) or b"\x00" in head:
            raise RuntimeError("A header of the answer holds what would end it.")
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(b"".join((STATUS_LINE[status], head, b"\r\n", body)))
        self.message_event.set()
        self.on_response()
        return True


def _with_exchanges(protocol: Any) -> type[Any]:
    """The protocol that uvicorn has chosen, for many short requests on connections that go on."""
    resting = LateTimers()

    class WithExchanges(protocol):
        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            cycle.__class__ = _Exchange  # uvicorn has no place to say which class it is
            cycle.tasks = self.tasks
            # It takes itself out: a callback at its end would take a turn of the loop.
            self.tasks.add(self.loop.create_task(cycle.run_asgi(app)))

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
