"""Connections on which no request comes are let go of, however slowly somebody sends half of one.

There is room for so many connections and no more, and they are counted before anybody has shown a token. uvicorn ends
those that are quiet between two requests, but waits for ever for the rest of a request that has begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS = 20.0
"""How long the head of a request may take to come."""


def prompt(protocol: Any, seconds: float = HEAD_SECONDS) -> type[Any]:
    """The protocol that uvicorn has chosen, with that limit."""

    class Prompt(protocol):
        _seen: object = None
        _looking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType]
            self._look_later()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._looking is not None:
                self._looking.cancel()
            super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

        def _look_later(self) -> None:
            self._looking = self.loop.call_later(seconds, self._look)

        def _look(self) -> None:
            """End it where no request is answered, and none has been since it was last looked at."""
            request = self.cycle
            resting = request is None or request.response_complete
            if resting and request is self._seen:
                self.transport.close()
                return
            self._seen = request
            self._look_later()

    return Prompt
