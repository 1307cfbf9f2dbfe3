"""Which MCP servers a command is waiting for, and for how long: silence looks like a hang."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ferrule.cli.chatting.text_rows import cut
from ferrule.cli.chatting.visible_text import one_line
from ferrule.cli.words import _

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ferrule.cli.chatting.screen import Screen
    from ferrule.mcp_client.servers import Servers

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
        return {name: one.server.starting_since for name, one in joined.items()}


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{one_line(name)[:_LONGEST_NAME]}`" for name in names]
    if len(shown) <= _MOST_NAMES:
        return ", ".join(shown)
    words = _("{names} and {n} more")  # else they would push the seconds and the way out off the row
    return words.format(names=", ".join(shown[: _MOST_NAMES - 1]), n=len(shown) - _MOST_NAMES + 1)
