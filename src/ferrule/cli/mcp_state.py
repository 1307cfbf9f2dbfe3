"""What the `ferrule mcp` commands share: the servers that are named, found by name, and those that must be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.app.mcp_servers import known_servers, trust_records
from ferrule.cli.options import PlainError, settings_for, warn
from ferrule.cli.words import _, localised
from ferrule.core.nearest import nearest
from ferrule.policy.shown_text import shown_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferrule.app.build import Tools
    from ferrule.app.mcp_servers import KnownServer, KnownServers
    from ferrule.app.settings import Settings
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.mcp_client.servers import RemoteServer, Servers
    from ferrule.mcp_client.trust_records import TrustChange


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
    from ferrule.mcp_client.server_config import places_in
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

    from ferrule.cli.status_line import ServerWaits, StatusLine

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


# What has changed of a workspace's server since the person trusted it: as it was, and as it is.


_MOST = 40


def since_trusted(config: ServerConfig, settings: Settings) -> list[str]:
    """For whoever trusts it: that it is new, that it is as it was, or what changed."""
    if not config.scope:
        return []  # the person's own, which needs nobody's word
    records = trust_records()
    known = records.of(config)
    if known is not None and known.fingerprint == config.fingerprint:
        words = _("{name} is as it was when you trusted it on {day}.")
        return [words.format(name=shown_row(config.name), day=known.day)]
    if known is not None:
        return changed_since_trusted(config)
    if config.fingerprint in settings.trusted_mcp_servers:
        return [_("{name} is as it was when you trusted it.").format(name=shown_row(config.name))]
    if set(settings.trusted_mcp_servers) - records.fingerprints():  # from before there were records
        return [
            _("{name} is new here, or was trusted when nothing was kept to compare it with.").format(
                name=shown_row(config.name)
            )
        ]
    return [_("{name} is new here: you have not trusted it before.").format(name=shown_row(config.name))]


def changed_since_trusted(config: ServerConfig) -> list[str]:
    """Only where it was trusted once, and is another now: when that was, and a line for each change."""
    known = trust_records().of(config) if config.scope else None
    if known is None or known.fingerprint == config.fingerprint:
        return []
    lines = [line for change in known.changes_to(config) for line in _lines(change)]
    if (more := len(lines) - _MOST) > 0:
        lines[_MOST:] = [_("… {n} more lines").format(n=f"{more:,}")]
    words = _("{name} has changed since you trusted it on {day}:")
    return [words.format(name=shown_row(config.name), day=known.day), *(f"  {line}" for line in lines)]


def _lines(change: TrustChange) -> Iterator[str]:
    kind = _kind(change.kind)
    if change.hidden:
        hidden = _("what is not shown of it changed")
        yield f"~ {kind}: {shown_row(change.before or '')} ({hidden})"
        return
    if change.before is not None:
        yield f"- {kind}: {shown_row(change.before)}"
    if change.after is not None:
        yield f"+ {kind}: {shown_row(change.after)}"


def _kind(kind: str) -> str:
    from ferrule.mcp_client.trust_records import ADDRESS, COMMAND, FOLDER, HEADER, OF_YOURS, SIGN_IN, VARIABLE

    words = {
        COMMAND: _("command"),
        ADDRESS: _("address"),
        FOLDER: _("folder"),
        VARIABLE: _("variable"),
        HEADER: _("header"),
        SIGN_IN: _("signing in"),
        OF_YOURS: _("gets of yours"),
    }
    return words[kind]
