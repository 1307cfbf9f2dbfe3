"""How much a server may say. Whoever wrote it may mean harm, or just have a bug: neither may cost us more than this."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


MESSAGE_BYTES = 32 << 20
"""One message; a longer one is passed over, and the call it would answer fails."""
NOT_READ = "which are not read"
"""How an answer that was too much is told; the last words of whoever noticed."""
TOOLS = 2_000
"""Tools of one server; of more, the first are used."""
LISTING_BYTES = 32 << 20
"""All pages of one listing; they are kept together until the last has come."""
PAGES = 200
"""Pages of one listing; a server that always has one more is not asked for ever."""
DESCRIPTION_CHARS = 20_000
SCHEMA_DEPTH = 100
SCHEMA_BYTES = 500_000
"""One tool's schema; compiling and showing a longer one takes longer than anyone waits."""
MESSAGES_PER_SECOND = 1_000
"""Notifications and requests of a server. One that sends more is read more slowly, until it has to wait itself."""
OPEN_REQUESTS = 100
"""Requests of a server that wait for our answer; the next is read once one of them has it."""
PIECES_PER_SECOND = 4_000
LINES_PER_PIECE = 5
"""Of a body over HTTP: what costs as much to take as a piece. A stream of nothing but comments has no end either."""
ATTACHMENTS = 100
"""Images, sounds, resources and links of one result."""
QUESTIONS = 30
"""What a server may ask the user in one call. Nobody answers more, and each stops the call's clock."""
STDERR_BYTES_PER_SECOND = 4 << 20
STDERR_KEPT = 64 << 10
GARBAGE_LINES = 1_000
"""Lines on a server's output that are no messages; programs greet and warn there, but not for ever."""
START_SECONDS = 30.0
LIST_SECONDS = 30.0
PING_SECONDS = 5.0
LONGEST_WAIT = 60.0
"""Between two tries to start a server that fails to."""


# Slows down whoever says too much: what comes in too fast is read later, so that the sender has to wait.


class Pace:
    """So much in a second, and no more."""

    def __init__(
        self,
        most: int,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        self._most = most
        if sleep is None:
            from asyncio import sleep  # here, because a list of tools needs the numbers above and no event loop
        self._clock = clock
        self._sleep: Callable[[float], Awaitable[None]] = sleep
        self._began = clock()
        self._spent = 0

    async def spend(self, amount: int = 1) -> None:
        """Come back once there is room for more."""
        now = self._clock()
        if now - self._began >= 1.0:
            self._began, self._spent = now, 0
        self._spent += amount
        if self._spent >= self._most:
            # As long as it would have taken at the allowed rate, however much came at once.
            await self._sleep(max(0.0, self._spent / self._most - (now - self._began)))
            self._began, self._spent = self._clock(), 0
