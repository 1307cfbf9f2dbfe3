"""Slows down whoever says too much: what comes in too fast is read later, so that the sender has to wait."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Pace:
    """So much in a second, and no more."""

    def __init__(
        self,
        most: int,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._most = most
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._spent = 0
        self.held_back = 0
        """How many times the sender had to wait."""

    async def spend(self, amount: int = 1) -> None:
        """Come back once there is room for more."""
        now = self._clock()
        if now - self._began >= 1.0:
            self._began, self._spent = now, 0
        self._spent += amount
        if self._spent >= self._most:
            self.held_back += 1
            # As long as it would have taken at the allowed rate, however much came at once.
            await self._sleep(max(0.0, self._spent / self._most - (now - self._began)))
            self._began, self._spent = self._clock(), 0
