"""Speaks to a server over streamable HTTP: the SDK's transport, with answers that are bounded, and signing in."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit
from weakref import WeakSet, WeakValueDictionary

import httpx2
import mcp_types as types
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from ferrule._version import __version__
from ferrule.core.json_values import MESSAGE_VALUES, has_too_many_values
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import shown_argument
from ferrule.mcp_client import bounds
from ferrule.mcp_client.bounds import Pace
from ferrule.mcp_client.server_config import NotSigningIn
from ferrule.workspace.data_folder import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path


# Answers that are bounded: in bytes as they come, and in values before anything is made of them.


_TOO_MANY = f"the answer contains more than {MESSAGE_VALUES:,} values, {bounds.NOT_READ}"
_TOO_LONG = f"the answer takes more than {bounds.MESSAGE_BYTES:,} bytes, {bounds.NOT_READ}"
_NOBODY = "nothing waits for this answer any more"
_END_OF_EVENT = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
_LONGEST_END = 4
_LONGEST_ID = 50


class BoundedBody(httpx2.AsyncByteStream):
    """A body that ends in an error where it is longer than allowed or holds more, and as an answer to its request."""

    def __init__(self, body: httpx2.AsyncByteStream, asked: int | str | None) -> None:
        self._body = body
        self._asked = asked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = Pace(bounds.PIECES_PER_SECOND)
        whole = bytearray()
        async for piece in self._body:
            whole += piece
            if len(whole) > bounds.MESSAGE_BYTES:
                raise httpx2.StreamError(_TOO_LONG)
            await pace.spend()
        if has_too_many_values(whole):
            raise httpx2.StreamError(_TOO_MANY)
        yield bytes(whole) if self._asked is None else fitting(bytes(whole), self._asked)

    async def aclose(self) -> None:
        await self._body.aclose()


class BoundedEvents(httpx2.AsyncByteStream):
    """A stream of events that ends in an error before the end of one that is longer than allowed, or holds more.

    It also ends with the next piece once nobody wants it; without one, after the time of silence.
    """

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body
        self.is_wanted = True
        self.reader = asyncio.current_task()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pace = Pace(bounds.PIECES_PER_SECOND)
        event = bytearray()  # what of an event has come
        async for piece in self._body:
            if not self.is_wanted:
                raise httpx2.ReadError(_NOBODY)
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


def fitting(body: bytes, asked: int | str) -> bytes:
    """The body where it answers the request or is no message at all; else an error that does: nobody waits for ever."""
    message = _object_in(body)
    given = message.get("id")
    if "method" in message:
        why = "the answer is a message of its own, and none to what was asked"
    elif given is None and isinstance(message.get("error"), dict):  # it could not read what it was asked
        return json.dumps({**message, "id": asked}).encode()
    elif str(given) == str(asked) or not {"result", "error"} & message.keys():
        return body
    else:
        why = f"the answer is to another request (its id is {json.dumps(given)[:_LONGEST_ID]}, and not {asked})"
    return json.dumps({"jsonrpc": "2.0", "id": asked, "error": {"code": types.PARSE_ERROR, "message": why}}).encode()


def _object_in(content: bytes) -> dict[str, Any]:
    """The JSON object in a body; an empty one where there is none, as in a request that is made to sign in."""
    try:
        found: Any = from_json(content)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# The client


_SECONDS_TO_CONNECT = 30.0
_SECONDS_OF_SILENCE = 300.0
# Many servers let go of an idle connection after 5 s; a request that is just on its way then would be lost.
_SECONDS_TO_KEEP = 3.0
_STREAMS_PER_SECOND = 5
_SECONDS_TO_SAY_GOODBYE = 2.0
_MOST_OF_REFUSAL = 1 << 16
_MOST_SAID = 200
_CANCELLED = b"notifications/cancelled"


class BoundedExchange:
    """Looks at one client's requests and responses as they pass.

    The SDK lets go of an answer that nobody waits for in the newer era alone; in the older one we do.
    """

    def __init__(self, url: str) -> None:
        self._address = httpx2.URL(url)
        self._streams: WeakValueDictionary[int | str, BoundedEvents] = WeakValueDictionary()
        self._given_up: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._streams_opened = Pace(_STREAMS_PER_SECOND)

    async def see_request(self, request: httpx2.Request) -> None:
        """Note what is cancelled; raises where a stream is to be taken up again that nobody waits for."""
        if request.method == "GET":
            if asyncio.current_task() in self._given_up:
                raise httpx2.ReadError(_NOBODY, request=request)
            await self._streams_opened.spend()  # a server may ask for a new one at once, each time that it ends one
        elif request.method == "DELETE":  # the session ends either way
            request.extensions["timeout"] = httpx2.Timeout(_SECONDS_TO_SAY_GOODBYE).as_dict()
        elif _CANCELLED in request.content:
            message = _object_in(request.content)
            stream = self._streams.get(message.get("params", {}).get("requestId"))
            if message.get("method") == _CANCELLED.decode() and stream is not None:
                stream.is_wanted = False
                if stream.reader is not None:
                    self._given_up.add(stream.reader)

    async def see_response(self, response: httpx2.Response) -> None:
        """Bound a body before it is read; a stream of events has no end, but each event has."""
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            # A few bytes could unpack to any number, and none were asked for.
            await response.aclose()
            raise httpx2.RemoteProtocolError("it packs its answers although that was not asked for")
        kind, request = response.headers.get("content-type", "").lower(), response.request
        is_message = request.method == "POST" and request.url == self._address  # not what is asked for to sign in
        message = _object_in(request.content) if is_message else {}
        asked = message.get("id") if "method" in message else None
        body: Any = response.stream
        if is_message and response.status_code >= 400 and response.status_code != 404:
            await word_refusal(response)
        elif kind.startswith("text/event-stream"):
            response.stream = events = BoundedEvents(body)
            if asked is not None:
                self._streams[asked] = events
        else:
            response.stream = BoundedBody(body, asked if kind.startswith("application/json") else None)


async def word_refusal(response: httpx2.Response) -> None:
    """Say in the protocol's own form how HTTP refused a message, which the SDK would tell as "an error response".

    What is an error of the protocol already stays as it is. Not for 404: that is how a session's end is told.
    """
    body: Any = response.stream
    kept = bytearray()
    try:
        async for piece in body:
            kept += piece
            if len(kept) > _MOST_OF_REFUSAL:
                break
    finally:
        await body.aclose()
    if not isinstance(_object_in(bytes(kept)).get("error"), dict):
        words = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if not response.headers.get("content-type", "").lower().startswith("text/html"):
            words += f": {said}" if (said := " ".join(kept.decode(errors="replace").split())[:_MOST_SAID]) else ""
        error = {"code": types.INTERNAL_ERROR, "message": words}
        kept = bytearray(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
        response.headers["content-type"] = "application/json"
    response.stream = httpx2.ByteStream(bytes(kept))


async def sign_in(client: httpx2.AsyncClient, url: str) -> None:
    """Ask once before the session begins, so that a user has all the time they need to sign in.

    Inside the session the same question must be answered within seconds, or an older protocol is tried.
    """
    told = {
        types.PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        types.CLIENT_INFO_META_KEY: {"name": "ferrule", "version": __version__},
        types.CLIENT_CAPABILITIES_META_KEY: {},
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
    exchange = BoundedExchange(url)
    async with httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers},
        timeout=httpx2.Timeout(_SECONDS_TO_CONNECT, read=_SECONDS_OF_SILENCE),
        limits=httpx2.Limits(keepalive_expiry=_SECONDS_TO_KEEP),
        auth=auth,
        event_hooks={"request": [exchange.see_request], "response": [exchange.see_response]},
    ) as client:
        if signs_in:
            await sign_in(client, url)
        async with streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams:
            yield streams


# Requests that carry the user's token, each in its own time.


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
            response = yield request
            wanted = response.headers.get("www-authenticate", "")
            is_refused = response.status_code == _FORBIDDEN and _MORE_WANTED in wanted
            if response.status_code != _UNKNOWN and not is_refused:
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


# Signing in to a server over HTTP: the SDK's OAuth, with tokens that only the user can read.


_SECONDS_TO_SIGN_IN = 300.0
_MOST_OF_REQUEST = 16 << 10
_PAGE = "<!doctype html><meta charset=utf-8><title>Ferrule</title><p>You are signed in. You can close this page.</p>"
_REFUSED = "<!doctype html><meta charset=utf-8><title>Ferrule</title><p>Signing in failed: {why}</p>"


class TokenFile:
    """Tokens and the client's registration for one server, in a file with mode 0600."""

    def __init__(self, folder: Path, url: str) -> None:
        self.path = folder / f"{sha256(url.encode()).hexdigest()[:32]}.json"
        self.given: OAuthClientInformationFull | None = None
        """The client that the user registered themselves; it comes before any other."""

    @property
    def expires_at(self) -> float | None:
        """When the token ends; the SDK itself forgets that with the process, and would sign in anew."""
        found = read_json(self.path).get("expires_at")
        return float(found) if isinstance(found, (int, float)) else None

    async def get_tokens(self) -> OAuthToken | None:
        return self._read("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        ends = time() + tokens.expires_in if tokens.expires_in is not None else None
        self._write({"tokens": _plain(tokens), "expires_at": ends})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.given or self._read("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write({"client": _plain(client_info)})

    def _read(self, key: str, kind: Any) -> Any:
        try:
            return kind.model_validate(read_json(self.path)[key])
        except (KeyError, ValidationError):
            return None

    def _write(self, news: dict[str, Any]) -> None:
        write_json(self.path, {**read_json(self.path), **news})


def _plain(value: BaseModel) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_none=True)


class SignIn:
    """One way through the browser and back. `show` brings the address to the user."""

    def __init__(self, name: str, show: Callable[[str], Awaitable[None]] | None, port: int) -> None:
        self._name = name
        self._show = show
        self.port = port
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def begin(self, url: str) -> None:
        """Open the way back, then show the address."""
        if self._show is None:
            raise OAuthFlowError(
                phrase("it wants you to sign in: ferrule mcp test {name}", name=shown_argument(self._name))
            )
        if self._server is not None:  # of a try that was given up
            self._server.close()
        self._answer = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port)
        try:
            await self._show(url)
        except BaseException as error:
            self._server.close()
            if isinstance(error, NotSigningIn):
                raise OAuthFlowError(str(error)) from None
            raise

    async def finish(self) -> AuthorizationCodeResult:
        """What the browser came back with."""
        if self._answer is None or self._server is None:
            raise OAuthFlowError(phrase("signing in was not started"))
        try:
            return await asyncio.wait_for(self._answer, _SECONDS_TO_SIGN_IN)
        except TimeoutError:
            raise OAuthFlowError(
                phrase("nobody signed in within {seconds} s", seconds=f"{_SECONDS_TO_SIGN_IN:g}")
            ) from None
        finally:
            self._server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)
            words = line[:_MOST_OF_REQUEST].decode("latin-1").split(" ")
            target = urlsplit(words[1] if len(words) > 1 else "")
            if target.path != "/callback":
                writer.write(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                return
            given = {key: values[0] for key, values in parse_qs(target.query).items()}
            page = self._settle(given)
            body = page.encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%s" % (len(body), body)
            )
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            return  # not a browser; the next one may be
        finally:
            writer.close()

    def _settle(self, given: dict[str, str]) -> str:
        from html import escape

        answer = self._answer
        if "code" not in given:
            why = given.get("error_description") or given.get("error") or "the answer contains no code"
            if answer is not None and not answer.done():
                answer.set_exception(OAuthFlowError(phrase("signing in was refused: {why}", why=why[:200])))
            return _REFUSED.format(why=escape(why[:200]))
        if answer is not None and not answer.done():
            answer.set_result(
                AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))
            )
        return _PAGE


