"""HTTP around the service: who asks, what they send, and how a refusal looks. Endpoints are declared in `routes`.

What a tool or a rule decides is a call, and an answer of 200. An error of HTTP is about the request alone, and is a
problem document (RFC 9457) that holds no path, no statement and no traceback of ours.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.responses import Response, StreamingResponse
from starlette.routing import compile_path

from ferrule.core.json_values import has_too_many_values
from ferrule.core.shown_text import one_line
from ferrule.records.telemetry import LineRecord, add_line
from ferrule.service.approvals import ApprovalProblem
from ferrule.service.calls import CallProblem
from ferrule.service.database import DatabaseProblem
from ferrule.service.directory import DirectoryProblem
from ferrule.service.limits import LimitReached, TooManyAtOnce
from ferrule.service.messages import LONGEST_WAIT
from ferrule.service.oidc import TokenRefused, looks_like_token
from ferrule.service.sessions import TooManySessions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from sqlalchemy import Connection
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from ferrule.service.access import Allowed
    from ferrule.service.directory import Principal
    from ferrule.service.service import Service
    from ferrule.service.telemetry import RequestSpan

logger = logging.getLogger("ferrule.service")
access_log = logging.getLogger("ferrule.access")

T = TypeVar("T")

BODY_SECONDS = 30.0
"""How long the body of a request may take to come."""
COMMENT_SECONDS = 15.0
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:\d{1,5})?")
_MOST_ERRORS = 20
_LARGE = 100_000
_UNKNOWN: Any = None
_PROCESS = secrets.token_hex(6)
_numbers = count(1)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,6}(?:\.\d{1,3})?)(?:$|[,;\s])")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_TITLES = {
    400: "Bad request", 401: "Unauthorized", 403: "Forbidden", 404: "Not found", 405: "Method not allowed",
    408: "Request timeout", 409: "Conflict", 413: "Content too large", 415: "Unsupported media type",
    422: "Unprocessable content", 429: "Too many requests", 500: "Internal error", 503: "Service unavailable",
}  # fmt: skip


_STATUSES = {
    "not_found": 404, "conflict": 409, "invalid": 422, "forbidden": 403, "finished": 409, "key_in_flight": 409,
    "key_reused": 422, "duplicate_id": 422, "draining": 503, "too_large": 413, "bad_key": 401, "unknown_call": 422,
    "result": 422, "given": 409, "running": 409,
}  # fmt: skip
"""What became of a request, by the code of a problem."""
_HEADERS_OF_CALLS = {
    "draining": {"Retry-After": "1"}, "key_in_flight": {"Retry-After": "1"},
    "bad_key": {"WWW-Authenticate": 'Bearer error="invalid_token"'},
}  # fmt: skip


class RequestProblem(Exception):  # noqa: N818 - reads as what it says
    """Why a request was not taken."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: list[dict[str, str]] | None = None,
        suggestion: str | None = None,
        headers: Mapping[str, str] | None = None,
        call: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors or []
        self.suggestion = suggestion
        self.headers = dict(headers or {})
        self.call = call

    def response(self, request_id: str) -> Response:
        document: dict[str, Any] = {
            "type": "about:blank", "title": _TITLES.get(self.status, "Error"), "status": self.status,
            "detail": self.detail, "code": self.code, "request_id": request_id, "errors": self.errors,
            "suggestion": self.suggestion,
        }  # fmt: skip
        if self.call is not None:
            document["call"] = self.call
        return Response(json.dumps(document), self.status, self.headers, "application/problem+json")


@dataclass(slots=True, frozen=True)
class Parameter:
    """A parameter of the query or a header that an endpoint takes."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    where: Literal["query", "header"] = "query"


WAIT = Parameter(
    "wait", "Seconds to wait for the end.", {"type": "integer", "minimum": 0, "maximum": int(LONGEST_WAIT)}
)
PREFER = Parameter("Prefer", "`wait=30` waits that many seconds; `respond-async` does not wait.", where="header")


@dataclass(slots=True, frozen=True)
class ApiRoute:
    """One method on one path, with all that OpenAPI says of it."""

    method: str
    path: str
    handler: Callable[[ServiceRequest], Awaitable[Response]]
    summary: str
    scope: str | None = None
    """What a key must be for; None where no key is needed."""
    area: str | None = None
    """What the user's roles must let them administer."""
    body: type[BaseModel] | None = None
    answers: Mapping[int, type[BaseModel] | str | None] = field(
        default_factory=dict["int", "type[BaseModel] | str | None"]
    )
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    streams: bool = False
    """Whether the caller may have events instead of the answer."""


