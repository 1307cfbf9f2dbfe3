"""`ferrule mcp`: other servers' tools for us, and ours for other agents. Each command is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ferrule.cli.group import LazyGroup
from ferrule.cli.words import _

if TYPE_CHECKING:
    import click

_COMMANDS = {
    "add": "Add a server whose tools are to be used.",
    "list": "List the servers whose tools are used.",
    "remove": "Remove a server.",
    "serve": "Serve the tools to an MCP client.",
    "test": "Start a server and show what it offers.",
    "trust": "Let a workspace's server start, and take its tools as they are.",
    "untrust": "Do not let a workspace's server start any more.",
}


class McpGroup(LazyGroup):
    """Its commands lie in `ferrule.cli.mcp_…`; without the name of one, `serve` is meant."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return import_module(f"ferrule.cli.mcp_{cmd_name}").command if cmd_name in _COMMANDS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


command = McpGroup(
    _COMMANDS,
    name="mcp",
    help=_(
        "Use the tools of MCP servers, and be one for other agents: `ferrule mcp` alone serves on standard input and "
        "output."
    ),
)
