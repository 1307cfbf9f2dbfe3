"""Named locks for callers on any event loops."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ferrule.core.loops import sync_caller

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Turns:
    """Named locks, first come, first served. Unlike asyncio's, they work across event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[str, asyncio.Future[None]] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def is_taken(self, name: str) -> bool:
        """Whether a caller would have to wait now."""
        with self._lock:
            return name in self._holders

    @asynccontextmanager
    async def of(self, name: str) -> AsyncGenerator[bool]:
        """`async with turns.of(name)` holds the lock of that name. Says whether it had to wait."""
        waited = await self.take(name)
        try:
            yield waited
        finally:
            self.leave(name)

    async def take(self, name: str) -> bool:
        """Take the lock; says whether it had to wait."""
        mine = asyncio.get_running_loop().create_future()
        with self._lock:
            holder = self._holders.get(name)
            if holder is None or holder.get_loop().is_closed():  # the holder's loop has ended, and the holder with it
                self._holders[name] = mine
                return False
            caller = sync_caller.get()
            if caller is not None and caller.loop is holder.get_loop():
                raise RuntimeError(
                    "Another call must end first, and it runs on the event loop that `run_sync` blocks, so this would "
                    "wait forever. Write `await runtime.run(...)` instead."
                )
            self._waiting.setdefault(name, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            with self._lock:
                if self._holders.get(name) is not mine:
                    self._waiting[name].remove(mine)
                    raise
            self.leave(name)  # it was passed on to this caller meanwhile
            raise
        return True

    def leave(self, name: str) -> None:
        """Release the lock, or pass it to the caller that has waited longest."""
        with self._lock:
            line = self._waiting.get(name, deque())
            while line:
                first = line.popleft()
                with suppress(RuntimeError):  # its loop has ended
                    first.get_loop().call_soon_threadsafe(lambda one=first: one.done() or one.set_result(None))
                    self._holders[name] = first
                    return
            self._waiting.pop(name, None)
            self._holders.pop(name, None)