class ServiceRequest:
    """What came in, once it is known who asks."""

    endpoint: ApiRoute | None = None
    path: Mapping[str, str] = {}
    answering: asyncio.Task[None] | None = None
    """An answer that goes out before the endpoint has returned."""
    span: RequestSpan | None = None
    principal: Principal = _UNKNOWN
    generation = -1
    """Of the directory when the caller was admitted."""
    allowed: Allowed = _UNKNOWN
    body: Any = None
    raw = b""
    _query: dict[str, str] | None = None

    def __init__(self, app: HttpApp, scope: Scope, receive: Receive, send: Send) -> None:
        self.began = perf_counter()
        self._app = app
        self.service = app.service
        self.scope = scope
        self.receive = receive
        self.send = send
        exchange = getattr(receive, "__self__", None)
        self.exchange: Any = exchange if hasattr(exchange, "take_body") else None
        """What `serving` has of the request, which spares us the messages of ASGI."""
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        # The caller's own, where it is fit for a log; else a new one.
        self.request_id = given.decode() if _REQUEST_ID.fullmatch(given) else f"{_PROCESS}{next(_numbers):08x}"

    def refuse_doubled(self) -> None:
        """Several headers of one name are a mistake that nobody guesses about."""
        if len(self.headers) < len(self.scope["headers"]):
            for name, count_ in Counter(name for name, _ in self.scope["headers"]).items():
                if count_ > 1 and name in _ONCE:
                    raise RequestProblem(400, "header", f"The header {name.decode()} was sent more than once.")

    def header(self, name: bytes) -> str | None:
        """A header's text."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value is not None else None

    def answer_now(self, response: Response) -> None:
        """Answer while the endpoint goes on; what it returns in the end is not sent."""
        self.answering = asyncio.get_running_loop().create_task(self._app.answer(self, response))

    @property
    def query(self) -> Mapping[str, str]:
        if self._query is None:
            try:
                self._query = dict(parse_qsl(self.scope["query_string"].decode("ascii"), keep_blank_values=True))
            except (UnicodeDecodeError, ValueError):
                raise RequestProblem(400, "query", "The query is not percent-encoded ASCII.") from None
            if any("\x00" in value for value in self._query.values()):
                raise RequestProblem(400, "query", "The query holds a NUL character.")
        return self._query

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number of the query."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not 0 <= int(text) <= most:
            raise RequestProblem(400, "query", f"`{name}` must be a whole number from 0 to {most}.")
        return int(text)

    @property
    def wait(self) -> float:
        """How many seconds the caller wants to wait for a result."""
        if b"prefer" not in self.headers:
            return self.service.settings.wait
        preferred = self.header(b"prefer") or ""
        if "respond-async" in preferred:
            return 0.0
        found = _WAIT.search(preferred)
        return min(float(found[1]), LONGEST_WAIT) if found else self.service.settings.wait

    @property
    def query_wait(self) -> float:
        """The same where the query says it."""
        return float(self.number("wait", 0, int(LONGEST_WAIT)))

    @property
    def wants_events(self) -> bool:
        return b"text/event-stream" in self.headers.get(b"accept", b"")

    @property
    def idempotency_key(self) -> str | None:
        if b"idempotency-key" not in self.headers:
            return None
        key = self.header(b"idempotency-key") or ""
        if not _KEY.fullmatch(key):
            raise RequestProblem(400, "header", "Idempotency-Key must be 1 to 255 visible ASCII characters.")
        return key

    async def identify(self) -> Principal:
        """Whoever the credential speaks for now; a stream that goes on for long asks again."""
        scheme, _, secret = (self.header(b"authorization") or "").partition(" ")
        secret = secret.strip()
        if scheme.lower() != "bearer" or not secret:
            said = "Send an API key: `Authorization: Bearer fk_…`."
            raise RequestProblem(401, "no_key", said, headers=self.challenge())
        tokens = self.service.tokens
        if tokens is not None and looks_like_token(secret):
            try:
                return await tokens.principal(secret)
            except TokenRefused as refused:
                headers = {"Retry-After": "5"} if refused.status == 503 else {}
                if refused.status == 401:
                    headers = self.challenge('error="invalid_token"')
                raise RequestProblem(
                    refused.status, refused.code, refused.message, suggestion=refused.suggestion, headers=headers
                ) from None
        principal = await self.service.directory.principal(secret)
        if principal is None:
            said = "This API key is unknown, expired or revoked."
            raise RequestProblem(401, "bad_key", said, headers=self.challenge('error="invalid_token"'))
        return principal

    async def read(self, query: Callable[[Connection], T]) -> T:
        """What a query gives of the caller's tenant."""
        return await self.service.database.read(self.principal.tenant, query)

    async def call_events(self, call: str, after: int) -> AsyncIterator[dict[str, Any]]:
        """Events of a call until its end, and for as long as the caller may see it: a stream outlives a request."""
        calls, directory = self.service.calls, self.service.directory
        following = cast("AsyncGenerator[dict[str, Any]]", calls.follow(self.principal, call, after))
        async with aclosing(following) as events:
            async for event in events:
                if directory.is_outdated(self.principal, self.generation):
                    self.generation = directory.generation
                    try:
                        await calls.find(await self.identify(), call)
                    except (RequestProblem, CallProblem, DatabaseProblem):
                        return
                yield event

    def challenge(self, error: str = "") -> dict[str, str]:
        """How to get in (RFC 6750), and where it is written who gives out tokens (RFC 9728)."""
        parts = [error] if error else []
        if self.service.tokens is not None:
            parts.append(f'resource_metadata="{self.own_url}{RESOURCE_METADATA}"')
        return {"WWW-Authenticate": f"Bearer {', '.join(parts)}".rstrip()}

    @property
    def own_url(self) -> str:
        """How clients reach the service: as the settings say, else as this request did."""
        if self.service.settings.public_url:
            return self.service.settings.public_url
        host = self.header(b"host") or ""
        return f"{self.scope['scheme']}://{host}" if _HOST.fullmatch(host) else ""

    def require_operator(self, what: str) -> None:
        """Go on only for the operator's tenant."""
        if not self.principal.operator:
            raise RequestProblem(403, "forbidden", f"Only administrators of the operator's tenant {what}.")

    def require(self, area: str) -> None:
        """Go on only where the user's roles let them administer it."""
        if not self.allowed.may(area):
            raise RequestProblem(
                403, "forbidden", f"Your roles do not allow `Admin({area})`.",
                suggestion="An administrator of your tenant can add that rule to one of your roles.",
            )  # fmt: skip


