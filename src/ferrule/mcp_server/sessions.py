"""Who is served: each client with a session of its own, whose shells and memory end with it.

A connection with a handshake is a client. In the stateless era a request says nothing of the ones before, so all of
them on one server (one stdio pipe, or everybody who holds the one token) share a session.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ferrule.core.call import RawCall
from ferrule.core.elicitation import set_elicitor
from ferrule.mcp_server.asking import ask_through_client
from ferrule.mcp_server.peer import HandshakePeer, StatelessPeer, set_peer
from ferrule.mcp_server.running_call import RunningCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

    from ferrule.core.context import Session
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime

logger = logging.getLogger("ferrule.mcp")

_KEY = "ferrule.session"


def is_stateless(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the request is of the era without sessions."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def connection_of(context: ServerRequestContext[Any, Any]) -> Connection:
    """The connection that a request came on, which the SDK has no public way to."""
    return context.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def wants_progress(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client wants to be told how far a request is."""
    return context.meta is not None and context.meta.get("progress_token") is not None


class ClientSession:
    """One client's runtime, and the calls that it has running."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.calls: set[RunningCall] = set()
        self.closed = False

    def begin(
        self,
        context: ServerRequestContext[Any, Any],
        name: str,
        arguments: Mapping[str, Any] | None,
        answers: Mapping[str, Any] | None = None,
    ) -> RunningCall:
        """Start a call; the client can be asked while it runs, and be told of its progress where it wants to."""
        running = RunningCall(RawCall(name, arguments or {}), answers)
        peer = StatelessPeer(context, running) if is_stateless(context) else HandshakePeer(context)

        async def work() -> ToolResult:
            set_peer(peer)
            if peer.can_elicit:
                set_elicitor(peer)
            return await self.runtime.run(running.call)

        self.calls.add(running)
        running.start(work(), self.calls.discard, at_once=not wants_progress(context))
        return running

    async def close(self, close: Callable[[Session], Awaitable[None]]) -> None:
        """Stop its calls, then whatever they left running."""
        self.closed = True
        await asyncio.gather(*(running.stop() for running in list(self.calls)))
        try:
            await close(self.runtime.session)
        except Exception:
            logger.exception("A session could not be closed")


class Sessions:
    """Finds the session of a request, and closes each with its connection."""

    def __init__(self, template: Runtime, close: Callable[[Session], Awaitable[None]]) -> None:
        self._template = template
        self._close = close
        self._shared: ClientSession | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.idle_seconds: float | None = None
        """How long the shared session may be unused before it is closed; None for as long as the server runs."""
        self.connections: set[Connection] = set()
        """Those with a handshake, which can be told of changes."""

    def of(self, context: ServerRequestContext[Any, Any]) -> ClientSession:
        if is_stateless(context):
            return self._the_shared()
        connection = self.greet(context)
        session: ClientSession | None = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = self._open()
            connection.exit_stack.push_async_callback(session.close, self._close)
        return session

    def greet(self, context: ServerRequestContext[Any, Any]) -> Connection:
        """Remember a connection for as long as it lasts."""
        connection = connection_of(context)
        if connection not in self.connections:
            self.connections.add(connection)
            connection.exit_stack.callback(self.connections.discard, connection)
        return connection

    async def close(self) -> None:
        """End the shared session; the others have ended with their connections."""
        if self._idle is not None:
            self._idle.cancel()
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.close(self._close)
        await asyncio.gather(*self._closing)

    def _open(self) -> ClientSession:
        model = self._template.session
        own = replace(model, id=uuid.uuid4().hex, state={})
        return ClientSession(self._template.for_session(own, ask=ask_through_client))

    def _the_shared(self) -> ClientSession:
        if self._shared is None:
            self._shared = self._open()
        if self.idle_seconds is not None:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = asyncio.get_running_loop().call_later(self.idle_seconds, self._close_unused)
        return self._shared

    def _close_unused(self) -> None:
        shared = self._shared
        if shared is None:
            return
        if shared.calls:
            self._the_shared()  # still at work: look again later
            return
        self._shared = None
        closing = asyncio.get_running_loop().create_task(shared.close(self._close))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
