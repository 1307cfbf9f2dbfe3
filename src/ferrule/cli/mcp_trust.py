"""`ferrule mcp trust`: the person's word for a server of the workspace, and for tools that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.app.mcp_servers import mcp_folder, trust_records, trust_server
from ferrule.cli.mcp_state import given_to, must_find, servers_for, since_trusted
from ferrule.cli.options import workspace_option
from ferrule.cli.output import write
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path


@click.command(
    "trust",
    help=_("Let the workspace's server NAME be started with the command it has now, and take its tools as they are."),
    epilog=_("A command that changes afterwards has to be trusted again."),
)
@click.argument("name")
@workspace_option
def command(name: str, workspace: Path) -> None:
    from ferrule.mcp_client.trust_records import Approvals
    from ferrule.policy.shown_text import shown_row

    settings, known = servers_for(workspace)
    found = must_find(known, name)
    config = found.config
    for line in since_trusted(config, settings):
        write(line)
    if not found.trusted:
        trust_server(config)
    elif config.scope:
        trust_records().remember(config)
    Approvals(mcp_folder() / "approved.json").forget(config.identity)
    write(_("{name} may be started: {command}").format(name=name, command=shown_row(config.shown)))
    for line in given_to(config):
        write(line)