_ONCE = frozenset(
    {b"authorization", b"content-type", b"host", b"idempotency-key", b"content-length", b"prefer", b"last-event-id"}
)


class JsonResponse(Response):
    """JSON text, with the headers that go with it put together at once."""

    def __init__(self, text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status
        self.background = None
        self.body = text.encode()
        self.raw_headers = [(b"content-length", b"%d" % len(self.body)), (b"content-type", b"application/json")]
        for name, value in (headers or {}).items():
            self.raw_headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))


class Forwarded(Response):
    """An answer that another application gives; its status is known once it has begun."""

    def __init__(self, app: ASGIApp) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.app = app
        self.status_code = 500
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self.begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def passed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status_code, self.begun = message["status"], True
                message = {**message, "headers": [*message.get("headers", ()), *self.raw_headers]}
            await send(message)

        await self.app(scope, receive, passed)


def json_response(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JsonResponse(document if isinstance(document, str) else json.dumps(document), status, headers)


def event_stream(events: AsyncIterator[dict[str, Any]], headers: Mapping[str, str] | None = None) -> Response:
    """Events as they happen. A comment now and then keeps proxies from hanging up; a reader that stops reading
    holds nothing up but its own connection.
    """
    shown = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}
    return StreamingResponse(_written(events), 200, shown, "text/event-stream")


