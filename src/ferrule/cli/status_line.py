"""A few rows at the end of the terminal that say what is going on now, and are gone when that is over.

It stands on standard error, so that standard output has the result alone. In a pipe there is nothing; on a terminal
that takes no escape codes, or whose person wants none, what is worth a line of its own is said once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from ferrule.cli.chatting.screen import cut
from ferrule.cli.output import clear_before_writing, write
from ferrule.cli.words import _
from ferrule.core.events import Done, PartialOutput, Progress
from ferrule.core.shown_text import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable

    from ferrule.agent.agent_events import AgentEvent, CallAsked
    from ferrule.app.build import Tools
    from ferrule.cli.chatting.call_view import CallView
    from ferrule.cli.chatting.screen import LiveScreen, Screen
    from ferrule.core.events import CallEvent
    from ferrule.mcp_client.servers import Servers


_SECONDS_BETWEEN_LOOKS = 0.1
_ECHO = "^C"
"""What terminals write at the end of the row when the person stops it; a row that wraps could not be taken back."""


class Going(Protocol):
    """What goes on: asked for its words again and again."""

    def rows(self, screen: Screen) -> list[str]:
        """What to show now; none where there is nothing to say."""
        ...

    def remark(self) -> str:
        """What to say once, where no row can be taken back; empty where that was said, or is not worth a line."""
        ...


class StatusLine:
    """The rows. Whoever else writes to the terminal takes them `away` first; `output.write` does so by itself."""

    def __init__(self) -> None:
        stream = sys.stderr
        self._seen = stream is not None and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison] - closed
        self._screen: LiveScreen | None = _live_screen() if self._seen else None
        self._others = 0

    @property
    def live(self) -> bool:
        """Whether rows can be shown and taken back."""
        return self._screen is not None

    @asynccontextmanager
    async def showing(self, going: Going) -> AsyncGenerator[None]:
        """Show what goes on until the block is left, however it is."""
        if not self._seen:
            yield
            return
        looking = asyncio.create_task(self._look_again_and_again(going))
        clear_before_writing(self.clear)
        try:
            yield
        finally:
            looking.cancel()
            clear_before_writing(None)
            self.clear()

    @contextmanager
    def away(self) -> Generator[None]:
        """Nothing is shown while somebody else has the terminal."""
        self._others += 1
        self.clear()
        try:
            yield
        finally:
            self._others -= 1

    def clear(self) -> None:
        """Take the rows away; the next look may bring them back."""
        if self._screen is not None:
            self._screen.show(())

    async def _look_again_and_again(self, going: Going) -> None:
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            if self._others:
                continue
            if self._screen is not None:
                self._screen.show(going.rows(self._screen))
            elif remark := going.remark():
                write(remark, err=True)


def _live_screen() -> LiveScreen | None:
    from ferrule.cli.chatting.screen import LiveScreen, wants_plain, wraps_again

    if wants_plain(sys.stderr, os.environ):
        return None
    return LiveScreen(sys.stderr, wraps_again=wraps_again(os.environ), size=_size)


def _size() -> os.terminal_size:
    """Of the terminal behind standard error: standard output may be a pipe."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        size = shutil.get_terminal_size()
    return os.terminal_size((size.columns - len(_ECHO), size.lines))


_PATIENCE = 1.0
"""Seconds that pass before anybody is told; most servers are there by then."""
_LONGEST_NAME, _MOST_NAMES = 40, 3


class ServerWaits:
    """Servers that are being started just now."""

    def __init__(self, servers: Servers | None, now: Callable[[], float] = monotonic) -> None:
        self._servers = servers
        self._now = now
        self._told: set[str] = set()
        self._left: dict[str, float | None] = {}

    def rows(self, screen: Screen) -> list[str]:
        waiting = self._waiting()
        if not waiting:
            return []
        words = _("Waiting for {names} to start ({seconds} s; Ctrl-C ends it)…")
        shown = words.format(names=_listed(waiting), seconds=f"{max(waiting.values()):.0f}")
        return [screen.paint("faint", cut(shown, screen.width))]

    def remark(self) -> str:
        fresh = [name for name in self._waiting() if name not in self._told]
        self._told.update(fresh)
        return _("Waiting for {names} to start…").format(names=_listed(fresh)) if fresh else ""

    def leave(self) -> None:
        """Nobody waits any more for those that are being started now; a later start of one counts again."""
        self._left = self._starting()

    def _waiting(self) -> dict[str, float]:
        """Those that have been starting for longer than a moment, and for how long."""
        starting = {name: since for name, since in self._starting().items() if self._left.get(name) != since}
        waiting = {name: self._now() - since for name, since in starting.items() if since is not None}
        return {name: seconds for name, seconds in waiting.items() if seconds >= _PATIENCE}

    def _starting(self) -> dict[str, float | None]:
        joined = self._servers.joined if self._servers is not None else {}
        return {name: one.made.starting_since for name, one in joined.items() if one.made is not None}


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{one_line(name, _LONGEST_NAME)}`" for name in names]
    if len(shown) <= _MOST_NAMES:
        return ", ".join(shown)
    words = _("{names} and {n} more")  # else they would push the seconds and the way out off the row
    return words.format(names=", ".join(shown[: _MOST_NAMES - 1]), n=len(shown) - _MOST_NAMES + 1)


class CallStatus:
    """Hears the events of calls that were announced with `begin`; those that other calls make are passed over."""

    def __init__(self, tools: Tools, now: Callable[[], float] = monotonic) -> None:
        self._waits = ServerWaits(tools.servers, now)
        self._tools = tools.registry
        self._now = now
        self._calls: dict[str, CallView] = {}
        self._latest: CallView | None = None
        self._frame = 0

    def turn_begins(self) -> None:
        """The turn goes on without the servers that have not answered, so none of them is said to be waited for."""
        self._waits.leave()

    def begin(self, asked: CallAsked) -> None:
        from ferrule.cli.chatting.call_view import CallView, shows_output

        tool = self._tools.get(asked.call.name)
        self._calls[asked.call.id] = CallView(asked, self._now(), shows_output=shows_output(tool))

    def hear(self, event: AgentEvent | CallEvent) -> None:
        if isinstance(event, (Progress, PartialOutput)) and (view := self._calls.get(event.call_id)):
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
