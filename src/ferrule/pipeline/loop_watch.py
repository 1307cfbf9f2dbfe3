"""Notices when an event loop is blocked, and by which call.

A thread posts a callback to every loop with calls in flight, ten times a second, and sees whether it ran. It ends when
no call is left. An interval counts for at most twice its intended length, so that no call is blamed when the whole
process got no CPU time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ferrule.core.context import running_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ferrule.core.context import ToolContext
    from ferrule.core.tool import Invocation

logger = logging.getLogger("ferrule.calls")

_LOOK = 0.1
STALL = 0.25
"""A loop that has not answered for so many seconds counts as blocked."""
NOTED = 1.0
"""Blocking a loop for so many seconds is logged, and noted in the call's result."""
_OURS = str(Path(__file__).parent.parent) + os.sep
_NOT_THEIRS = (str(Path(threading.__file__).parent) + os.sep, "<frozen ", _OURS)

inside: ContextVar[tuple[Invocation, ToolContext | None] | None] = ContextVar("ferrule.call", default=None)
"""The call that the running code belongs to, also in the tasks and threads that a tool starts."""

_lock = threading.Lock()  # for all watches
_watches: dict[asyncio.AbstractEventLoop, LoopWatch] = {}
_watched: list[LoopWatch] = []
"""Those with calls in flight, for the watching thread."""


class LoopWatch:
    """Whether one loop answers, and which of its calls has blocked it for how long."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.culprit: Invocation | None = None
        """The call that blocks it now, if that is known."""
        self.on_silence: Callable[[], None] | None = None
        """Called again and again, in the watching thread, while the loop is blocked."""
        self.on_purpose = False
        """Whether the program itself blocks it."""
        self._calls: dict[object, float] = {}  # how many seconds each call in flight has blocked the loop
        self._lost = 0.0  # how many seconds it has been blocked in all
        self._first_steps: list[tuple[float, float]] = []
        self._asked: float | None = None
        self._unanswered = 0.0
        self._reported = False
        self._thread = 0

    @property
    def silent(self) -> float:
        """How many seconds the loop has been blocked by now; 0 if it is not."""
        seconds = self._unanswered
        return seconds if seconds > STALL else 0.0

    # Calls

    def enter(self, call: object) -> None:
        """A call is in flight on this loop from now on. Safe from any thread."""
        with _lock:
            self._calls[call] = 0.0
            if self in _watched:
                return
            with suppress(RuntimeError):  # the system cannot start a thread: this loop is not watched for now
                if not _watched:
                    threading.Thread(target=_watch, name="ferrule-watch", daemon=True).start()
                _watched.append(self)

    def leave(self, call: object) -> float:
        """The call is over; returns how many seconds it blocked the loop."""
        with _lock:
            return self._calls.pop(call, 0.0) + self._own_silence(call)

    def lost(self, call: object) -> float:
        """How many seconds the loop has been blocked so far, except by this call."""
        with _lock:
            return self._lost + self.silent - self._calls.get(call, 0.0) - self._own_silence(call)

    def _own_silence(self, call: object) -> float:
        return self.silent if self.culprit is call else 0.0

    def first_step_took(self, call: Invocation, began: float) -> float:
        """Account for a call's first step, from `began` until now, which runs before the call is watched. Returns how
        many seconds it blocked the loop, not counting the first steps of calls that it made.
        """
        now = monotonic()
        self._first_steps = [one for one in self._first_steps if one[0] > began]
        seconds = now - began - sum(seconds for _, seconds in self._first_steps)
        if seconds < STALL:
            return 0.0
        self._first_steps.append((now, seconds))
        with _lock:
            self._lost += seconds
            self._unanswered = 0.0  # the watching thread may have counted this time too
            self.culprit, reported, self._reported = None, self._reported, False
        if seconds >= NOTED and not reported:
            _warn(call, seconds)
        return seconds

    def answer(self) -> None:
        """The loop runs again; called in its own thread."""
        with _lock:
            if self.silent:
                self._lost += self.silent
                if self.culprit in self._calls:
                    self._calls[self.culprit] += self.silent
            self._asked, self._unanswered, self._thread = None, 0.0, threading.get_ident()
            self.culprit, self._reported = None, False

    # In the watching thread

    def ask(self) -> bool:
        """Post the callback, or count the time that it has not run; False when no call is in flight."""
        now = monotonic()
        if not self._calls or self.loop.is_closed():
            return False
        if self._asked is None:
            with suppress(RuntimeError):  # it has just been closed
                self.loop.call_soon_threadsafe(self.answer)
        elif self.loop.is_running():
            self._unanswered += min(now - self._asked, 2 * _LOOK)
        self._asked = now
        return True

    def blame(self) -> None:
        """Find out which call blocks the loop."""
        if self.culprit is None and not self.on_purpose:
            self.culprit = self.running_call()
        if self.silent >= NOTED:
            self.report()
        if self.on_silence is not None:
            self.on_silence()

    def running_call(self) -> Invocation | None:
        """The call whose code the loop is running."""
        get_context = getattr(asyncio.current_task(self.loop), "get_context", None)  # Python 3.11 has it on our loops
        found = get_context().get(inside) if get_context is not None else None
        return found[0] if found is not None else None

    def report(self) -> None:
        """Log the call that blocks the loop, once, with the line of code where it is."""
        if self._reported or self.on_purpose:
            return
        self._reported = True
        # The innermost line outside Python's library and Ferrule, if there is one.
        innermost = frame = sys._current_frames().get(self._thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        while frame is not None and _is_not_theirs(frame.f_code.co_filename):
            frame = frame.f_back
        frame = frame or innermost
        _warn(self.culprit, self.silent, f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else "")


def _is_not_theirs(file: str) -> bool:
    return file.startswith(_NOT_THEIRS) and "site-packages" not in file.removeprefix(_OURS)


def _warn(call: Invocation | None, seconds: float, place: str = "") -> None:
    if call is None:
        logger.warning("The event loop has stood still for %.1f s%s, and so have all calls on it", seconds, place)
    elif call.tool.may_block:  # others run on the program's own loop, which the program itself may block
        logger.warning(
            "Tool %s has blocked the event loop for %.1f s%s (call %s); await what takes long, or write it as a plain "
            "`def`, which runs in a thread",
            call.tool.name,
            seconds,
            place,
            call.call_id,
        )


def _watch() -> None:
    while True:
        with _lock:
            _watched[:] = [one for one in _watched if one.ask()]
            if not _watched:
                return
            silent = [one for one in _watched if one.silent]
        for one in silent:
            try:
                one.blame()
            except Exception:
                logger.exception("A loop could not be watched")
        sleep(_LOOK)


def watch_of(loop: asyncio.AbstractEventLoop) -> LoopWatch:
    """The watch of a loop, made at first use."""
    watch = _watches.get(loop)
    if watch is None:
        for one in [one for one in list(_watches) if one.is_closed()]:
            _watches.pop(one, None)
        watch = _watches.setdefault(loop, LoopWatch(loop))
    return watch


@contextmanager
def blocked_on_purpose() -> Generator[None]:
    """Use it where the program itself blocks the running loop, as while a user types at the terminal. No call is blamed
    for that time, nor charged with it.
    """
    loop = running_loop()
    if loop is None:
        yield
        return
    watch = watch_of(loop)
    watch.on_purpose = True
    try:
        yield
    finally:
        watch.answer()
        watch.on_purpose = False


def _after_fork() -> None:
    """Forget the watching thread, which a fork does not copy."""
    global _lock
    _lock = threading.Lock()
    _watched.clear()
    _watches.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
