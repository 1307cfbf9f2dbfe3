"""Listening for HTTP, for the service and for `ferrule mcp serve`: the socket, and connections that send no request."""

from __future__ import annotations

import signal
import socket
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS = 20.0
"""How long the head of a request may take to come."""
ENDS = tuple(one for one in signal.Signals if one.name in ("SIGTERM", "SIGINT", "SIGHUP"))
"""The signals that end a server: those there are on this system."""


class CannotListen(ValueError):  # noqa: N818 - reads as what it says
    """An address that cannot be served on; says why."""


def is_local(host: str) -> bool:
    """Whether only this machine can reach it. A name that is not `localhost` may lead anywhere."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
        listening.bind((host, port))
        listening.listen(backlog)
    except OSError as error:
        listening.close()
        raise CannotListen(f"{host}:{port} cannot be served on: {error.strerror or error}.") from None
    return listening


def with_head_limit(protocol: Any, seconds: float | None = None) -> type[Any]:
    """The protocol that uvicorn has chosen, without connections on which half a request stands."""

    class HeadLimited(protocol):
        _seen: object = None
        _looking: asyncio.TimerHandle | None = None

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