async def _written(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    coming: asyncio.Future[dict[str, Any]] | None = None
    try:
        yield b": ferrule\n\n"
        while True:
            coming = asyncio.ensure_future(anext(events))
            while not (await asyncio.wait({coming}, timeout=COMMENT_SECONDS))[0]:
                yield b": still here\n\n"
            try:
                event = coming.result()
            except StopAsyncIteration:
                return
            if event["type"]:
                yield f"id: {event['id']}\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            else:  # where the reader is, before anything has happened
                yield f"id: {event['id']}\n\n".encode()
    finally:
        if coming is not None and not coming.done():
            coming.cancel()
            await asyncio.wait({coming})
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


class HttpApp:
    """The ASGI application: finds the endpoint, the caller and the body, and words what goes wrong."""

    def __init__(self, service: Service, endpoints: tuple[ApiRoute, ...]) -> None:
        self.service = service
        self.endpoints = endpoints
        self._fixed = {(one.method, one.path): one for one in endpoints if "{" not in one.path}
        self._patterns = [(compile_path(one.path)[0], one) for one in endpoints if "{" in one.path]

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return _refuse_socket(scope, send)
        request = ServiceRequest(self, scope, receive, send)
        return self._handle(request) if self.service.telemetry is None else self._trace(request)

    async def _trace(self, request: ServiceRequest) -> None:
        assert self.service.telemetry is not None  # noqa: S101 - it was looked at
        with self.service.telemetry.request(request.scope, request.request_id) as request.span:
            await self._handle(request)

    async def _handle(self, request: ServiceRequest) -> None:
        scope = request.scope
        try:
            request.refuse_doubled()
            method, path = scope["method"], scope["path"]
            endpoint = request.endpoint = self._fixed.get((method, path)) or self._find(request, method, path)
            if endpoint.scope is not None:
                await self._admit(request, endpoint)
            if endpoint.body is not None:
                await self._read_body(request, endpoint.body)
                # That may take long, and the rights are those of its end.
                if self.service.directory.is_outdated(request.principal, request.generation):
                    await self._admit(request, endpoint)
            response = await endpoint.handler(request)
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            response = self._worded(error, request.request_id).response(request.request_id)
        await (request.answering or self.answer(request, response))

    async def answer(self, request: ServiceRequest, response: Response) -> None:
        """Send an answer, counted and logged. What another application answers is known once it has."""
        own_header = (b"x-request-id", request.request_id.encode())
        response.raw_headers.append(own_header)
        forwarded = isinstance(response, Forwarded)
        if not forwarded:
            self._note(request, response)
        exchange = request.exchange if type(response) is JsonResponse else None
        if exchange is not None and exchange.answer(response.status_code, response.raw_headers, response.body):
            return
        try:
            await response(request.scope, request.receive, request.send)
        except OSError:
            pass  # the client has gone
        except Exception as error:
            if not isinstance(response, Forwarded) or response.begun:
                raise
            await self.answer(request, self._worded(error, request.request_id).response(request.request_id))
            return
        if forwarded:
            self._note(request, response)

    def _note(self, request: ServiceRequest, response: Response) -> None:
        path = request.endpoint.path if request.endpoint is not None else "(none)"
        self.service.requests[path, response.status_code] += 1
        if request.span is not None:
            request.span.answered(path, response.status_code, request.principal)
        if access_log.isEnabledFor(logging.INFO):
            _log(request, response.status_code)

    def _find(self, request: ServiceRequest, method: str, path: str) -> ApiRoute:
        """The endpoint at a path that has parts of its own, or none."""
        if "\x00" in path:
            raise RequestProblem(400, "path", "The path holds a NUL character.")
        allowed = [one.method for (_, fixed), one in self._fixed.items() if fixed == path]
        for pattern, one in self._patterns if not allowed else ():
            if match := pattern.match(path):
                if one.method == method:
                    request.path = match.groupdict()
                    return one
                allowed.append(one.method)
        if allowed:
            raise RequestProblem(
                405, "method", f"{method} is not for this path.", headers={"Allow": ", ".join(sorted(set(allowed)))}
            )
        raise RequestProblem(404, "not_found", "There is nothing at this path. /openapi.json lists what there is.")

    async def _admit(self, request: ServiceRequest, endpoint: ApiRoute) -> None:
        """Who asks, and whether they may."""
        service = self.service
        if not service.ready:
            raise RequestProblem(503, "not_ready", service.not_ready_because, headers={"Retry-After": "1"})
        request.generation = service.directory.generation
        known = service.directory.known(request.headers.get(b"authorization"))
        request.principal = principal = known or await request.identify()
        request.allowed = service.access.of(principal)
        if endpoint.scope and endpoint.scope not in principal.scopes:
            raise RequestProblem(
                403, "scope", f"This credential is not for `{endpoint.scope}`.",
                headers=request.challenge(f'error="insufficient_scope", scope="{endpoint.scope}"'),
            )  # fmt: skip
        if endpoint.area is not None:
            request.require(endpoint.area)

    async def _read_body(self, request: ServiceRequest, model: type[BaseModel]) -> None:
        """Read what was sent, which must be JSON that nothing has packed, within bounds of size and time."""
        headers = request.headers
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            raise RequestProblem(415, "media_type", "Send JSON, with `Content-Type: application/json`.")
        coding, packed = headers.get(b"transfer-encoding"), headers.get(b"content-encoding")
        if (coding and coding.lower() != b"chunked") or (packed and packed != b"identity"):
            raise RequestProblem(415, "media_type", "Send the body uncompressed.")
        most = self.service.settings.body_bytes
        if bound := self.service.limits.bounds(request.principal).argument_bytes:
            most = min(most, bound)
        close = {"Connection": "close"}
        body = request.exchange.take_body() if request.exchange is not None else None
        if body is None:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    body = await _body(request.receive, most)
            except TimeoutError:
                said = f"The body did not come within {BODY_SECONDS:g} s."
                raise RequestProblem(408, "slow_body", said, headers=close) from None
        request.raw = body
        if len(body) > most:
            raise RequestProblem(413, "too_large", f"The body has more than {most:,} bytes.", headers=close)
        if len(body) > _LARGE and has_too_many_values(body):
            raise RequestProblem(413, "too_large", "The body holds too many values.")
        try:
            request.body = model.__pydantic_validator__.validate_json(body)
        except ValidationError as error:
            raise _invalid(error) from None

    def _worded(self, error: Exception, request_id: str) -> RequestProblem:
        match error:
            case RequestProblem():
                return error
            case CallProblem():
                headers = dict(_HEADERS_OF_CALLS.get(error.code, {}))
                if error.call is not None:
                    headers["Location"] = f"/v1/calls/{error.call}"
                return RequestProblem(
                    _STATUSES[error.code], error.code, error.message, headers=headers, call=error.call
                )
            case TooManyAtOnce():
                return RequestProblem(413, "too_large", str(error))
            case LimitReached():
                seconds = str(max(1, ceil(error.retry_after)))
                headers = {"Retry-After": seconds, "RateLimit-Limit": f"{error.most:g}", "RateLimit-Remaining": "0"}
                return RequestProblem(429, error.limit, str(error), headers={**headers, "RateLimit-Reset": seconds})
            case DirectoryProblem():
                return RequestProblem(_STATUSES[error.kind], error.kind, error.message)
            case ApprovalProblem():
                return RequestProblem(_STATUSES[error.kind], error.code, error.message)
            case TooManySessions():
                return RequestProblem(
                    503, "sessions", "Every session is in use. Try again, or call without a session.",
                    headers={"Retry-After": "5"},
                )  # fmt: skip
            case DatabaseProblem():
                logger.warning("Request %s: %s", request_id, error)
                return RequestProblem(
                    503, "store", "The store cannot be reached. Try again.", headers={"Retry-After": "1"}
                )
            case _:
                logger.error("Request %s failed", request_id, exc_info=error)
                return RequestProblem(
                    500, "internal", "The service failed on this request. Its log has the request id."
                )


async def _refuse_socket(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})


