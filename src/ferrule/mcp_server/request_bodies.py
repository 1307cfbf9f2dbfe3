"""What comes over HTTP, looked at before the SDK reads it.

A body that holds more values than any message needs is refused before they are made. So is a second request of one
session under the same id at once: the SDK lets it take the first one's place, which then can be neither answered nor
cancelled. One with an id that is none would be taken for a notification, and never answered. An answer to a question of
ours that does not fit the protocol would be thrown away, and the question wait for another. And a body that never comes
to its end would hold one of few connections for ever.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from mcp.types import INVALID_REQUEST, JSONRPCError
from pydantic_core import from_json
from starlette.responses import Response

from ferrule.core.json_values import has_too_many_values
from ferrule.mcp_server.messages import Refused, read_message, too_many_values

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


BODY_SECONDS = 120.0
"""How long the rest of a request may take to come once its head is there."""
_NO_REST = 408


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
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body, messages = await self._read(receive)
        except TimeoutError:
            words = f"The rest of this request did not come within {BODY_SECONDS:g} s."
            await _refusal(Refused.of(INVALID_REQUEST, words), _NO_REST)(scope, receive, send)
            return
        is_huge = has_too_many_values(body)
        message = None if is_huge else _parsed(body)
        wrong = too_many_values() if is_huge else _what_is_wrong(message, body)
        if isinstance(wrong, Refused):
            await _refusal(wrong)(scope, receive, send)
            return
        if wrong is not None:
            messages[:] = [{"type": "http.request", "body": _written(wrong), "more_body": False}]
            scope = {**scope, "headers": [one for one in scope["headers"] if one[0] != b"content-length"]}
        session = _session_of(scope)
        request_id = _request_id(message) if session is not None else None
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


def _parsed(body: bytes) -> Any:
    """What a body holds; nothing for one that is no JSON, or holds half a character."""
    try:
        return from_json(body)
    except ValueError:
        return None


def _what_is_wrong(message: Any, body: bytes) -> JSONRPCError | None:
    """The error in place of a message that is none: a refusal in our words, or an answer for whoever waits for one."""
    if isinstance(message, dict) and _is_message(cast("dict[str, Any]", message)):
        return None
    found = read_message(body)
    if message is None and isinstance(found, Refused):
        return None  # it is answered further on
    return found if isinstance(found, JSONRPCError) else None


def _is_message(message: dict[str, Any]) -> bool:
    """Whether it is a request or a notification; answers are few, and looked at more closely."""
    return (
        message.get("jsonrpc") == "2.0"
        and "method" in message
        and isinstance(message["method"], str)
        and isinstance(message.get("params", {}), dict)
        and ("id" not in message or type(message["id"]) in (int, str))
    )


def _request_id(message: Any) -> str | None:
    """The id of a request; None for anything else, which is answered further on."""
    if not isinstance(message, dict) or "method" not in message:
        return None
    given = cast("dict[str, Any]", message).get("id")
    return str(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else None


def _refusal(refused: Refused, status: int = 400) -> Response:
    headers = {"connection": "close"} if status == _NO_REST else None
    return Response(_written(refused), status, headers, media_type="application/json")


def _written(error: JSONRPCError) -> bytes:
    return error.model_dump_json(by_alias=True, exclude_unset=True).encode()
