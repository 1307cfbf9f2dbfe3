"""`ferrule mcp untrust`: the person takes back their word for a server of the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.app.mcp_servers import distrust_server, known_servers
from ferrule.app.settings import is_trusted, load_settings
from ferrule.cli.mcp_state import must_find, servers_for
from ferrule.cli.options import PlainError, warn, workspace_option
from ferrule.cli.output import write
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path


@click.command(
    "untrust",
    help=_("Do not let the workspace's server NAME be started any more, as it is now or as it was before."),
)
@click.argument("name")
@workspace_option
def command(name: str, workspace: Path) -> None:
    from ferrule.mcp_client.server_config import identity_of
    from ferrule.policy.shown_text import shown_argument, shown_row

    workspace = workspace.resolve()
    _settings, known = servers_for(workspace)
    found = known.find(name)
    if found is not None and not found.config.scope:
        words = _("{name} is your own server and needs nobody's word. To be rid of it: ferrule mcp remove {typed}")
        raise PlainError(words.format(name=shown_row(name), typed=shown_argument(name)))
    fingerprints = {found.config.fingerprint} if found is not None else set[str]()
    if not distrust_server(identity_of(name, str(workspace)), fingerprints):
        must_find(known, name)
        write(_("{name} was not trusted.").format(name=shown_row(name)))
    elif found is None:
        write(_("{name} is not there any more, and not trusted any more.").format(name=shown_row(name)))
    else:
        words = _("{name} is not started any more, until: ferrule mcp trust {typed}")
        write(words.format(name=shown_row(name), typed=shown_argument(name)))
    _say_if_it_still_starts(name, workspace)


def _say_if_it_still_starts(name: str, workspace: Path) -> None:
    settings = load_settings(workspace).settings
    still = known_servers(settings, workspace).find(name)
    if still is None or not still.trusted:
        return
    if is_trusted(workspace, settings.trusted_folders):
        warn(_("It may still be started, because this folder is in your `trusted_folders`."))
    else:
        warn(_("It may still be started, because your organisation trusts it."))
