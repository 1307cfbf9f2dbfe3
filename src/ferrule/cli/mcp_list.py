"""`ferrule mcp list`: the servers that are named, where, and which may be started. Starts none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.app.mcp_servers import mcp_folder
from ferrule.cli.mcp_state import changed_since_trusted, given_to, servers_for
from ferrule.cli.options import json_option, workspace_option
from ferrule.cli.output import write, write_json
from ferrule.cli.table import print_table
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.mcp_servers import KnownServer


@click.command("list", help=_("The servers whose tools are used, and the file that names each."))
@json_option
@workspace_option
def command(as_json: bool, workspace: Path) -> None:
    _settings, known = servers_for(workspace)
    if as_json:
        document = [_document(one) for one in known.servers]
        write_json(document)
        return
    if not known.servers:
        click.echo(_("There are no servers. Add one: ferrule mcp add NAME COMMAND …"), err=True)
        return
    rows = [[one.config.name, _state(one), str(one.file or "-"), one.config.shown] for one in known.servers]
    print_table([_("NAME"), _("STATE"), _("SOURCE"), _("COMMAND")], rows)
    waiting = [one.config for one in known.servers if not one.trusted and one.config.enabled]
    if waiting:
        from ferrule.policy.shown_text import shown_argument, shown_row

        write("")
        for config in waiting:
            for line in given_to(config):
                write(f"{shown_row(config.name)}: {line}")
            for line in changed_since_trusted(config):
                write(line)
        write(
            _("A workspace's server would start a program. Look at its command, then: ferrule mcp trust {name}").format(
                name=shown_argument(waiting[0].name)
            )
        )


def _state(one: KnownServer) -> str:
    if not one.config.enabled:
        return _("off")
    if not one.trusted:
        return _("changed, not trusted yet") if changed_since_trusted(one.config) else _("not trusted yet")
    tools = _tools(one)
    if tools is None:
        return _("no answer yet")
    return _("1 tool") if tools == 1 else _("{count} tools").format(count=tools)


def _tools(one: KnownServer) -> int | None:
    """How many tools it had when it was last asked."""
    from ferrule.mcp_client.remote_tool import DefinitionStore

    known = DefinitionStore(mcp_folder() / "definitions").load(one.config)
    return None if known is None else len(known.definitions)


def _document(one: KnownServer) -> dict[str, object]:
    config = one.config
    return {
        "name": config.name,
        "enabled": config.enabled,
        "trusted": one.trusted,
        "file": str(one.file) if one.file else None,
        "command": list(config.command) or None,
        "url": config.shown if config.url else None,
        "env": sorted(config.env),
        "headers": sorted(config.headers),
        "tools": _tools(one) if one.trusted else None,
    }
