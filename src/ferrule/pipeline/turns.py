"""One at a time: a lock by name, for the event loop that runs."""

from __future__ import annotations

import asyncio


class Turns:
    """Named locks. An asyncio lock belongs to one loop, and a runtime may serve several, one after the other."""

    def __init__(self) -> None:
        self._locks: dict[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = {}

    def of(self, name: str) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        locks = self._locks.get(loop)
        if locks is None:
            # A lock holds on to its loop, so weak references would keep every loop there ever was.
            self._locks = {known: held for known, held in self._locks.items() if not known.is_closed()}
            locks = self._locks.setdefault(loop, {})
        return locks.setdefault(name, asyncio.Lock())
