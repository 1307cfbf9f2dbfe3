"""`ferrule mcp trust`: the person's word for a server of the workspace, and for tools that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.app.locations import user_settings_file
from ferrule.app.mcp_servers import mcp_folder
from ferrule.app.server_file import ServerFile
from ferrule.cli.mcp_state import given_to, must_find, servers_for
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
    from ferrule.mcp_client.approvals import Approvals

    _settings, known = servers_for(workspace)
    found = must_find(known, name)
    if not found.trusted:
        ServerFile(user_settings_file()).trust(found.config.fingerprint)
    Approvals(mcp_folder() / "approved.json").forget(found.config.identity)
    write(_("{name} may be started: {command}").format(name=name, command=found.config.shown))
    for line in given_to(found.config):
        write(line)
