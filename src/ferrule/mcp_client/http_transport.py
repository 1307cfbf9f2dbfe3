"""Speaks to a server over streamable HTTP: the SDK's transport, with answers that are bounded."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet, WeakValueDictionary

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError
from pydantic_core import from_json

from ferrule._version import __version__
from ferrule.core.json_values import MESSAGE_VALUES, has_too_many_values
from ferrule.mcp_client import bounds
from ferrule.mcp_client.bounds import Pace
from ferrule.mcp_client.message_lines import answered_id, looks_like_answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from mcp.client.auth import OAuthClientProvider


# Answers over HTTP that are bounded: in bytes as they come, and in values before anything is made of them.


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


# Streams over HTTP that nobody waits for any more are let go of.


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


# Bodies over HTTP that should answer a request, and what becomes of those that answer another one or none.


_LONGEST_ID = 50


def check_answer(response: httpx2.Response) -> None:
    """Have a body looked at when it is read, where it should answer a request."""
    is_json = response.headers.get("content-type", "").lower().startswith("application/json")
    if response.status_code >= 300 or not is_json:
        return
    asked = _request_id(response.request.content)
    if asked is not None:
        body: Any = response.stream
        response.stream = AnswerBody(body, asked)


class AnswerBody(httpx2.AsyncByteStream):
    """A body that ends as an answer to its request, whatever else it held."""

    def __init__(self, body: httpx2.AsyncByteStream, asked: int | str) -> None:
        self._body = body
        self._asked = asked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield fitting(b"".join([piece async for piece in self._body]), self._asked)

    async def aclose(self) -> None:
        await self._body.aclose()


def fitting(body: bytes, asked: int | str) -> bytes:
    """The body itself where it answers the request or cannot be read; else an error that does."""
    if answered_id(body, body) == asked and looks_like_answer(
        body
    ):  # as nearly always, and nothing is made of it twice
        return body
    try:
        found: Any = from_json(body)
    except ValueError:
        return body
    if not isinstance(found, dict):
        return body
    message = cast("dict[str, Any]", found)
    if "method" in message:
        return _error(asked, "the answer is a message of its own, and none to what was asked")
    given = message.get("id")
    if given is None and isinstance(message.get("error"), dict):  # it could not read what it was asked
        return json.dumps({**message, "id": asked}).encode()
    if str(given) == str(asked) or not {"result", "error"} & message.keys():
        return body
    told = json.dumps(given)[:_LONGEST_ID]
    return _error(asked, f"the answer is to another request (its id is {told}, and not {asked})")


def _error(asked: int | str, words: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": asked, "error": {"code": PARSE_ERROR, "message": words}}).encode()


def _request_id(content: bytes) -> int | str | None:
    """The id of a request; none for a notification, for an answer of ours, and for what is no message."""
    try:
        found: Any = from_json(content)
    except ValueError:
        return None
    message = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    asked = message.get("id")
    return asked if "method" in message and isinstance(asked, (int, str)) else None


# Requests that carry the person's token, each in its own time.


_UNKNOWN, _FORBIDDEN = 401, 403
_MORE_WANTED = "insufficient_scope"


class SignedRequests(httpx2.Auth):
    """Signs with the provider's token while it is good; the provider does the rest."""

    def __init__(self, provider: OAuthClientProvider) -> None:
        self._provider = provider
        self._has_looked = False  # whether the provider has read the tokens that were kept

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context = self._provider.context
        if self._has_looked and (context.is_token_valid() or not context.can_refresh_token()):
            if context.is_token_valid() and context.current_tokens is not None:
                request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            if not _wants_sign_in((yield request)):
                return
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                self._has_looked = True
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _wants_sign_in(response: httpx2.Response) -> bool:
    wanted = response.headers.get("www-authenticate", "")
    return response.status_code == _UNKNOWN or (response.status_code == _FORBIDDEN and _MORE_WANTED in wanted)


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
