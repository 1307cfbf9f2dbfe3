"""Speaks to a server over streamable HTTP: the SDK's transport, with answers that are bounded."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

from ferrule._version import __version__
from ferrule.mcp_client import bounds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

_SECONDS_TO_CONNECT = 30.0
_SECONDS_OF_SILENCE = 300.0
# Many servers let go of an idle connection after 5 s; a request that is just on its way then would be lost.
_SECONDS_TO_KEEP = 3.0


class BoundedBody(httpx2.AsyncByteStream):
    """An answer's body that ends in an error once it is longer than allowed."""

    def __init__(self, body: httpx2.AsyncByteStream, most: int) -> None:
        self._body = body
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for piece in self._body:
            seen += len(piece)
            if seen > self._most:
                raise httpx2.StreamError(f"the answer takes more than {self._most:,} bytes, which are not read")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


async def bound_answer(response: httpx2.Response) -> None:
    """Bound a body before it is read. Streams of events have a bound for each event instead."""
    if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        # A few bytes could unpack to any number, and none were asked for.
        await response.aclose()
        raise httpx2.RemoteProtocolError("it packs its answers although that was not asked for")
    if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        body: Any = response.stream
        response.stream = BoundedBody(body, bounds.MESSAGE_BYTES)


async def sign_in(client: httpx2.AsyncClient, url: str) -> None:
    """Ask once before the session begins, so that a person has all the time they need to sign in.

    Inside the session the same question must be answered within seconds, or an older protocol is tried.
    """
    told = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_INFO_META_KEY: {"name": "ferrule", "version": __version__},
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_MODERN_VERSION,
        "mcp-method": "server/discover",
    }
    question = {"jsonrpc": "2.0", "id": "sign-in", "method": "server/discover", "params": {"_meta": told}}
    async with client.stream("POST", url, json=question, headers=headers):
        return  # whatever it answers, the session will ask again


@asynccontextmanager
async def http_transport(
    url: str, *, headers: Mapping[str, str], auth: httpx2.Auth | None = None, signs_in: bool = False
) -> AsyncGenerator[Any, None]:
    """The two streams that the SDK's client wants."""
    async with httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        timeout=httpx2.Timeout(_SECONDS_TO_CONNECT, read=_SECONDS_OF_SILENCE),
        limits=httpx2.Limits(keepalive_expiry=_SECONDS_TO_KEEP),
        auth=auth,
        event_hooks={"response": [bound_answer]},
    ) as client:
        if signs_in:
            await sign_in(client, url)
        async with streamable_http_client(url, http_client=client, max_sse_event_size=bounds.MESSAGE_BYTES) as streams:
            yield streams
