"""Streams over HTTP that nobody waits for any more are let go of.

In the revisions with a handshake a call that is given up is cancelled by a message, and the SDK reads on in the stream
that its answer would have come on, reconnecting where that ends. A server that never ends it, or keeps it alive by
comments, would cost a connection for every such call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet, WeakValueDictionary

import httpx2
from pydantic_core import from_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CANCELLED = b"notifications/cancelled"
_NOBODY = "nobody waits for this answer any more"


class _Stream(httpx2.AsyncByteStream):
    """A stream of events that ends with the next piece once nobody wants it; without one, after the time of silence."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body
        self.is_wanted = True
        self.reader = asyncio.current_task()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            if not self.is_wanted:
                raise httpx2.ReadError(_NOBODY)
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class AbandonedAnswers:
    """Looks at one client's requests and responses as they pass."""

    def __init__(self) -> None:
        self._streams: WeakValueDictionary[int | str, _Stream] = WeakValueDictionary()
        self._given_up: WeakSet[asyncio.Task[Any]] = WeakSet()

    def see_request(self, request: httpx2.Request) -> None:
        """Note what is cancelled; raises where a stream is to be taken up again that nobody waits for."""
        if request.method == "GET" and asyncio.current_task() in self._given_up:
            raise httpx2.ReadError(_NOBODY, request=request)
        if request.method != "POST" or _CANCELLED not in request.content:
            return
        message = _message(request)
        stream = self._streams.get(message.get("params", {}).get("requestId"))
        if message.get("method") == _CANCELLED.decode() and stream is not None:
            stream.is_wanted = False
            if stream.reader is not None:
                self._given_up.add(stream.reader)

    def see_response(self, response: httpx2.Response) -> None:
        """Note the stream that a request is answered by."""
        kind = response.headers.get("content-type", "").lower()
        if response.request.method != "POST" or not kind.startswith("text/event-stream"):
            return
        body: Any = response.stream
        if (number := _message(response.request).get("id")) is not None:
            response.stream = self._streams[number] = _Stream(body)


def _message(request: httpx2.Request) -> dict[str, Any]:
    """What a request of the session's holds; nothing for one that is made to sign in."""
    try:
        found: Any = from_json(request.content)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
