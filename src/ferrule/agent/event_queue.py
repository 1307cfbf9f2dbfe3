"""Events on their way to whoever reads the stream; what nobody reads in time does not fill the memory."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from ferrule.core.events import Partial, Progress

if TYPE_CHECKING:
    from ferrule.agent.agent_events import AgentEvent

_MOST = 1000


class EventQueue:
    """First in, first out. Of a slow reader's events the oldest progress and partial output give way, and say so."""

    def __init__(self) -> None:
        self._events: deque[AgentEvent] = deque()
        self._dropped: dict[str, int] = {}
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, event: AgentEvent) -> None:
        if len(self._events) >= _MOST and isinstance(event, (Progress, Partial)):
            self._make_room()
        self._events.append(event)
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def next(self) -> AgentEvent | None:
        """The oldest event; None when closed and empty."""
        while not self._events:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        event = self._events.popleft()
        if isinstance(event, Partial) and (dropped := self._dropped.pop(event.call_id, 0)):
            return replace(event, dropped=event.dropped + dropped)
        return event

    def _make_room(self) -> None:
        for position, event in enumerate(self._events):
            if isinstance(event, (Progress, Partial)):
                if isinstance(event, Partial):
                    self._dropped[event.call_id] = self._dropped.get(event.call_id, 0) + 1 + event.dropped
                del self._events[position]
                return
