"""Plugins and MCP servers, whose tools are in a runtime's registry as long as it is open."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase
from ferrule.core.plugin import Plugin, run_step
from ferrule.registry.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from ferrule.core.tool import Tool
    from ferrule.mcp_client.servers import Servers
    from ferrule.pipeline.authorise import Policy
    from ferrule.registry.registry import ToolSource

logger = logging.getLogger("ferrule.plugins")

_SECONDS_TO_CLEAN_UP = 5.0
_SECONDS_TO_ANSWER = 1.0
"""How long a clean-up waits for a sign of life from the tools' event loop, before it is given up."""


class Additions:
    """What a runtime adds to its registry between `open` and `close`. All views of the runtime share it."""

    def __init__(
        self,
        plugins: Iterable[Plugin | Mapping[str, Any] | str | Path],
        mcp_servers: Mapping[str, Any] | None,
        *,
        own_loop: bool,
    ) -> None:
        if isinstance(plugins, (str, Path, dict, Plugin)):
            raise TypeError(f"Plugins come in a list, also where there is one: write [{plugins!r}].")
        self._plugins = list(plugins)
        self._mcp_servers = dict(mcp_servers or {})
        self._own_loop = own_loop
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._opened = False
        self._absent: dict[str, str] = {}
        """Tools that are not there although something brings them, and why."""

    def why_absent(self, tool: str) -> str:
        """What a caller of a tool that is not in the registry should know; empty where it is simply unknown."""
        if not self._opened and (self._plugins or self._mcp_servers):
            return phrase("The plugins and MCP servers of this Runtime run inside `async with` only; enter it first.")
        return self._absent.get(tool, "")

    async def open(self, tools: ToolSource, *, folders: Sequence[Path], policy: Policy) -> None:
        self._opened = True
        self._absent.clear()
        try:
            if self._plugins:
                await self._add_plugins(tools)
            if self._mcp_servers:
                from ferrule.mcp_client.servers import open_into

                opened = await open_into(tools, self._mcp_servers, folders=folders, policy=policy)
                self._closers.append(partial(self._close_servers, opened))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        while self._closers:
            await self._closers.pop()()

    async def _add_plugins(self, registry: ToolSource) -> None:
        """Load and start them. One that can't start is reported and left out, and the others work (R6)."""
        from ferrule.plugins.discovery import load_plugin

        if not isinstance(registry, Registry):
            raise TypeError(
                "Plugins bring tools of their own: give the Runtime a list of tools or a Registry, no view."
            )
        for one in self._plugins:
            plugin = load_plugin(one)
            held = replace(
                plugin,
                initialise=partial(start_plugin, plugin, own_loop=self._own_loop),
                clean_up=partial(end_plugins, [plugin], own_loop=self._own_loop),
            )
            try:
                await registry.add_plugin(held)
            except Exception as error:  # noqa: BLE001 - one plugin's fault must not take the others along
                why = why_not_started(error)
                plugin.problems.append(why)
                logger.warning("Plugin %s was left out: %s", plugin.name, why)
                self._miss(plugin.tools, phrase("The plugin `{name}` was left out: {why}.", name=plugin.name, why=why))
            else:
                self._closers.append(partial(self._remove_plugin, registry, held))

    async def _remove_plugin(self, registry: Registry, plugin: Plugin) -> None:
        closed = phrase("The plugin `{name}` is closed: the `async with` of its Runtime has ended.", name=plugin.name)
        self._miss(plugin.tools, closed)
        await registry.remove_plugin(plugin.name)

    async def _close_servers(self, servers: Servers) -> None:
        for name, one in servers.joined.items():
            closed = phrase("The MCP server `{name}` is closed: the `async with` of its Runtime has ended.", name=name)
            self._miss(one.tools.values(), closed)
        await servers.close()

    def _miss(self, tools: Iterable[Tool[Any]], why: str) -> None:
        self._absent.update((tool.name, why) for tool in tools)


# Plugins start and end on the event loop that their tools run on: what they open there belongs to it.


async def start_plugin(plugin: Plugin, *, own_loop: bool) -> None:
    """Run a plugin's `initialise`, and raise what it raises."""
    if plugin.initialise is not None:
        await _run(lambda: run_step(plugin.initialise), own_loop=own_loop)


def why_not_started(error: Exception) -> str:
    """What to say of a plugin whose start raised this."""
    return f"it could not start: {type(error).__name__}: {error}"


async def end_plugins(plugins: Iterable[Plugin], *, own_loop: bool) -> None:
    """Run the `clean_up` of each plugin for some seconds at most. One that fails is logged, and the others go on."""
    plugins = [one for one in plugins if one.clean_up is not None]
    if not plugins:
        return
    try:
        await asyncio.wait_for(_run(lambda: run_step(None), own_loop=own_loop), _SECONDS_TO_ANSWER)
    except TimeoutError:
        names = ", ".join(one.name for one in plugins)
        logger.warning("Plugins could not clean up, because a tool blocks the event loop: %s", names)
        return
    for plugin in plugins:
        try:
            work = _run(lambda plugin=plugin: run_step(plugin.clean_up), own_loop=own_loop)
            await asyncio.wait_for(work, _SECONDS_TO_CLEAN_UP)
        except Exception:
            logger.exception("Plugin %s could not clean up", plugin.name)


async def _run(work: Callable[[], Awaitable[None]], *, own_loop: bool) -> None:
    if own_loop:
        from ferrule.pipeline.tool_loops import tool_loops

        await tool_loops.run(work)
    else:
        await work()
