"""One at a time: locks by name, whichever event loops the callers run on."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING

from ferrule.core.loops import sync_caller

if TYPE_CHECKING:
    from types import TracebackType


class Turns:
    """Named locks, first come first served. An asyncio lock belongs to one loop, and a runtime may serve several."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[str, asyncio.AbstractEventLoop] = {}
        self._waiting: dict[str, deque[_Waiting]] = {}

    def is_taken(self, name: str) -> bool:
        """Whether whoever comes now has to wait."""
        with self._lock:
            return name in self._holders

    def of(self, name: str) -> TurnLock:
        return TurnLock(self, name)

    async def take(self, name: str) -> bool:
        """Take the turn; says whether others had it first."""
        loop = asyncio.get_running_loop()
        with self._lock:
            holder = self._holders.get(name)
            if holder is None or holder.is_closed():  # whoever held it then has ended with its loop
                self._holders[name] = loop
                return False
            caller = sync_caller.get()
            if caller is not None and caller.loop is holder:
                raise RuntimeError(
                    "Another call must end first, and it runs on the event loop that `run_sync` blocks, so this would "
                    "wait forever. Write `await runtime.run(...)` instead."
                )
            waiting = _Waiting(loop)
            self._waiting.setdefault(name, deque()).append(waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            with self._lock:
                if not waiting.has_it:
                    self._waiting[name].remove(waiting)
                    raise
            self.leave(name)
            raise
        return True

    def leave(self, name: str) -> None:
        """Give the turn to whoever waited longest."""
        with self._lock:
            line = self._waiting.get(name, deque())
            while line:
                next_one = line.popleft()
                if next_one.wake():
                    self._holders[name] = next_one.loop
                    return
            self._waiting.pop(name, None)
            self._holders.pop(name, None)


class TurnLock:
    """`async with turns.of(name)`: nobody else has this name's turn inside."""

    __slots__ = ("_name", "_turns")

    def __init__(self, turns: Turns, name: str) -> None:
        self._turns = turns
        self._name = name

    @property
    def is_taken(self) -> bool:
        return self._turns.is_taken(self._name)

    async def __aenter__(self) -> bool:
        return await self._turns.take(self._name)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.leave(self._name)


class _Waiting:
    __slots__ = ("has_it", "loop", "turn")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.turn: asyncio.Future[None] = loop.create_future()
        self.has_it = False

    def wake(self) -> bool:
        """Hand the turn over; False where its loop has ended. One that is cancelled before it hears passes it on."""
        try:
            self.loop.call_soon_threadsafe(self._take)
        except RuntimeError:
            return False
        self.has_it = True
        return True

    def _take(self) -> None:
        if not self.turn.done():
            self.turn.set_result(None)
