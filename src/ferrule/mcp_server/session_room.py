"""Room for new sessions over HTTP: the one that was unused for longest gives way when there are too many.

Clients that are killed, or that never say goodbye, leave a session behind for half an hour. Without this a few dozen
of them would keep everybody else out for as long.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SESSION, _REVISION = b"mcp-session-id", b"mcp-protocol-version"
_MODERN = {one.encode() for one in MODERN_PROTOCOL_VERSIONS}
_OF_A_BODY = (b"content-type", b"content-length", b"transfer-encoding")
REST_SECONDS = 60.0
"""How long a session must have been unused to give way: one that works is never ended for another."""


@dataclass(slots=True)
class _Used:
    last: float
    requests: int = 0
    """Those that are open now, and among them the stream on which a client listens."""


class SessionRoom:
    """Knows every session by the requests that pass, and ends one as a client would: with DELETE."""

    def __init__(self, app: ASGIApp, most: int, rest: float = REST_SECONDS) -> None:
        self._app = app
        self._most = most
        self._rest = rest
        self._sessions: dict[bytes, _Used] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        key = headers.get(_SESSION)
        if key is None and scope["method"] == "POST" and headers.get(_REVISION) not in _MODERN:
            await self._make_room(scope)
        used = self._sessions.get(key) if key is not None else None
        if used is not None:
            used.requests += 1

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, key, message)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            if used is not None:
                used.requests -= 1
                used.last = _now()

    def _note(self, scope: Scope, key: bytes | None, answer: Message) -> None:
        if key is None:
            opened = dict(answer.get("headers", ())).get(_SESSION)
            if opened is not None and answer["status"] < 400:
                self._sessions[opened] = _Used(_now())
        elif answer["status"] == 404 or (scope["method"] == "DELETE" and answer["status"] < 400):
            self._sessions.pop(key, None)

    async def _make_room(self, scope: Scope) -> None:
        """End sessions until there is room, the longest unused first; none where every one is in use."""
        while len(self._sessions) >= self._most:
            resting = [(used.last, key) for key, used in self._sessions.items() if not used.requests]
            if not resting or _now() - min(resting)[0] < self._rest:
                return
            await self._end(min(resting)[1], scope)

    async def _end(self, key: bytes, scope: Scope) -> None:
        self._sessions.pop(key, None)
        kept = [(name, value) for name, value in scope["headers"] if name not in _OF_A_BODY]
        goodbye = {**scope, "method": "DELETE", "headers": [*kept, (_SESSION, key)]}

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unread(_message: Message) -> None:
            return None

        await self._app(goodbye, nothing, unread)


def _now() -> float:
    return asyncio.get_running_loop().time()
