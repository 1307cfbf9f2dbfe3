"""The panel's way to what it shows: the service's own HTTP API, asked in the same process with the user's credential.

So scopes, roles, tenants, limits and the log are those of any other client, and the panel has no right of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class PageProblem(Exception):  # noqa: N818 - reads as what it says
    """A request that cannot be taken, or what the API refused; `code` is one of `PROBLEMS` or of the API's own."""

    def __init__(self, status: int, code: str, detail: str = "", suggestion: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.suggestion = suggestion


class InProcessApi:
    """Asks an ASGI application, on behalf of whoever holds the credential."""

    def __init__(self, app: ASGIApp, credential: str, scope: Scope, language: str = "en") -> None:
        """`scope` is that of the request to the panel, `language` that of whoever reads what was refused."""
        self._app = app
        self._language = language
        self._credential = credential
        self._scope = scope

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON document of an answer; raises `PageProblem`."""
        sent = json.dumps(body).encode() if body is not None else b""
        more = {**(headers or {}), "content-length": str(len(sent))}
        if body is not None:
            more["content-type"] = "application/json"
        status, received = 500, bytearray()
        waiting = [{"type": "http.request", "body": sent, "more_body": False}]

        async def receive() -> Message:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                received.extend(message.get("body", b""))

        await self._app(self._asking(method, path, query, more), receive, send)
        document = json.loads(bytes(received)) if received else None
        if status >= 400:
            said: dict[str, Any] = document or {}
            words = (str(said.get(name) or "") for name in ("code", "detail", "suggestion"))
            raise PageProblem(status, *words)
        return document

    async def forward(
        self, path: str, query: Mapping[str, str], receive: Receive, send: Send, headers: Mapping[str, str]
    ) -> None:
        """Let an answer that has no end, or is long, go straight to the browser."""
        await self._app(self._asking("GET", path, query, headers), receive, send)

    def _asking(self, method: str, path: str, query: Mapping[str, str] | None, headers: Mapping[str, str]) -> Scope:
        given = {"authorization": f"Bearer {self._credential}", "accept-language": self._language, **headers}
        return {
            **self._scope,
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": urlencode(query or {}).encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        }
