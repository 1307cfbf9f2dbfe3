"""What a call reports while it runs, as the protocol's progress: numbers that only grow, and never a flood."""

from __future__ import annotations

import asyncio
from math import isfinite
from typing import TYPE_CHECKING, Any

from ferrule.core.events import Partial, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.core.events import CallEvent
    from ferrule.mcp_server.running_call import RunningCall
    from ferrule.pipeline.run import Runtime

_PAUSE = 0.02
_MOST_WORDS = 1000


class ProgressReports:
    """Passes one call's reports to the request that attends it. Between two of them the newest stands for all.

    A tool that counts is followed in its own numbers. One that only shows pieces of output has them counted, and the
    end of what came since the last report is the message.
    """

    def __init__(self, runtime: Runtime, running: RunningCall) -> None:
        self._running = running
        self._last = -1.0
        self._waiting: Progress | None = None
        self._pieces = 0
        self._words = ""
        self._counts = False
        self._sender: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = runtime.subscribe(self._note)

    def _note(self, event: CallEvent) -> None:
        if event.call_id != self._running.call.id:
            return
        if isinstance(event, Progress):
            self._counts = True
            self._waiting = event
        elif isinstance(event, Partial):
            self._pieces += 1
            self._words = (self._words + _words(event.content))[-_MOST_WORDS:]
        else:
            return
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while (report := self._next()) is not None:
            attending = self._running.attended_by
            if attending is not None:
                await attending.session.report_progress(*report)
            await asyncio.sleep(_PAUSE)
        self._sender = None

    def _next(self) -> tuple[float, float | None, str | None] | None:
        if self._counts:
            event, self._waiting = self._waiting, None
            if event is None or not isfinite(event.done) or event.done <= self._last:
                return None
            self._last = event.done
            return event.done, event.total, event.message or None
        if self._pieces <= self._last:
            return None
        self._last = self._pieces
        words, self._words = self._words, ""
        return self._pieces, None, words or None

    async def finish(self) -> None:
        """Everything reported so far is sent; nothing is after this."""
        self._unsubscribe()
        if self._sender is not None:
            await asyncio.wait((self._sender,))

    def drop(self) -> None:
        self._unsubscribe()
        if self._sender is not None:
            self._sender.cancel()


def _words(content: Any) -> str:
    return content if isinstance(content, str) else f"{content}\n"
