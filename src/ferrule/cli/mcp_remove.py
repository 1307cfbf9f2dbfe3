"""`ferrule mcp remove`: take a server out of the file that names it, with all that was kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.app.mcp_servers import MCP_JSON, ServerFile, ServerJson, distrust_server, mcp_folder
from ferrule.app.settings import organisation_settings_file
from ferrule.cli.mcp_state import must_find, servers_for
from ferrule.cli.options import PlainError, workspace_option
from ferrule.cli.output import write
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path


@click.command("remove", help=_("Remove the server NAME from the file that names it."))
@click.argument("name")
@workspace_option
def command(name: str, workspace: Path) -> None:
    from ferrule.mcp_client.remote_tool import DefinitionStore
    from ferrule.mcp_client.trust_records import Approvals

    _settings, known = servers_for(workspace)
    found = must_find(known, name)
    if found.file is None or found.file == organisation_settings_file():
        raise PlainError(_("{name} is set for everybody on this machine; you cannot remove it.").format(name=name))
    file = ServerJson(found.file) if found.file.name == MCP_JSON else ServerFile(found.file)
    file.remove(name)
    DefinitionStore(mcp_folder() / "definitions").forget(found.config)
    Approvals(mcp_folder() / "approved.json").forget(found.config.identity)
    if found.config.scope:  # one that comes back under this name has to be trusted anew
        distrust_server(found.config.identity, {found.config.fingerprint})
    write(_("{name} was removed from {file}.").format(name=name, file=found.file))
