"""Speaks to a server over streamable HTTP: the SDK's transport, with answers that are bounded."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError

from ferrule._version import __version__
from ferrule.mcp_client.abandoned_answers import AbandonedAnswers
from ferrule.mcp_client.answer_bodies import check_answer
from ferrule.mcp_client.bounded_bodies import BoundedBody, BoundedEvents
from ferrule.mcp_client.pace import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

_SECONDS_TO_CONNECT = 30.0
_SECONDS_OF_SILENCE = 300.0
# Many servers let go of an idle connection after 5 s; a request that is just on its way then would be lost.
_SECONDS_TO_KEEP = 3.0
_STREAMS_PER_SECOND = 5
_SECONDS_TO_SAY_GOODBYE = 2.0
_MOST_OF_REFUSAL = 1 << 16
_MOST_SAID = 200


async def bound_answer(response: httpx2.Response) -> None:
    """Bound a body before it is read; a stream of events has no end, but each event has."""
    if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        # A few bytes could unpack to any number, and none were asked for.
        await response.aclose()
        raise httpx2.RemoteProtocolError("it packs its answers although that was not asked for")
    body: Any = response.stream
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    response.stream = BoundedEvents(body) if is_stream else BoundedBody(body)


async def word_refusal(response: httpx2.Response) -> None:
    """Say in the protocol's own form how HTTP refused a message, which the SDK would tell as «an error response».

    What is a message already stays as it is, and so does 404: that is how a session's end is told.
    """
    if response.status_code < 400 or response.status_code == 404:
        return
    body: Any = response.stream
    kept = bytearray()
    try:
        async for piece in body:
            kept += piece
            if len(kept) > _MOST_OF_REFUSAL:
                break
    finally:
        await body.aclose()
    if not _is_message(bytes(kept)):
        words = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if not response.headers.get("content-type", "").lower().startswith("text/html"):
            words += f": {said}" if (said := " ".join(kept.decode(errors="replace").split())[:_MOST_SAID]) else ""
        error = {"code": INTERNAL_ERROR, "message": words}
        kept = bytearray(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
        response.headers["content-type"] = "application/json"
    response.stream = httpx2.ByteStream(bytes(kept))


def _is_message(body: bytes) -> bool:
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(body, by_name=False), JSONRPCError)
    except ValidationError:
        return False


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
    abandoned = AbandonedAnswers()

    streams_opened = Pace(_STREAMS_PER_SECOND)

    async def tell(request: httpx2.Request) -> None:
        abandoned.see_request(request)
        if request.method == "GET":  # a server may ask for a new one at once, each time that it ends one
            await streams_opened.spend()
        if request.method == "DELETE":  # the session ends either way
            request.extensions["timeout"] = httpx2.Timeout(_SECONDS_TO_SAY_GOODBYE).as_dict()

    async def hear(response: httpx2.Response) -> None:
        await bound_answer(response)
        abandoned.see_response(response)
        request = response.request
        if request.method == "POST" and request.url == address:  # not what is asked for to sign in
            await word_refusal(response)
            check_answer(response)

    address = httpx2.URL(url)
    async with httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        timeout=httpx2.Timeout(_SECONDS_TO_CONNECT, read=_SECONDS_OF_SILENCE),
        limits=httpx2.Limits(keepalive_expiry=_SECONDS_TO_KEEP),
        auth=auth,
        event_hooks={"request": [tell], "response": [hear]},
    ) as client:
        if signs_in:
            await sign_in(client, url)
        async with streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams:
            yield streams
