"""Starts a task at once instead of at the loop's next turn.

A tool that never waits then costs no turn of the loop, and still runs in a task of its own, so that cancelling and
time limits inside it mean what they always mean.
"""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false, reportUntypedBaseClass=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

if sys.version_info >= (3, 12):

    def start_task(coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
        """Run a coroutine up to its first wait; the task may be done when this returns."""
        return asyncio.Task(coroutine, loop=loop, eager_start=True)

else:
    from asyncio import tasks
    from contextvars import copy_context

    class _EagerTask(tasks._PyTask):  # noqa: SLF001
        """3.12's `eager_start` for 3.11, whose asyncio is frozen: asyncio's own Python task, stepped once at birth."""

        def __init__(self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> None:
            # What the two parents' own constructors set, less their call_soon and the debug trace.
            self._loop = loop
            self._callbacks = []
            self._name = "ferrule-tool"
            self._num_cancels_requested = 0
            self._must_cancel = False
            self._fut_waiter = None
            self._coro = coroutine
            self._context = copy_context()
            outer = tasks.current_task(loop)
            if outer is not None:
                tasks._leave_task(loop, outer)  # noqa: SLF001
            try:
                self._context.run(self._Task__step)
            finally:
                if outer is not None:
                    tasks._enter_task(loop, outer)  # noqa: SLF001
            if not self.done():
                tasks._register_task(self)  # noqa: SLF001

    def start_task(coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
        """Run a coroutine up to its first wait; the task may be done when this returns."""
        return _EagerTask(coroutine, loop)


def disown(task: asyncio.Task[Any]) -> None:
    """Forget a task that cannot be ended: neither `asyncio.run` nor the interpreter's exit shall wait for it."""
    import ctypes

    asyncio.tasks._unregister_task(task)  # noqa: SLF001
    task._log_destroy_pending = False  # noqa: SLF001
    # Destroying its coroutine would run the tool once more, perhaps without end; so it is never destroyed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
