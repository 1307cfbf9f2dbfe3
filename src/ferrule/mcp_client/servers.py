"""Every server of a person and a workspace, and their tools in one registry, coming and going while it is used (R8)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ferrule.mcp_client.definitions import DefinitionStore, server_slug, split_name
from ferrule.mcp_client.failures import Failed, changed_meanwhile
from ferrule.mcp_client.ports import Ports
from ferrule.mcp_client.remote_server import RemoteServer
from ferrule.mcp_client.remote_tool import RemoteTool
from ferrule.mcp_client.trust_records import Approvals
from ferrule.registry.registry import NameTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from ferrule.mcp_client.definitions import ToolListing
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.registry.registry import Registry

logger = logging.getLogger("ferrule.mcp")

ORIGIN = "mcp"
_MOST_PROBLEMS = 20


@dataclass(slots=True)
class Joined:
    """A server, its tools that are in the registry by their own names, and what is wrong with it."""

    server: RemoteServer
    tools: dict[str, RemoteTool] = field(default_factory=dict[str, RemoteTool])
    problems: list[str] = field(default_factory=list[str])


class Servers:
    """Servers whose tools are in a registry. Nothing is started before it is needed."""

    def __init__(
        self,
        configs: Iterable[ServerConfig],
        registry: Registry,
        *,
        folders: Sequence[Path],
        data: Path,
        ports: Ports | None = None,
        disabled: Collection[str] = (),
    ) -> None:
        self._registry = registry
        self._disabled = frozenset(disabled)
        self._store = DefinitionStore(data / "definitions")
        self.approvals = Approvals(data / "approved.json")
        self.ports = ports or Ports()
        self.joined: dict[str, Joined] = {}
        for config in configs:
            if not config.enabled:
                continue
            self.joined[config.name] = Joined(
                RemoteServer(
                    config,
                    folders=folders,
                    tokens=data / "tokens",
                    ports=self.ports,
                    on_listing=self._hearing(config.name),
                    before_call=self._check_call(config.name),
                )
            )
            if (known := self._store.load(config)) is not None:
                self._join(config.name, known)
                self.joined[config.name].server.listed = True

    async def start(self, names: Iterable[str] | None = None, *, wait: float | None = None) -> None:
        """Start servers together, all or the named ones, and wait until their tools are known.

        Those that take longer than `wait` join when they are ready; those that fail are noted in their `problem`.
        """
        chosen = [self.joined[name] for name in (self.joined if names is None else names) if name in self.joined]
        starting = [asyncio.ensure_future(self._start(one.server)) for one in chosen]
        if starting:
            await asyncio.wait(starting, timeout=wait)

    async def start_unlisted(self, *, wait: float | None = None) -> None:
        """Start only those whose tools nobody knows yet."""
        await self.start([name for name, one in self.joined.items() if not one.server.listed], wait=wait)

    async def start_for(self, tool: str) -> None:
        """Start the server that a tool would be of, if it is not known yet."""
        parts = split_name(tool)
        if parts is not None and tool not in self._registry:
            await self.start([name for name in self.joined if server_slug(name) == parts[0]])

    async def close(self) -> None:
        """End every server, all at once."""
        await asyncio.gather(*(one.server.close() for one in self.joined.values()), return_exceptions=True)

    def forget(self, config: ServerConfig) -> None:
        """Whatever was kept of a server."""
        self._store.forget(config)
        self.approvals.forget(config.identity)

    async def _start(self, server: RemoteServer) -> None:
        with contextlib.suppress(Failed):  # noted in its `problem`
            await server.start()

    def _hearing(self, name: str) -> Callable[[ToolListing], None]:
        def hear(listing: ToolListing) -> None:
            self._join(name, listing)
            try:
                self._store.save(self.joined[name].server.config, listing.definitions)
            except OSError as error:
                logger.warning("What %s offers could not be kept: %s", name, error)

        return hear

    def _check_call(self, name: str) -> Callable[[RemoteTool], None]:
        """Leave was given for the tool as it was known then; starting its server may have shown that it changed."""

        def check(tool: RemoteTool) -> None:
            now = self.joined[name].tools.get(tool.definition.name)
            if now is None or now.definition.digest != tool.definition.digest:
                raise changed_meanwhile(name, tool.definition.name, gone=now is None)
            self.approvals.first_use(tool)

        return check

    def _join(self, name: str, listing: ToolListing) -> None:
        """Make the registry say what the server says. A tool that is as it was stays the very same."""
        one = self.joined[name]
        one.problems = list(listing.problems)
        offered = {definition.name: definition for definition in listing.definitions}
        for gone in [tool for tool in one.tools if tool not in offered]:
            self._registry.unregister(one.tools.pop(gone).name)
        for own_name, definition in offered.items():
            known = one.tools.get(own_name)
            if known is not None and known.definition.digest == definition.digest:
                continue
            try:
                tool = self._tool(one, definition)
                self._registry.register(tool, replace=known is not None, origin=ORIGIN)
            except NameTaken:
                one.problems.append(f"the tool `{own_name[:100]}` is left out: another tool has its name already")
                continue
            except TypeError as error:  # a definition that no tool can be made of
                one.problems.append(f"the tool `{own_name[:100]}` is left out: {error}")
                continue
            one.tools[own_name] = tool
        if (more := len(one.problems) - _MOST_PROBLEMS) > 0:
            one.problems[_MOST_PROBLEMS:] = [f"{more:,} more things are wrong with its tools"]
        for problem in one.problems:
            logger.warning("MCP server %s: %s", name, problem)

    def _tool(self, one: Joined, definition: Any) -> RemoteTool:
        tool = RemoteTool(one.server.config, definition, one.server)
        if tool.name in self._disabled:
            tool.enabled = False
        return tool
