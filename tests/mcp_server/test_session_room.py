"""Sessions that nobody uses give way to new ones, and none that is used does."""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule.mcp_server.http import SessionRoom

Answer = tuple[int, str | None]


class Web:
    """An application that opens and ends sessions as the SDK's does, and holds what it is asked to hold."""

    def __init__(self, most: int, rest: float = 0.0) -> None:
        self.open: dict[str, int] = {}
        self.held = asyncio.Event()
        self._opened = 0
        self.room = SessionRoom(self._app, most, rest)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        key = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        status, headers = 200, []
        if not key and scope["method"] == "POST":
            self._opened += 1
            name = f"s{self._opened}"
            self.open[name] = 0
            headers = [(b"mcp-session-id", name.encode())]
        elif key not in self.open:
            status = 404
        elif scope["method"] == "DELETE":
            del self.open[key]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if scope["method"] == "GET":
            await self.held.wait()

    async def ask(self, method: str = "POST", session: str = "", **headers: str) -> int:
        told = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        told += [(b"mcp-session-id", session.encode())] if session else []
        seen: list[int] = []

        async def send(message: Any) -> None:
            seen.append(message["status"])

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        await self.room({"type": "http", "method": method, "headers": told}, receive, send)
        return seen[0]


async def test_the_one_that_was_unused_for_longest_gives_way() -> None:
    web = Web(most=2)
    await web.ask()
    await web.ask()
    assert await web.ask(session="s1") == 200
    await web.ask()
    assert set(web.open) == {"s1", "s3"}
    assert await web.ask(session="s2") == 404


async def test_one_on_which_a_client_listens_stays() -> None:
    web = Web(most=1)
    await web.ask()
    listening = asyncio.create_task(web.ask("GET", "s1"))
    await asyncio.sleep(0)
    await web.ask()
    assert set(web.open) == {"s1", "s2"}  # who has no room for it refuses it, and that is the SDK
    web.held.set()
    await listening


async def test_one_that_was_just_used_stays() -> None:
    web = Web(most=1, rest=60.0)
    await web.ask()
    await web.ask()
    assert set(web.open) == {"s1", "s2"}


async def test_who_says_goodbye_leaves_room_and_who_needs_no_session_takes_none() -> None:
    web = Web(most=2)
    await web.ask()
    await web.ask()
    assert await web.ask("DELETE", "s1") == 200
    await web.ask()
    assert set(web.open) == {"s2", "s3"}
    await web.ask(mcp_protocol_version="2026-07-28")
    assert {"s2", "s3"} <= set(web.open)
