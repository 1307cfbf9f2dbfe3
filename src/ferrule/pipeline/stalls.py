"""Which call blocks an event loop, and for how long.

A loop with calls in flight shows ten times a second that it moves. One thread looks on, and only while there are such
calls; where a loop stands still it finds out who blocks it, names the tool in the log, and tells whoever can do
something about it. A loop that moves pays for a timer every tenth of a second, however many calls it runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from ferrule.core.context import ToolContext
    from ferrule.core.tool import Invocation

logger = logging.getLogger("ferrule.calls")

_BEAT = 0.1
STALL = 0.25
"""Seconds without a sign of life from which a loop counts as standing still."""
NOTED = 1.0
"""Seconds from which a stall is worth a warning, and a word in the result."""
_IDLE_SECONDS = 10.0
_OURS = str(Path(__file__).parent.parent) + os.sep
_NOT_THEIRS = (str(Path(threading.__file__).parent) + os.sep, "<frozen ", _OURS)

inside: ContextVar[tuple[Invocation, ToolContext | None] | None] = ContextVar("ferrule.call", default=None)
"""The call that the running code works for; also in the tasks and threads that a tool starts."""

born_inside: WeakKeyDictionary[asyncio.Task[Any], Invocation] = WeakKeyDictionary()
"""Tasks that tools started, by their call: Python 3.11 does not tell a task's context."""


