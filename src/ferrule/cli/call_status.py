"""What `ferrule call` and `ferrule run` show while they wait: how far a call has come and the last lines of what it has
written so far, or which server it waits for.

A call is worded as in `ferrule chat`. One that says nothing of how far it is, and gives nothing before its end, has no
row: its tool may write to the terminal itself.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ferrule.cli.server_waits import ServerWaits
from ferrule.core.events import Done, Partial, Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.agent.agent_events import AgentEvent, CallAsked
    from ferrule.cli.chatting.call_view import CallView
    from ferrule.cli.chatting.screen import Screen
    from ferrule.core.events import CallEvent
    from ferrule.mcp_client.servers import Servers


class CallStatus:
    """Hears the events of calls that were announced with `begin`; those that other calls make are passed over."""

    def __init__(self, servers: Servers | None, now: Callable[[], float] = monotonic) -> None:
        self._waits = ServerWaits(servers, now)
        self._now = now
        self._calls: dict[str, CallView] = {}
        self._latest: CallView | None = None
        self._frame = 0

    def turn_begins(self) -> None:
        """The turn goes on without the servers that have not answered, so none of them is said to be waited for."""
        self._waits.leave()

    def begin(self, asked: CallAsked) -> None:
        from ferrule.cli.chatting.call_view import CallView

        self._calls[asked.call.id] = CallView(asked, self._now())

    def hear(self, event: AgentEvent | CallEvent) -> None:
        if isinstance(event, (Progress, Partial)) and (view := self._calls.get(event.call_id)):
            if isinstance(event, Progress):
                view.progress(event)
            else:
                view.partial(event)
            self._latest = view
        elif isinstance(event, Done) and self._calls.pop(event.call_id, None) is self._latest:
            self._latest = None

    def rows(self, screen: Screen) -> list[str]:
        if self._latest is None:
            return self._waits.rows(screen)
        self._frame += 1
        return self._latest.live_rows(self._now(), self._frame, screen)

    def remark(self) -> str:
        return self._waits.remark()
