"""Tells clients that the tools changed: once for any number of changes that come together."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from mcp.shared.subscriptions import ToolsListChanged

from ferrule.registry.registry import Registry
from ferrule.registry.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.subscriptions import SubscriptionBus

    from ferrule.core.events import RegistryEvent
    from ferrule.mcp_server.definitions import Definitions
    from ferrule.mcp_server.sessions import Sessions
    from ferrule.registry.source import ToolSource

logger = logging.getLogger("ferrule.mcp")

_TOGETHER = 0.05


class ListChanges:
    """Watches a registry while the server runs."""

    def __init__(self, tools: ToolSource, definitions: Definitions, sessions: Sessions, bus: SubscriptionBus) -> None:
        self._registry = _registry_below(tools)
        self._definitions = definitions
        self._sessions = sessions
        self._bus = bus
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._told: list[object] = []

    def watch(self) -> None:
        if self._registry is not None:
            self._loop = asyncio.get_running_loop()
            self._told = list(self._definitions.all())
            self._unsubscribe = self._registry.subscribe(self._note)

    async def end(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait((self._telling,))

    def _note(self, _event: RegistryEvent) -> None:
        if self._loop is not None and not self._loop.is_closed():  # a tool may be registered by any thread
            self._loop.call_soon_threadsafe(self._start_telling)

    def _start_telling(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        revision = -1
        while self._registry is not None and revision != self._registry.revision:
            revision = self._registry.revision
            await asyncio.sleep(_TOGETHER)
        shown = self._definitions.all()
        if shown == self._told:  # what changed is not among the tools that clients see
            return
        self._told = list(shown)
        await self._bus.publish(ToolsListChanged())
        for connection in list(self._sessions.connections):
            try:
                await connection.send_tool_list_changed()
            except Exception:
                logger.exception("A client could not be told that the tools changed")


def _registry_below(tools: ToolSource) -> Registry | None:
    while isinstance(tools, View):
        tools = tools.source
    return tools if isinstance(tools, Registry) else None