def oauth(
    name: str,
    url: str,
    tokens: TokenFile,
    *,
    show: Callable[[str], Awaitable[None]] | None,
    client_id: str = "",
    client_secret: str = "",
) -> OAuthClientProvider:
    """What signs requests to a server, and signs in first where the server asks for it.

    A `client_id` that is an address is that of a document about the client, for servers that take one.
    """
    way = SignIn(name, show, _port(tokens))
    method = "client_secret_basic" if client_secret else None
    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "Ferrule",
            "redirect_uris": [way.address],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            **({"token_endpoint_auth_method": method} if method else {}),
        }
    )
    document = client_id if client_id.startswith("https://") else None
    if client_id and document is None:
        known = {"client_id": client_id, **({"client_secret": client_secret} if client_secret else {})}
        tokens.given = OAuthClientInformationFull.model_validate({**_plain(metadata), **known})
    provider = OAuthClientProvider(url, metadata, tokens, way.begin, way.finish, document)
    provider.context.token_expiry_time = tokens.expires_at
    return provider


def _port(tokens: TokenFile) -> int:
    """The port that this client was registered with, or one that is free."""
    import socket

    registered: list[Any] = read_json(tokens.path).get("client", {}).get("redirect_uris") or []
    for address in registered:
        if (port := urlsplit(str(address)).port) is not None:
            return port
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
