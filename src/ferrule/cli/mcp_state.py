"""What the `ferrule mcp` commands share: the servers that are named, found by name, and those that must be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.app.mcp_servers import known_servers
from ferrule.cli.options import settings_for, warn
from ferrule.cli.plain_error import PlainError
from ferrule.cli.words import _, localised
from ferrule.core.nearest import nearest

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.find_tools import Tools
    from ferrule.app.mcp_servers import KnownServer, KnownServers
    from ferrule.app.settings import Settings
    from ferrule.mcp_client.remote_server import RemoteServer
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.mcp_client.servers import Servers


_SECONDS_TO_LIST = 5.0
"""For whoever only wants to see what there is. A call waits for as long as its server may take to start."""


def servers_for(workspace: Path) -> tuple[Settings, KnownServers]:
    """The settings in force and every server they name; what could not be understood is said."""
    settings = settings_for(workspace).settings
    known = known_servers(settings, workspace.resolve())
    for problem in (*known.problems, *known.left_out):
        warn(problem)
    return settings, known


def must_find(known: KnownServers, name: str) -> KnownServer:
    """The server of this name; a name that nobody has ends the command."""
    found = known.find(name)
    if found is None:
        names = [one.config.name for one in known.servers]
        close = nearest(name, names, most=1)
        hint = _("Did you mean `{name}`?").format(name=close[0]) if close else _("`ferrule mcp list` shows them.")
        raise PlainError(_("There is no server `{name}`. {hint}").format(name=name, hint=hint))
    return found


def given_to(config: ServerConfig) -> list[str]:
    """What a person should know besides its command before they let a server start; no values, which may be secret."""
    from ferrule.mcp_client.variables import places_in
    from ferrule.policy.shown_text import shown_row

    lines: list[str] = []
    if config.folder:
        lines.append(_("It starts in: {folder}").format(folder=shown_row(config.folder)))
    if names := sorted([*config.env, *config.headers]):
        lines.append(_("It is given: {names}").format(names=", ".join(map(shown_row, names))))
    if places := places_in(config.written):
        lines.append(_("It gets of yours: {places}").format(places=", ".join(map(shown_row, places))))
    return lines


def list_servers(tools: Tools) -> None:
    """Ask servers whose tools nobody knows yet, for a few seconds, then end them; say which did not answer."""
    for note in tools.notes:
        warn(note)
    servers = tools.servers
    if servers is None or all(one.server.listed for one in servers.joined.values()):
        return
    import asyncio  # only where a server must be asked; listing tools should start at once

    from ferrule.cli.server_waits import ServerWaits
    from ferrule.cli.status_line import StatusLine

    async def ask() -> list[str]:
        try:
            async with StatusLine().showing(ServerWaits(servers)):
                await servers.start_unlisted(wait=_SECONDS_TO_LIST)
            return [name for name, one in servers.joined.items() if one.server.starting]
        finally:
            await servers.close()

    slow = asyncio.run(ask())
    say_problems(servers)
    _say_slow(slow)


def _say_slow(names: list[str]) -> None:
    from ferrule.policy.shown_text import shown_argument, shown_row

    for name in names:
        words = _(
            "The MCP server {name} had not answered after {seconds} s, so its tools are not shown. "
            "To give it all its time: ferrule mcp test {typed}"
        )
        warn(words.format(name=shown_row(name), seconds=f"{_SECONDS_TO_LIST:g}", typed=shown_argument(name)))


def say_problems(servers: Servers) -> None:
    """Which servers cannot be used, and why."""
    for line in filter(None, (problem_line(name, one.server) for name, one in servers.joined.items())):
        warn(line)


def problem_line(name: str, server: RemoteServer) -> str | None:
    """What to say of a server that cannot be used now; of one that still starts, the tools come when it is ready."""
    if server.problem:
        return _("The MCP server {name} cannot be used: {why}.").format(name=name, why=localised(server.problem))
    if server.starting:
        return _("The MCP server {name} has not answered yet; its tools come when it does.").format(name=name)
    return None
