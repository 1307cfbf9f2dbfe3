"""`ferrule mcp`: other servers' tools for us, and with `serve` ours for other agents."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ferrule.cli.group import DefaultGroup, LazyGroup
from ferrule.cli.options import (
    PlainError,
    code_option,
    permission_options,
    recorded_code,
    report_broken,
    sandbox_options,
    settings_for,
    warn,
    warn_of_freedom,
    workspace_option,
)
from ferrule.cli.output import write
from ferrule.cli.words import _, said_of
from ferrule.core.errors import MissingExtraError
from ferrule.core.nearest import is_named

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.build import App
    from ferrule.mcp_server.opening import Lines, Opened
    from ferrule.mcp_server.server import McpServer


COMMANDS = {
    "add": ("mcp_servers", "Add a server."),
    "list": ("mcp_servers", "List the servers whose tools are used."),
    "remove": ("mcp_servers", "Remove a server."),
    "serve": ("mcp", "Serve the tools to an MCP client."),
    "test": ("mcp_servers", "Start a server and show what it offers."),
    "trust": ("mcp_servers", "Trust a workspace's server and its current tools."),
    "untrust": ("mcp_servers", "Stop trusting a workspace's server."),
}


class McpGroup(DefaultGroup, LazyGroup):
    default = "serve"


mcp_command = McpGroup(
    COMMANDS,
    name="mcp",
    help=_(
        "Use the tools of MCP servers, or serve yours to other agents: `ferrule mcp` by itself serves on standard "
        "input and output."
    ),
)


_NEEDED = ("mcp", "mcp_types", "jsonschema_rs")
TOKEN_VARIABLE = "FERRULE_MCP_TOKEN"  # noqa: S105 - the name of a variable


@click.command(
    "serve",
    help=_("Serve the tools to an MCP client: on standard input and output, or with --http over the network."),
    epilog=_("Calls that need approval ask through the client if it can show a form; otherwise they are refused."),
)
@workspace_option
@permission_options
@sandbox_options
@code_option
@click.option("--tools", multiple=True, metavar="NAMES", help=_("Serve only these tools; a name may contain `*`."))
@click.option("--search", is_flag=True, help=_("Of many tools, show the built-in ones and one that finds the others."))
@click.option(
    "--http",
    is_flag=False,
    flag_value="127.0.0.1:8765",
    metavar="[HOST:PORT]",
    help=_("Serve over HTTP; on 127.0.0.1:8765 by default."),
)
@click.option(
    "--token-variable",
    default=TOKEN_VARIABLE,
    show_default=True,
    metavar="NAME",
    help=_("The environment variable with the bearer token that HTTP clients must send."),
)
def serve_command(workspace: Path, tools: tuple[str, ...], search: bool, http: str | None, token_variable: str) -> None:
    from ferrule.app.assistant import tool_search
    from ferrule.app.build import App
    from ferrule.mcp_server.opening import claim_stdio, until_ended

    if any(find_spec(needed) is None for needed in _NEEDED):  # importing them now would keep the client waiting
        raise MissingExtraError(_("Serving MCP"), "mcp")
    token = os.environ.pop(token_variable, None)  # no plugin and no command that a client runs may see it
    given = click.get_current_context().get_parameter_source("token_variable")
    if http is not None and not token and (token is not None or given is ParameterSource.COMMANDLINE):
        raise click.UsageError(_("The variable {name} holds no token.").format(name=token_variable))
    if http is None and os.isatty(0):
        words = _("Serving MCP on this terminal, where an agent would write; Ctrl-C ends it. More: ferrule mcp --help")
        write(words, err=True)
    taken = claim_stdio() if http is None else None  # before a plugin is imported that might print
    settings = settings_for(workspace).settings
    warn_of_freedom(settings)
    try:
        app = App(settings, workspace.resolve())
    except (ValueError, OSError) as error:
        raise PlainError(said_of(error)) from None
    _choose(app, tools)
    if search and (wanted := tool_search(settings)) is not None:
        app.runtime.tools = app.runtime.with_search(wanted).tools
    try:
        if taken is not None:
            asyncio.run(until_ended(_serve_stdio(app, *taken)))
        elif http is not None:
            asyncio.run(_serve_http(app, http, token or None))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _NEEDED:
            raise
        raise MissingExtraError(_("Serving MCP"), "mcp") from None
    sys.exit(recorded_code(app, 0))


def _choose(app: App, names: tuple[str, ...]) -> None:
    """Show the tools that were named, and in mode plan only those that read."""
    from ferrule.app.build import shown_to_models

    shown = app.tools.registry.for_mode(app.settings.permissions.mode)
    wanted = [one.strip() for listed in names for one in listed.split(",") if one.strip()]
    if wanted:
        app.tools.unknown("--tools", wanted)  # raises for one that is misspelt
        missing = [one for one in wanted if not any(is_named(name, [one]) for name in shown.names())]
        if missing:
            listed = ", ".join(f"`{one}`" for one in missing)
            warn(_("No tool is called {names}; `ferrule tools` lists them.").format(names=listed))
        shown = shown.filtered(lambda tool: is_named(tool.name, wanted) or hasattr(tool, "within"))
    app.runtime.tools = shown_to_models(app.settings, shown)


def _server(app: App) -> McpServer:
    from ferrule.app.settings import LimitSettings
    from ferrule.cli.mcp_servers import say_problems
    from ferrule.mcp_server.server import McpServer
    from ferrule.mcp_server.shown_tools import RESULT_CHARS

    report_broken(app.tools)
    for note in app.notes:
        warn(note)
    if app.tools.servers is not None:
        say_problems(app.tools.servers)
    said = app.settings.limits.result_chars
    return McpServer(app.runtime, result_chars=RESULT_CHARS if said == LimitSettings().result_chars else said)


async def _serve_stdio(app: App, reading: int, writing: int) -> None:
    from ferrule.mcp_server.opening import serve_promptly
    from ferrule.mcp_server.shown_tools import Definitions

    servers = app.tools.servers
    unlisted = servers is not None and any(not one.listed for one in servers.joined.values())

    async def serve(lines: Lines, opened: Opened) -> None:
        from ferrule.mcp_server.stdio import serve_lines

        await serve_lines(_server(app), lines, opened)

    await serve_promptly(Definitions(app.runtime.usable_tools()), app, serve, reading, writing, sdk_first=unlisted)


async def _serve_http(app: App, where: str, token: str | None) -> None:
    from ferrule.app.listening import CannotListen
    from ferrule.mcp_server.http import BadAddress, ListenAddress, check_token, new_token, serve_http

    try:
        address = ListenAddress.parse(where)
        if token is not None:
            check_token(token)
    except BadAddress as error:
        raise click.UsageError(said_of(error)) from None
    if token is None and not address.is_local:
        token = new_token()
        write(_("Clients must send this token, which is not shown again: {token}").format(token=token), err=True)

    def listening(port: int) -> None:
        place = ListenAddress(address.host, port).url
        write(_("Serving MCP on {url} (Ctrl-C ends it)").format(url=place), err=True)
        if token is None:
            variable = TOKEN_VARIABLE
            words = _("Every program on this machine can use it; to require a token, set {variable}.")
            write(words.format(variable=variable), err=True)

    async with app:
        try:
            await serve_http(_server(app), address, token, ready=listening)
        except CannotListen as error:
            raise click.ClickException(str(error)) from None
