"""Answers over HTTP that are bounded: in bytes as they come, and in values before anything is made of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx2

from ferrule.core.json_values import MESSAGE_VALUES, has_too_many_values
from ferrule.mcp_client import bounds
from ferrule.mcp_client.pace import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_TOO_MANY = f"the answer holds more than {MESSAGE_VALUES:,} values, {bounds.NOT_READ}"
_TOO_LONG = f"the answer takes more than {bounds.MESSAGE_BYTES:,} bytes, {bounds.NOT_READ}"
_END_OF_EVENT = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
_LONGEST_END = 4


class BoundedBody(httpx2.AsyncByteStream):
    """A body that ends in an error once it is longer than allowed, or holds more."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = Pace(bounds.PIECES_PER_SECOND)
        whole = bytearray()
        async for piece in self._body:
            whole += piece
            if len(whole) > bounds.MESSAGE_BYTES:
                raise httpx2.StreamError(_TOO_LONG)
            yield piece
            await pace.spend()
        if has_too_many_values(whole):  # nobody has read them yet: that needs the whole body
            raise httpx2.StreamError(_TOO_MANY)

    async def aclose(self) -> None:
        await self._body.aclose()


class BoundedEvents(httpx2.AsyncByteStream):
    """A stream of events that ends in an error before the end of one that is longer than allowed, or holds more."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = Pace(bounds.PIECES_PER_SECOND)
        event = bytearray()  # what of an event has come
        async for piece in self._body:
            looked_at = max(0, len(event) - _LONGEST_END)
            event += piece
            start = 0
            for end in _END_OF_EVENT.finditer(event, looked_at):
                if end.end() - start > MESSAGE_VALUES and has_too_many_values(event[start : end.end()]):
                    raise httpx2.SSEError(_TOO_MANY)
                start = end.end()
            del event[:start]
            if len(event) > bounds.MESSAGE_BYTES:
                raise httpx2.SSEError(_TOO_LONG)
            yield piece
            await pace.spend(1 + piece.count(b"\n") // bounds.LINES_PER_PIECE)

    async def aclose(self) -> None:
        await self._body.aclose()
