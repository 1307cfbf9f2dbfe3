"""One at a time: a lock by name, for the event loop that runs."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary


class Turns:
    """Named locks. An asyncio lock belongs to one loop, and a runtime may serve several, one after the other."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()

    def of(self, name: str) -> asyncio.Lock:
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        return locks.setdefault(name, asyncio.Lock())
