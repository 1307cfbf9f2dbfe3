"""The streamable HTTP transport: only for this machine unless there is a token, and never for a page in a browser."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import JSONRPCError
from starlette.responses import PlainTextResponse, Response

from ferrule.app.listening import CannotListen, listen, serve_app, url_of
from ferrule.core.context import require_type
from ferrule.core.http_fetch import is_local
from ferrule.mcp_server.opening import NAME
from ferrule.mcp_server.server import McpServer
from ferrule.mcp_server.stdio import RefusedMessage, read_message
from ferrule.pipeline.run import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


# What comes over HTTP, looked at before the SDK reads it.


BODY_SECONDS = 120.0
"""How long the rest of a request may take to come once its head is there."""


class RequestBodies:
    """Reads messages as they come, and refuses in words what is none, or is too large to make."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read(receive, messages)
        except TimeoutError:
            words = f"The rest of this request did not come within {BODY_SECONDS:g} s."
            await _error(408, words, {"connection": "close"})(scope, receive, send)
            return
        found = read_message(body) if len(body) <= self._most else None  # what is longer, the SDK refuses
        if isinstance(found, RefusedMessage):
            await Response(_written(found), 400, media_type="application/json")(scope, receive, send)
            return
        if isinstance(found, JSONRPCError):  # also in place of an answer that cannot be read: somebody waits for it
            messages = [{"type": "http.request", "body": _written(found), "more_body": False}]
            scope = {**scope, "headers": [one for one in scope["headers"] if one[0] != b"content-length"]}

        async def again() -> Message:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, again, send)

    async def _read(self, receive: Receive, messages: list[Message]) -> bytes:
        """The body, and into `messages` what it came in; of one that is too long only the beginning."""
        body = bytearray()
        more = True
        while more and len(body) <= self._most:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
        return bytes(body)


def _written(error: JSONRPCError) -> bytes:
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()


PATH = "/mcp"
BODY_BYTES = 16 * 1024 * 1024
MOST_SESSIONS = 1_000
"""Each takes about 50 kB, and ends when it was unused for `IDLE_SECONDS`."""
IDLE_SECONDS = 30 * 60.0
MOST_CONNECTIONS = 256
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_LEAST_TOKEN = 16
_PLACE = re.compile(rb"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{1,5})?")


class BadAddress(CannotListen):
    """An address, or a token for it, that cannot be used."""


@dataclass(slots=True, frozen=True)
class ListenAddress:
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """`HOST:PORT`, `[::1]:PORT`, `HOST`, `:PORT` or `PORT`; what is left out is this machine, and port 8765."""
        host, colon, port = (f":{text}" if text.isdecimal() else text).rpartition(":")
        if not colon or (text.startswith("[") and text.endswith("]")):
            host, port = text, ""
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        if port and not (port.isdecimal() and int(port) < 65_536):
            raise BadAddress(f"{port!r} is not a port; write HOST:PORT, such as 127.0.0.1:8765.")
        return cls(host, int(port) if port else 8765)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_local(self.host)

    @property
    def url(self) -> str:
        return url_of(self.host, self.port) + PATH


def new_token() -> str:
    return secrets.token_urlsafe(32)


def check_token(token: str) -> None:
    """A token that could be guessed is none."""
    if len(token) < _LEAST_TOKEN:
        raise BadAddress(f"A token has at least {_LEAST_TOKEN} characters; this one has {len(token)}.")


def http_app(server: McpServer, address: ListenAddress, token: str | None = None) -> ASGIApp:
    """The application: `/mcp` alone, with the checks that come before the protocol."""
    if token is None and not address.is_local:
        raise BadAddress(f"{address.host} can be reached from other machines, so a token is needed.")
    server.sessions.idle_seconds = IDLE_SECONDS
    # Behind a token the name is free: no page in a browser knows the token.
    names = [*_LOCAL_NAMES, address.host] if address.is_local else None
    app = server.sdk.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_BYTES,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MOST_SESSIONS,
        transport_security=_known_names(names, ["http"]),
    )
    return Guard(RequestBodies(app, BODY_BYTES), token, strangers=names is None)


def _known_names(names: Iterable[str] | None, schemes: Iterable[str]) -> TransportSecuritySettings:
    """The names that requests may give the server; any if None."""
    places = [form for name in names or () for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=names is not None,
        allowed_hosts=places,
        allowed_origins=[f"{scheme}://{place}" for scheme in schemes for place in places],
    )


