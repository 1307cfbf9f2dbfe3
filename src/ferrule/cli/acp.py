"""`ferrule acp`: the assistant in an editor that speaks the Agent Client Protocol, such as Zed, JetBrains or Neovim."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ferrule.cli.completion import complete_models
from ferrule.cli.options import permission_options, sandbox_options, settings_for, warn, warn_of_freedom
from ferrule.cli.output import write
from ferrule.cli.words import _, localised
from ferrule.core.errors import MissingExtraError
from ferrule.core.loops import on_signal

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.settings import Settings


@click.command(
    "acp",
    help=_("Serve the assistant to an editor on standard input and output, by the Agent Client Protocol."),
    epilog=_("The editor starts this command and names the folder. Calls that need approval ask in the editor."),
)
@click.option(
    "--model", default="", metavar="NAME", help=_("The model, as provider/name."), shell_complete=complete_models
)
@permission_options
@sandbox_options
def acp_command(model: str) -> None:
    from ferrule.mcp_server.opening import claim_stdio

    if find_spec("acp") is None:
        raise MissingExtraError("`ferrule acp`", "acp")
    if os.isatty(0):
        words = _("Serving ACP on this terminal, where an editor would write; Ctrl-C ends it. More: ferrule acp --help")
        write(words, err=True)
    asyncio.run(_serve(model, *claim_stdio()))


async def _serve(model: str, reading: int, writing: int) -> None:
    from ferrule.acp_server.agent_side import EditorAgent, serve_editor
    from ferrule.cli.chatting.commands import modes
    from ferrule.mcp_server.opening import connected

    agent = EditorAgent(_settings, model=model, modes=modes(), say=localised, warn=warn)
    async with connected(reading, writing) as lines:
        serving = asyncio.ensure_future(serve_editor(lines, agent))
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            on_signal(name, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving


def _settings(folder: Path) -> Settings:
    settings = settings_for(folder).settings
    warn_of_freedom(settings)
    return settings
