"""Every server of a user and a workspace, and their tools in one registry, coming and going while it is used (R8).

Nothing is started before it is needed, and what runs servers (`remote_server.py`) is not even imported: a list of
tools is there at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ferrule.mcp_client import bounds
from ferrule.mcp_client.remote_tool import (
    AgreedServer,
    DefinitionStore,
    RemoteTool,
    ToolListing,
    server_slug,
    split_name,
)
from ferrule.registry.registry import NameTakenError, Registry

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.context import ToolContext
    from ferrule.mcp_client.remote_server import RemoteServer
    from ferrule.mcp_client.server_config import Ports, ServerConfig
    from ferrule.mcp_client.trust_records import Approvals

logger = logging.getLogger("ferrule.mcp")

ORIGIN = "mcp"
_MOST_PROBLEMS = 20


@dataclass(slots=True)
class Joined:
    """A server, its tools that are in the registry by their own names, and what is wrong with it."""

    source: ServerConfig | AgreedServer
    make: Callable[[], RemoteServer]
    tools: dict[str, RemoteTool] = field(default_factory=dict[str, RemoteTool])
    problems: list[str] = field(default_factory=list[str])
    listed: bool = False
    """Whether its tools are known."""
    made: RemoteServer | None = None
    """The server once somebody asked for it."""
    closed: bool = False

    @property
    def server(self) -> RemoteServer:
        if self.made is None:
            self.made = self.make()
        return self.made

    async def call(self, tool: RemoteTool, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        if self.closed:
            from ferrule.mcp_client.failures import was_closed

            raise was_closed(self.source.name)
        return await self.server.call(tool, arguments, context)


class Servers:
    """Servers whose tools are in a registry. Nothing is started before it is needed."""

    def __init__(
        self,
        configs: Iterable[ServerConfig],
        registry: Registry,
        *,
        folders: Sequence[Path],
        data: Path,
        agreed: Iterable[AgreedServer] = (),
        ports: Ports | None = None,
    ) -> None:
        self._registry = registry
        self._store = DefinitionStore(data / "definitions")
        self._folders, self._data, self._ports = folders, data, ports
        self.joined: dict[str, Joined] = {}
        for config in configs:
            if not config.enabled:
                continue
            self.joined[config.name] = Joined(config, partial(self._make, config.name, config, self._data / "tokens"))
            if (known := self._store.load(config)) is not None:
                self._join(config.name, known)
        for one in agreed:
            self._join_agreed(one)

    def _join_agreed(self, one: AgreedServer) -> None:
        self.joined[one.name] = Joined(one, partial(self._make, one.name, one.config, one.tokens))
        self._join(one.name, ToolListing(list(one.known), []))
        self.joined[one.name].listed = len(one.known) == len(one.digests)

    @cached_property
    def approvals(self) -> Approvals:
        """The guard against tools that change once they are allowed."""
        from ferrule.mcp_client.trust_records import Approvals

        return Approvals(self._data / "approved.json")

    @cached_property
    def ports(self) -> Ports:
        """Through which servers reach the user and the model."""
        from ferrule.mcp_client.server_config import Ports

        return self._ports or Ports()

    def _make(self, name: str, config: ServerConfig | Callable[[], ServerConfig], tokens: Path) -> RemoteServer:
        from ferrule.mcp_client.remote_server import RemoteServer

        return RemoteServer(
            config,
            folders=self._folders,
            tokens=tokens,
            ports=self.ports,
            on_listing=partial(self._hear, name),
            before_call=partial(self._check_call, name),
        )

    async def start(self, names: Iterable[str] | None = None, *, wait: float | None = None) -> None:
        """Start servers together, all or the named ones, and wait until their tools are known.

        Those that take longer than `wait` join when they are ready; those that fail are noted in their `problem`.
        """
        import asyncio

        chosen = [self.joined[name] for name in (self.joined if names is None else names) if name in self.joined]
        starting = [asyncio.ensure_future(self._start(one.server)) for one in chosen]
        if starting:
            await asyncio.wait(starting, timeout=wait)

    async def start_unlisted(self, *, wait: float | None = None) -> None:
        """Start only those whose tools nobody knows yet."""
        await self.start([name for name, one in self.joined.items() if not one.listed], wait=wait)

    async def start_for(self, tool: str) -> None:
        """Start the server that a tool would be of, if it is not known yet."""
        parts = split_name(tool)
        if parts is not None and tool not in self._registry:
            await self.start([name for name in self.joined if server_slug(name) == parts[0]])

    async def close(self) -> None:
        """End every server, and remove its tools from the registry. Who has kept one can't start its server again."""
        for one in self.joined.values():
            one.closed = True
            self._remove(one)
        await self.stop()

    async def stop(self) -> None:
        """End every server, all at once. The next call of one of its tools starts it again."""
        import asyncio

        running = [one.made for one in self.joined.values() if one.made is not None]
        await asyncio.gather(*(one.close() for one in running), return_exceptions=True)

    async def follow(self, agreed: Iterable[AgreedServer]) -> None:
        """Have these that the user agreed to, and no others. One that was agreed to otherwise ends, with its tools."""
        import asyncio

        wanted = {one.name: one for one in agreed}
        ended: list[RemoteServer] = []
        for name, one in list(self.joined.items()):
            if not isinstance(one.source, AgreedServer):
                wanted.pop(name, None)  # one of the settings has its name
            elif name in wanted and wanted[name].agreement == one.source.agreement:
                del wanted[name]
            else:
                self._remove(one)
                del self.joined[name]
                ended += [one.made] if one.made is not None else []
        for one in wanted.values():
            self._join_agreed(one)
        await asyncio.gather(*(one.close(at_once=True) for one in ended), return_exceptions=True)

    def forget(self, config: ServerConfig) -> None:
        """Whatever was kept of a server."""
        self._store.forget(config)
        self.approvals.forget(config.identity)

    def _remove(self, one: Joined) -> None:
        for tool in one.tools.values():
            self._registry.unregister(tool)
        one.tools.clear()

    async def _start(self, server: RemoteServer) -> None:
        from ferrule.mcp_client.failures import Failed

        with suppress(Failed):  # noted in its `problem`
            await server.start()

    def _hear(self, name: str, listing: ToolListing) -> None:
        if name not in self.joined or self.joined[name].closed:
            return  # it is about to end
        self._join(name, listing)
        if isinstance(source := self.joined[name].source, AgreedServer):
            return  # what was agreed to is kept with the agreement
        try:
            self._store.save(source, listing.definitions)
        except OSError as error:
            logger.warning("What %s offers could not be kept: %s", name, error)

    def _check_call(self, name: str, tool: RemoteTool) -> None:
        """Leave was given for the tool as it was known then; starting its server may have shown that it changed."""
        now = self.joined[name].tools.get(tool.definition.name) if name in self.joined else None
        if now is None or now.definition.digest != tool.definition.digest:
            from ferrule.mcp_client.failures import changed_meanwhile

            raise changed_meanwhile(name, tool.definition.name, gone=now is None)
        self.approvals.first_use(tool)

    def _join(self, name: str, listing: ToolListing) -> None:
        """Make the registry say what the server says. A tool that is as it was stays the very same."""
        one = self.joined[name]
        one.problems = list(listing.problems)
        one.listed = True
        offered = {definition.name: definition for definition in listing.definitions}
        if isinstance(agreed := one.source, AgreedServer):
            for other in [own for own, found in offered.items() if agreed.digests.get(own) != found.digest]:
                del offered[other]
                one.problems.append(f"the tool `{other[:100]}` is left out: it is not as it was agreed to")
        for gone in [tool for tool in one.tools if tool not in offered]:
            self._registry.unregister(one.tools.pop(gone))
        for own_name, definition in offered.items():
            known = one.tools.get(own_name)
            if known is not None and known.definition.digest == definition.digest:
                continue
            try:
                tool = RemoteTool(one.source, definition, one.call)
                self._registry.register(tool, replace=known is not None, origin=ORIGIN)
            except NameTakenError:
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


