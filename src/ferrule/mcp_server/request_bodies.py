"""What comes over HTTP, looked at before the SDK reads it.

A body that holds more values than any message needs is refused before they are made. So is a second request of one
session under the same id at once: the SDK lets it take the first one's place, which then can be neither answered nor
cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mcp.types import INVALID_REQUEST
from pydantic_core import from_json
from starlette.responses import Response

from ferrule.core.json_values import has_too_many_values
from ferrule.mcp_server.messages import Refused, too_many_values

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class RequestBodies:
    """Looks at messages as they come, and refuses one that is too large to make, or whose id is in use."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: set[tuple[bytes, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, messages = await self._read(receive)
        if has_too_many_values(body):
            await _refusal(too_many_values())(scope, receive, send)
            return
        session = _session_of(scope)
        request_id = _request_id(body) if session is not None else None
        key = (session, request_id) if session is not None and request_id is not None else None
        if request_id is not None and key in self._open:
            words = f"The id {request_id[:100]} is that of a request which still runs. This one was not taken."
            await _refusal(Refused.of(INVALID_REQUEST, words))(scope, receive, send)
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


def _refusal(refused: Refused) -> Response:
    body = refused.model_dump_json(by_alias=True, exclude_unset=True)
    return Response(body, 400, media_type="application/json")