class LoopWatch:
    """One loop: since when it stands still, and to which call the time is due that it stood still before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.blocked_by: Invocation | None = None
        """Who blocks it now, as soon as that is known."""
        self.on_stall: Callable[[float], None] | None = None
        """Hears again and again, in the watching thread, for how long the loop has stood still."""
        self.beating = False
        self._lock = threading.Lock()
        self._calls: set[object] = set()
        self._own: dict[object, float] = {}
        self._stalled = 0.0
        self._unexplained = 0.0
        self._blamed: list[tuple[float, float]] = []
        self._thread = 0
        self._last = 0.0
        self._told = False

    # Calls in flight

    def enter(self, call: object) -> None:
        """A call is in flight on this loop from now on. Safe from any thread."""
        with self._lock:
            self._calls.add(call)
            if self.beating:
                return
            self.beating = True
            self._last = monotonic()
        self.loop.call_soon_threadsafe(self._beat)
        _watcher.look_at(self)

    def leave(self, call: object) -> float:
        """It is over; gives for how many seconds it blocked the loop."""
        if self.standing and threading.get_ident() == self._thread:
            self._catch_up()
        with self._lock:
            self._calls.discard(call)
            return self._own.pop(call, 0.0) + (self.standing if self.blocked_by is call else 0.0)

    def _beat(self) -> None:
        self._thread = threading.get_ident()
        self._catch_up()
        with self._lock:
            self.beating = bool(self._calls)
        if self.beating:
            self.loop.call_later(_BEAT, self._beat)

    def _catch_up(self) -> None:
        """The loop moves, or this would not run: whatever it stood still for before is over."""
        stood, told, self._told = self.standing, self._told, False
        if stood:
            self._settle(self.blocked_by, stood)
            if not told and stood >= NOTED:
                _warn(self.blocked_by, stood, "")
        self._last, self.blocked_by = monotonic(), None

    # Who is to blame

    def blame(self, call: Invocation, began: float) -> float:
        """The first step of a call has kept the loop since `began`: for how many seconds it blocked it, without those
        that are due to the calls that it made.
        """
        now = monotonic()
        self._blamed = [one for one in self._blamed if one[0] > began]
        seconds = now - began - sum(seconds for _, seconds in self._blamed)
        if seconds < STALL:
            return 0.0
        self._blamed.append((now, seconds))
        self._settle(call, seconds)
        if not self._told and seconds >= NOTED:
            _warn(call, seconds, "")
        self._last, self.blocked_by, self._told = now, None, False
        return seconds

    def _settle(self, call: Invocation | None, seconds: float) -> None:
        with self._lock:
            self._stalled += seconds
            if call is None:
                self._unexplained += seconds
            elif call in self._calls:
                self._own[call] = self._own.get(call, 0.0) + seconds

    @property
    def standing(self) -> float:
        """For how many seconds the loop has stood still up to now; 0 where it moves."""
        stood = monotonic() - self._last - _BEAT if self.beating else 0.0
        return stood if stood > STALL else 0.0

    def mark(self) -> tuple[float, float]:
        """Where the count of lost time is now, for `excused`."""
        return self._stalled, self._unexplained

    def excused(self, call: object, mark: tuple[float, float], most: float) -> float:
        """Seconds since the mark in which the loop stood still and it was not this call's fault. Where nobody knows
        whose fault it was, at most so many.
        """
        with self._lock:
            unexplained = self._unexplained - mark[1]
            others = self._stalled - mark[0] - unexplained - self._own.get(call, 0.0)
            standing, culprit = self.standing, self.blocked_by
        if culprit is None:
            unexplained += standing
        elif culprit is not call:
            others += standing
        return others + min(unexplained, most)

    # Looking on, in the watching thread

    def look(self) -> None:
        standing = self.standing
        if not standing or not self.loop.is_running():
            return
        self.find_culprit()
        if standing >= NOTED:
            self.tell()
        if self.on_stall is not None:
            self.on_stall(standing)

    def find_culprit(self) -> Invocation | None:
        """Who blocks the loop, found out now unless the watching thread has already."""
        if self.blocked_by is None and self.standing:
            self.blocked_by = self._culprit()
        return self.blocked_by

    def tell(self) -> None:
        """Name whoever blocks the loop in the log, once for each time."""
        if not self._told:
            self._told = True
            _warn(self.blocked_by, self.standing, self._place())

    def _culprit(self) -> Invocation | None:
        task = asyncio.current_task(self.loop)
        if task is None:
            return None
        context: Context | None = task.get_context() if sys.version_info >= (3, 12) else getattr(task, "_context", None)
        found = context.get(inside) if context is not None else None
        return found[0] if found is not None else born_inside.get(task)

    def _place(self) -> str:
        """Where the loop's thread is: the innermost line that is neither Python's own nor ours, if there is one."""
        innermost = frame = sys._current_frames().get(self._thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        while frame is not None and _is_not_theirs(frame.f_code.co_filename):
            frame = frame.f_back
        frame = frame or innermost
        return f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def _is_not_theirs(file: str) -> bool:
    return file.startswith(_NOT_THEIRS) and "site-packages" not in file.removeprefix(_OURS)


def _warn(call: Invocation | None, seconds: float, place: str) -> None:
    if call is None:
        logger.warning("The event loop has stood still for %.1f s%s, and so have all calls on it", seconds, place)
        return
    logger.warning(
        "Tool %s has blocked the event loop for %.1f s%s (call %s); await what takes long, or write it as a plain "
        "`def`, which runs in a thread",
        call.tool.name,
        seconds,
        place,
        call.call_id,
    )


class _Watcher:
    """The thread that looks at every loop with calls in flight. While there are none it sleeps, and at last ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: list[LoopWatch] = []
        self._wake = threading.Event()
        self._runs = False

    def look_at(self, watch: LoopWatch) -> None:
        with self._lock:
            if watch not in self._watches:
                self._watches.append(watch)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._work, name="ferrule-watch", daemon=True).start()
        self._wake.set()

    def _work(self) -> None:
        while True:
            self._wake.clear()
            with self._lock:
                self._watches = [one for one in self._watches if one.beating and not one.loop.is_closed()]
                watches = list(self._watches)
            for watch in watches:
                try:
                    watch.look()
                except Exception:
                    logger.exception("A loop could not be watched")
            if watches:
                sleep(_BEAT)
            elif not self._wake.wait(_IDLE_SECONDS):
                with self._lock:
                    if not self._watches:
                        self._runs = False
                        return


_watcher = _Watcher()
_watches: dict[asyncio.AbstractEventLoop, LoopWatch] = {}


def watch_of(loop: asyncio.AbstractEventLoop) -> LoopWatch:
    """The watch of a loop, made at first use."""
    watch = _watches.get(loop)
    if watch is None:
        for one in [one for one in list(_watches) if one.is_closed()]:
            _watches.pop(one, None)
        watch = _watches.setdefault(loop, LoopWatch(loop))
    return watch


def _start_afresh() -> None:
    global _watcher
    _watcher = _Watcher()
    _watches.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
