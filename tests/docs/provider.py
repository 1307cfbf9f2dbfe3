"""A provider on loopback for the pages that record one: it gives the answers that they show."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from tests.models.endpoints.server import Server
from tests.models.endpoints.wire import Call, Says, reply

_LOOKS_UP = {
    order: Says(calls=[Call("", "order_status", [f'{{"order": "{order}"}}'])], stop="calls") for order in ("A17", "B20")
}
ANSWERS = (
    _LOOKS_UP["A17"],
    Says(text=["Order A17 ", "was shipped on Monday."]),
    _LOOKS_UP["A17"],
    Says(text=["Yes, ", "it was shipped on Monday."]),
    _LOOKS_UP["B20"],
    Says(text=["As soon as your payment has arrived."]),
    Says(text=["You are welcome."]),
)


@contextmanager
def provider_at_hand(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Anthropic's address and key in the environment are those of a server in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Server(*(reply("anthropic", says) for says in ANSWERS))
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-examples")
        yield
        assert len(server.requests) == len(ANSWERS)
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
