"""`ferrule mcp test`: start a server, sign in where it asks for that, and show what it offers and what it says."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.mcp_servers import mcp_folder
from ferrule.app.settings import added_folders
from ferrule.cli.mcp_state import changed_since_trusted, given_to, must_find, servers_for
from ferrule.cli.options import PlainError, json_option, warn, workspace_option
from ferrule.cli.output import write, write_json
from ferrule.cli.status_line import ServerWaits, StatusLine
from ferrule.cli.table import print_table
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.mcp_client.servers import Joined, Servers


@click.command("test", help=_("Start the server NAME, show what it offers and what it says, and end it."))
@click.argument("name")
@json_option
@workspace_option
def command(name: str, as_json: bool, workspace: Path) -> None:
    from dataclasses import replace

    from ferrule.cli.server_talk.questions import ServerQuestions, TerminalPlace
    from ferrule.mcp_client.servers import Servers
    from ferrule.policy.shown_text import shown_argument, shown_row
    from ferrule.registry.registry import Registry

    workspace = workspace.resolve()
    settings, known = servers_for(workspace)
    found = must_find(known, name)
    if not found.trusted:
        words = _(
            "{name} is not trusted yet. It would start: {command}. If that is right: ferrule mcp trust {typed}"
        ).format(name=name, typed=shown_argument(name), command=shown_row(found.config.shown))
        told = (words, *given_to(found.config), *changed_since_trusted(found.config))
        raise PlainError("\n".join(told))
    line = StatusLine()
    servers = Servers(
        [replace(found.config, enabled=True)],
        Registry(),
        folders=(workspace, *added_folders(settings, workspace)),
        data=mcp_folder(),
        # Also where there is no terminal: then it says what to run at one, and does not wait.
        ports=ServerQuestions(TerminalPlace(line)).ports(signs_in=True),
    )
    logging.getLogger("ferrule.mcp").setLevel(logging.ERROR)  # what is left out is said with the rest
    document = asyncio.run(_test(servers, servers.joined[name], line))
    if as_json:
        write_json(document)
    else:
        _print(document)
    sys.exit(0 if document["problem"] is None else 1)


async def _test(servers: Servers, joined: Joined, line: StatusLine) -> dict[str, Any]:
    server = joined.server
    try:
        async with line.showing(ServerWaits(servers)):
            await servers.start()
        offered = server.offered
        return {
            "name": server.config.name,
            "problem": server.problem or None,
            "server": f"{offered.server} {offered.version}".strip() if offered else None,
            "protocol": offered.protocol if offered else None,
            "tools": [{"name": tool.name, "description": tool.description.short} for tool in joined.tools.values()]
            if offered
            else [],
            "notes": list(joined.problems),
            "log": server.log.text,
        }
    finally:
        await servers.close()


def _print(document: dict[str, Any]) -> None:
    name = document["name"]
    if document["problem"]:
        write(_("The MCP server {name} cannot be used: {why}.").format(name=name, why=document["problem"]), err=True)
    else:
        write(
            _("{name} is {server}, and speaks {protocol}.").format(
                name=name, server=document["server"] or _("a server without a name"), protocol=document["protocol"]
            )
        )
        print_table([_("NAME"), _("DESCRIPTION")], [[one["name"], one["description"]] for one in document["tools"]])
    for note in document["notes"]:
        warn(note)
    if document["log"].strip():
        write(_("It says (standard error):"), err=True)
        for line in document["log"].rstrip().split("\n"):
            write(f"  {line}", err=True)