class Guard:
    """What every request passes first: the token where there is one, and no page of another site. Without a `path` it
    answers at any.
    """

    def __init__(self, app: ASGIApp, token: str | None, *, strangers: bool, path: str = PATH) -> None:
        self._app = app
        self._token = token.encode() if token is not None else None
        self._strangers = strangers
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._path and scope["path"] != self._path:
            return PlainTextResponse(f"There is nothing here. The MCP endpoint is {PATH}.\n", 404)
        if self._strangers and b"origin" in headers:
            return _error(403, "Requests from web pages are not accepted.")
        if not self._strangers and not _PLACE.fullmatch(headers.get(b"host", b"")):
            # What comes after is compared by how it begins: nothing but a port may follow a name.
            return _error(
                421, "The header `Host` is not a host name with an optional port, so this is not for this server."
            )
        if not self._strangers and not _PLACE.fullmatch(headers.get(b"origin", b"").partition(b"://")[2]):
            return _error(403, "Requests from web pages are not accepted.")
        if self._token is None:
            return None
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return None
        words = (
            "The token in the header Authorization is not the one this server needs."
            if given
            else "This server needs its bearer token in the header Authorization, and none was sent."
        )
        return _error(401, words, {"WWW-Authenticate": "Bearer"})


def _error(status: int, words: str, headers: dict[str, str] | None = None) -> PlainTextResponse:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": words}}
    return PlainTextResponse(json.dumps(body), status, headers, "application/json")


class McpApp:
    """MCP as an application in another program's web server, at any path.

    Its sessions live in a task that the lifespan starts and ends. A mounted application has no lifespan unless the
    outer one passes `lifespan` on; then the first request starts it, and it ends with the event loop.
    """

    def __init__(self, make: Callable[[], McpServer], names: Sequence[str] | None, token: str | None) -> None:
        self._make = make
        self._names = names
        self._token = token
        self._running: _RunningApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            running = self._running
            if running is None or running.loop is not asyncio.get_running_loop():  # or its own has ended
                running = self._running = _RunningApp(self._make(), self._names, self._token)
            await running.started()
            await running.app(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """For the outer application: `Starlette(routes=[Route("/mcp", app)], lifespan=app.lifespan)`."""
        running = self._running = _RunningApp(self._make(), self._names, self._token)
        try:
            await running.started()
            yield
        finally:
            self._running = None
            await running.end()


class _RunningApp:
    """The application on one event loop."""

    def __init__(self, server: McpServer, names: Sequence[str] | None, token: str | None) -> None:
        server.sessions.idle_seconds = IDLE_SECONDS
        self._manager = StreamableHTTPSessionManager(
            server.sdk,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=BODY_BYTES,
            max_sessions=MOST_SESSIONS,
            security_settings=_known_names(names, ["http", "https"]),
        )
        bodies = RequestBodies(self._manager.handle_request, BODY_BYTES)
        self.app = Guard(bodies, token, strangers=names is None, path="")
        self.loop = asyncio.get_running_loop()
        self._ready, self._ending = asyncio.Event(), asyncio.Event()
        self._task = self.loop.create_task(self._work())

    async def _work(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._ending.wait()

    async def started(self) -> None:
        if not self._ready.is_set():
            ready = self.loop.create_task(self._ready.wait())
            await asyncio.wait((self._task, ready), return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
        if self._task.done():
            self._task.result()

    async def end(self) -> None:
        self._ending.set()
        await self._task


def asgi_app(
    runtime: Runtime,
    *,
    name: str = NAME,
    instructions: str = "",
    allowed_hosts: Sequence[str] = _LOCAL_NAMES,
    token: str | None = None,
) -> McpApp:
    """An ASGI application that serves a runtime's tools over MCP, for a route of your own web server.

    It answers at any path: `Route("/mcp", app)` in Starlette and FastAPI. Its `lifespan` is for the outer application;
    without that the first request starts it. `allowed_hosts` are the names under which clients may reach it, by default
    this machine's own; `["*"]` is any, for a server that knows its clients by a `token` or by middleware. Pages of
    other sites cannot use it from a browser. `instructions` are for the client's model.
    """
    require_type(Runtime, runtime=runtime)
    if isinstance(allowed_hosts, str):
        raise TypeError(f"`allowed_hosts` is a list. Write [{allowed_hosts!r}].")
    if token is not None:
        check_token(token)
    names = None if "*" in allowed_hosts else tuple(allowed_hosts)

    def make() -> McpServer:
        return McpServer(runtime, name=name, instructions=instructions)

    return McpApp(make, names, token)


async def serve_http(
    server: McpServer,
    address: ListenAddress,
    token: str | None = None,
    *,
    ready: Callable[[int], None] = lambda port: None,
) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; `ready` hears the port. Open streams get a moment, then all is stopped."""
    with listen(address.host, address.port, MOST_CONNECTIONS) as listening:
        ready(listening.getsockname()[1])
        await serve_app(
            http_app(server, address, token), listening, lifespan="on", limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )  # fmt: skip
