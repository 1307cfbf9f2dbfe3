"""The calls of one answer: through the runtime as one batch, each event shown, exactly one result for each call."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferrule.agent.agent_events import CallAsked
from ferrule.agent.conversation import cancelled
from ferrule.agent.doing import doing
from ferrule.core.errors import ErrorKind
from ferrule.core.events import Done, Pending

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ferrule.agent.agent_events import AgentEvent
    from ferrule.core.call import RawCall
    from ferrule.core.context import Session, ToolContext
    from ferrule.core.errors import Stopped
    from ferrule.core.events import CallEvent
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime


class Calling:
    """Runs the calls of one answer, and shows what happens to them and to the calls that they make in turn."""

    def __init__(
        self,
        calls: Sequence[RawCall],
        runtime: Runtime,
        session: Session,
        parent: ToolContext | None,
        show: Callable[[AgentEvent], None],
    ) -> None:
        self._calls = calls
        self._runtime = runtime
        self._session = session
        self._parent = parent
        self._show = show
        self._watched: set[str] = {call.id for call in calls}
        self._done: dict[str, ToolResult] = {}

    async def run(self) -> list[ToolResult]:
        """A result for each call, in order. When this is cancelled, `interrupted` has the results."""
        with self._watching():
            return await self._runtime.batch(self._calls, session=self._session, parent=self._parent)

    async def refuse(self, why: Stopped) -> list[ToolResult]:
        """Run none of them, on the record."""
        with self._watching():
            return [
                await self._runtime.run_prepared(call, why, session=self._session, parent=self._parent)
                for call in self._calls
            ]

    def interrupted(self, why: str) -> list[ToolResult]:
        """The results of calls that were cancelled: a call that had come to its end keeps its own."""
        ended = {
            call_id: result
            for call_id, result in self._done.items()
            if result.error is None or result.error.kind != ErrorKind.CANCELLED
        }
        return [ended.get(call.id) or cancelled(call, why) for call in self._calls]

    @contextmanager
    def _watching(self) -> Generator[None]:
        for call in self._calls:
            self._show(CallAsked(call, *doing(self._runtime.tools.get(call.name), call)))
        unsubscribe = self._runtime.subscribe(self._hear)
        try:
            yield
        finally:
            unsubscribe()

    def _hear(self, event: CallEvent) -> None:
        if event.call_id in self._watched:
            if isinstance(event, Done):
                self._watched.discard(event.call_id)
                self._done[event.call_id] = event.result
        elif isinstance(event, Pending) and event.parent_id in self._watched:
            self._watched.add(event.call_id)
        else:
            return
        self._show(event)
