"""What a server says unasked, measured: it is read no faster than allowed, and few of its requests are open at once.

A stream of events over HTTP can bring any number of them, and each request of a server is work of ours until its answer
is sent. What is not taken yet stays with the server, which has to wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from ferrule.mcp_client.bounds import MESSAGES_PER_SECOND, OPEN_REQUESTS
from ferrule.mcp_client.pace import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager
    from contextvars import Context
    from types import TracebackType

    from mcp.shared.message import SessionMessage


@asynccontextmanager
async def measured(transport: AbstractAsyncContextManager[Any]) -> AsyncGenerator[tuple[Any, Any]]:
    """A transport whose two streams are measured."""
    async with transport as (read, write):
        requests = OpenRequests()
        yield Reading(read, requests), Writing(write, requests)


class OpenRequests:
    """A server's requests that are not answered yet."""

    def __init__(self) -> None:
        self._open: Counter[Any] = Counter()
        self._room = asyncio.Event()
        self._room.set()

    async def begin(self, key: Any) -> None:
        """Come back once there is room for one more."""
        await self._room.wait()
        self._open[key] += 1
        if self._open.total() >= OPEN_REQUESTS:
            self._room.clear()

    def end(self, key: Any, *, every: bool = False) -> None:
        """One was answered, or the server took back every one of this id."""
        if self._open[key] > 1 and not every:
            self._open[key] -= 1
        else:
            del self._open[key]
        if self._open.total() < OPEN_REQUESTS:
            self._room.set()


class _Way:
    """One of a transport's two streams, opened and closed with it."""

    def __init__(self, inner: Any, requests: OpenRequests) -> None:
        self._inner = inner
        self._requests = requests

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


class Reading(_Way):
    """The way in, as the session reads it."""

    def __init__(self, inner: Any, requests: OpenRequests) -> None:
        super().__init__(inner, requests)
        self._pace = Pace(MESSAGES_PER_SECOND)

    @property
    def last_context(self) -> Context | None:
        """Whose message the last one is, where the transport tells."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> Reading:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        item = await anext(self._inner)
        message = getattr(item, "message", None)
        if not isinstance(message, (JSONRPCResponse, JSONRPCError)):
            await self._pace.spend()
        if isinstance(message, JSONRPCRequest):
            await self._requests.begin(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._requests.end(cancelled_request_id_from_params(message.params), every=True)
        return item


class Writing(_Way):
    """The way out, as the session writes it."""

    async def send(self, item: SessionMessage) -> None:
        try:
            await self._inner.send(item)
        finally:
            if isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
                self._requests.end(item.message.id)