# The servers of a runtime


async def open_into(
    tools: object,
    servers: Mapping[str, ServerConfig | Mapping[str, Any]],
    *,
    folders: Sequence[Path],
    policy: object,
    ports: Ports | None = None,
    wait: float = bounds.START_SECONDS,
) -> Servers:
    """Start servers and put their tools into a registry; see `ferrule.mcp.open_servers`."""
    from ferrule.mcp_client.remote_server import require_sdk
    from ferrule.policy.decide import RulePolicy
    from ferrule.workspace.data_folder import data_folder

    require_sdk()
    if not isinstance(tools, Registry):
        raise TypeError(
            "MCP servers bring tools of their own: give the Runtime a list of tools or a Registry, no view."
        )
    configs = [_config(name, one) for name, one in servers.items()]
    opened = Servers(configs, tools, folders=folders, data=data_folder() / "mcp", ports=ports)
    if isinstance(policy, RulePolicy):
        policy.doubt_through(opened.approvals)
    try:
        await opened.start(wait=wait)
    except BaseException:
        await opened.close()
        raise
    for name, one in opened.joined.items():
        if one.server.problem or not one.listed:
            why = one.server.problem or f"no answer within {wait:g} s"
            logger.warning("MCP server %s did not start: %s", name, why)
    return opened


def _config(name: str, given: ServerConfig | Mapping[str, Any]) -> ServerConfig:
    from ferrule.mcp_client.server_config import ConfigProblem, ServerConfig, from_json

    if isinstance(given, ServerConfig):
        return given
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - written by hand
        raise TypeError(
            f'mcp_servers: `{name}` must be a table like {{"command": "uvx", "args": [...]}}, not {given!r}.'
        )
    try:
        return from_json(name, dict(given))
    except (ConfigProblem, TypeError, ValueError) as problem:
        raise ValueError(f"mcp_servers: {problem}.") from None
