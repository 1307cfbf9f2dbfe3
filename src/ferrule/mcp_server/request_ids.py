"""No two requests of one HTTP session under the same id at once: the second would take the first one's answer.

The SDK lets the second take the first one's place, which then can be neither answered nor cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json
from starlette.responses import Response

from ferrule.mcp_server.messages import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_INVALID_REQUEST = -32600


class RequestIds:
    """Looks at requests of a session as they come, and refuses one whose id is in use."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: set[tuple[bytes, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = _session_of(scope)
        if session is None:
            await self._app(scope, receive, send)
            return
        body, messages = await self._read(receive)
        key = (session, request_id) if (request_id := _request_id(body)) is not None else None
        if key is not None and key in self._open:
            await _refuse(key[1])(scope, receive, send)
            return
        if key is not None:
            self._open.add(key)

        async def again() -> Message:
            return messages.pop(0) if messages else await receive()

        try:
            await self._app(scope, again, send)
        finally:
            if key is not None:
                self._open.discard(key)

    async def _read(self, receive: Receive) -> tuple[bytes, list[Message]]:
        """The body, and the messages that it came in; of one that is too long only the beginning."""
        messages: list[Message] = []
        body = bytearray()
        more = True
        while more and len(body) <= self._most:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
        return bytes(body), messages


def _session_of(scope: Scope) -> bytes | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    return next((value for name, value in scope["headers"] if name == b"mcp-session-id"), None)


def _request_id(body: bytes) -> str | None:
    """The id of a request; None for anything else, which is answered further on."""
    try:
        message: Any = from_json(body)
    except ValueError:
        return None
    if not isinstance(message, dict) or "method" not in message:
        return None
    given = cast("dict[str, Any]", message).get("id")
    return str(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else None


def _refuse(request_id: str) -> Response:
    words = f"The id {request_id[:100]} is that of a request which still runs. This one was not taken."
    body = Refused.of(_INVALID_REQUEST, words).model_dump_json(by_alias=True, exclude_unset=True)
    return Response(body, 400, media_type="application/json")