async def _body(receive: Receive, most: int) -> bytes:
    """The body, or the beginning of one that is too large."""
    message: Message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts = bytearray(body)
        while message.get("more_body") and len(parts) <= most:
            message = await receive()
            parts += message.get("body", b"")
        body = bytes(parts)
    if message["type"] == "http.disconnect":
        raise RequestProblem(400, "disconnected", "The connection ended before the body did.")
    return body


def _invalid(error: ValidationError) -> RequestProblem:
    found = [
        {"pointer": "".join(f"/{part}" for part in one["loc"]), "detail": one["msg"].removeprefix("Value error, ")}
        for one in error.errors(include_url=False, include_context=False, include_input=False)[:_MOST_ERRORS]
    ]
    first = found[0]
    said = f"The body is not valid: `{first['pointer'] or '/'}`: {first['detail']}."
    return RequestProblem(400, "invalid", said, errors=found)


def _log(request: ServiceRequest, status: int) -> None:
    """One line a request. Neither query nor headers nor bodies: any of them may hold a secret."""
    principal, scope = request.principal, request.scope
    said = (
        scope["method"], _shown_path(scope["path"][:201]), status, (perf_counter() - request.began) * 1000,
        principal.tenant if principal else "-", principal.user if principal else "-", request.request_id,
    )  # fmt: skip
    if not add_line(access_log, logging.INFO, _LINE, said):
        access_log.handle(LineRecord(access_log.name, logging.INFO, _LINE, said))


_shown_path = lru_cache(maxsize=256)(partial(one_line, most=200))
_LINE = "%s %s %d %.1f ms tenant=%s user=%s request=%s"
