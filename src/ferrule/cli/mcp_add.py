"""`ferrule mcp add`: a server, by its command or its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ferrule.app.load_settings import SettingsError
from ferrule.app.locations import user_settings_file
from ferrule.app.mcp_servers import MCP_JSON
from ferrule.app.server_file import ServerFile, ServerJson
from ferrule.cli.options import warn, workspace_option
from ferrule.cli.output import write
from ferrule.cli.words import _
from ferrule.core.secrets import is_secret_name

if TYPE_CHECKING:
    from pathlib import Path


_ADDRESS = ("http://", "https://")


class _OptionsBeforeTheCommand(click.Command):
    """Takes options before the server's command alone: whatever comes after it is the server's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_the_command_marked(args))

    def _with_the_command_marked(self, args: list[str]) -> list[str]:
        valued = {name for one in self.params if isinstance(one, click.Option) and not one.is_flag for name in one.opts}
        named = value_follows = False
        for at, given in enumerate(args):
            if value_follows:
                value_follows = False
            elif given == "--":
                break
            elif given.startswith("-") and given != "-":
                value_follows = given in valued
            elif named:
                return args if given.lower().startswith(_ADDRESS) else [*args[:at], "--", *args[at:]]
            else:
                named = True
        return args


@click.command(
    "add",
    cls=_OptionsBeforeTheCommand,
    help=_("Add the server NAME: a COMMAND with its arguments, or the address of one that speaks streamable HTTP."),
    epilog=_("Secrets are best named and not written: --env TOKEN='${MY_TOKEN}', or '${keyring:service/user}'."),
)
@click.option(
    "--env", "-e", multiple=True, metavar="NAME=VALUE", help=_("A variable for the program; may be given again.")
)
@click.option(
    "--header", "-H", multiple=True, metavar="NAME=VALUE", help=_("A header for the address; may be given again.")
)
@click.option("--timeout", type=float, help=_("Seconds that one of its calls may take."))
@click.option("--project", is_flag=True, help=_("In the workspace's .mcp.json instead of your own settings."))
@workspace_option
@click.argument("name")
@click.argument("command_or_url")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    name: str,
    command_or_url: str,
    arguments: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    timeout: float | None,
    project: bool,
    workspace: Path,
) -> None:
    table: dict[str, Any] = {}
    if command_or_url.lower().startswith(_ADDRESS):
        if arguments or env:
            raise click.UsageError(_("An address takes no arguments and no --env; headers go with --header."))
        table["url"] = command_or_url
        if project:
            table["type"] = "http"
        if header:
            table["headers"] = _pairs(header)
    else:
        if header:
            raise click.UsageError(_("A command takes no --header; variables go with --env."))
        table["command"] = command_or_url
        if arguments:
            table["args"] = list(arguments)
        if env:
            table["env"] = _pairs(env)
    if timeout is not None and not project:
        table["timeout"] = timeout
    _check(name, table, timeout)
    file = _add_to_project(name, table, workspace) if project else user_settings_file()
    if not project:
        ServerFile(file).add(name, table)
    words = (
        _("{name} is now in {file}. See what it offers, and sign in if it wants that: ferrule mcp test {name}")
        if "url" in table and "headers" not in table
        else _("{name} is now in {file}. See what it offers: ferrule mcp test {name}")
    )
    write(words.format(name=name, file=file))


def _add_to_project(name: str, table: dict[str, Any], workspace: Path) -> Path:
    """Whoever names a server themselves trusts it."""
    from ferrule.mcp_client.server_config import read_mcp_json

    file = workspace.resolve() / MCP_JSON
    ServerJson(file).add(name, table)
    for config in read_mcp_json(file, scope=str(workspace.resolve())).servers:
        if config.name == name:
            ServerFile(user_settings_file()).trust(config.fingerprint)
    return file


def _check(name: str, table: dict[str, Any], timeout: float | None) -> None:
    from dataclasses import replace

    from ferrule.mcp_client.server_config import ConfigProblem, from_json

    try:
        replace(from_json(name, table), timeout=timeout)
    except ConfigProblem as problem:
        raise SettingsError(f"{problem}.") from None


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise click.UsageError(_("`{given}` is not written as NAME=VALUE.").format(given=name or one))
        if is_secret_name(name) and "${" not in value:
            warn(
                _("{name} is written into the file as it is. Better name a variable: {name}='{place}'").format(
                    name=name, place=f"${{{name.upper().replace('-', '_')}}}"
                )
            )
        pairs[name] = value
    return pairs
