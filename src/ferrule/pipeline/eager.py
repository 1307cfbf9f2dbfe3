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

    _current: dict[Any, Any] = tasks._current_tasks  # noqa: SLF001

    class _FirstStep:
        """Stands in for a coroutine whose first step was taken already, and tells how that ended."""

        __slots__ = ("cancelling", "error", "given", "task")

        def __init__(self, task: _EagerTask, given: Any, error: BaseException | None) -> None:
            self.task, self.given, self.error = task, given, error
            # That it asked for its own cancelling counts from the end of the step on, not at its beginning.
            self.cancelling, task._must_cancel = task._must_cancel, False  # noqa: SLF001

        def send(self, _: Any) -> Any:
            self.task._must_cancel = self.cancelling  # noqa: SLF001
            if self.error is not None:
                raise self.error
            return self.given

    class _EagerTask(tasks._PyTask):  # noqa: SLF001
        """3.12's `eager_start` for 3.11, whose asyncio is frozen: asyncio's own Python task, stepped once at birth."""

        # What the two parents' own constructors set to the same for everybody; they also call_soon and trace.
        _name = "ferrule-tool"
        _num_cancels_requested = 0
        _must_cancel = False
        _fut_waiter = None

        def __init__(self, coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> None:
            self._loop = loop
            self._callbacks = []
            self._coro = coroutine
            self._context = context = copy_context()
            outer = _current.pop(loop, None)
            try:
                _current[loop] = self
                try:
                    first = _FirstStep(self, context.run(coroutine.send, None), None)
                except StopIteration as end:
                    if not self._callbacks and not self._must_cancel:
                        self._result, self._state = end.value, "FINISHED"
                        return
                    first = _FirstStep(self, None, end)
                except BaseException as error:  # noqa: BLE001 - asyncio's own step sorts them
                    first = _FirstStep(self, None, error)
                finally:
                    del _current[loop]
                self._coro = first
                try:
                    context.run(self._Task__step)
                finally:
                    self._coro = coroutine
                    del first  # it may hold an exception that holds this frame
            finally:
                if outer is not None:
                    _current[loop] = outer
            if not self.done():
                tasks._register_task(self)  # noqa: SLF001

        def __del__(self) -> None:
            if self._state != "FINISHED" or self._exception is not None:
                super().__del__()

    def start_task(coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
        """Run a coroutine up to its first wait; the task may be done when this returns."""
        return _EagerTask(coroutine, loop)


def callbacks_wait(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop has something to do before it may go on here; yes where that cannot be told."""
    return bool(getattr(loop, "_ready", True))


def disown(task: asyncio.Task[Any]) -> None:
    """Forget a task that cannot be ended: neither `asyncio.run` nor the interpreter's exit shall wait for it."""
    import ctypes

    asyncio.tasks._unregister_task(task)  # noqa: SLF001
    task._log_destroy_pending = False  # noqa: SLF001
    # Destroying its coroutine would run the tool once more, perhaps without end; so it is never destroyed.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
