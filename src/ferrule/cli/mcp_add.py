"""`ferrule mcp add`: a server, by its command or its address."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.mcp_servers import MCP_JSON, ServerFile, ServerJson, trust_server
from ferrule.app.settings import SettingsError, user_settings_file
from ferrule.cli.options import warn, workspace_option
from ferrule.cli.output import write
from ferrule.cli.words import _
from ferrule.core.secrets import is_secret_name
from ferrule.mcp_client.remote_tool import server_slug

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
        if "://" in command_or_url:
            raise click.UsageError(
                _("`{given}` is no address of a web server: http:// or https://.").format(given=command_or_url)
            )
        table["command"] = command_or_url
        if arguments:
            _warn_of_our_options(arguments, command_or_url)
            table["args"] = list(arguments)
        if env:
            table["env"] = _pairs(env)
    if timeout is not None and project:
        raise click.UsageError(_("`.mcp.json` has no place for --timeout; leave one of --project and --timeout out."))
    if timeout is not None:
        table["timeout"] = timeout
    _check(name, table, timeout)
    file = workspace.resolve() / MCP_JSON if project else user_settings_file()
    replaced = _add_to_project(name, table, workspace) if project else ServerFile(file).add(name, table)
    if replaced:
        warn(_("{name} was there already, and is replaced.").format(name=name))
    if server_slug(name) != name:
        words = _("In the names of its tools it is called {slug}: mcp__{slug}__…")
        write(words.format(slug=server_slug(name)), err=True)
    words = (
        _("{name} is now in {file}. See what it offers, and sign in if it wants that: ferrule mcp test {name}")
        if "url" in table and "headers" not in table
        else _("{name} is now in {file}. See what it offers: ferrule mcp test {name}")
    )
    write(words.format(name=shlex.quote(name), file=file))


def _warn_of_our_options(arguments: tuple[str, ...], program: str) -> None:
    """Whatever follows the command is its own; but one of ours may have been meant."""
    for given in arguments:
        if given == "--":
            return
        if given.partition("=")[0] in ("--env", "--header", "--project", "--timeout", "--workspace"):
            words = _("{option} comes after the command, so it is an argument of {program}. Ours come before the name.")
            warn(words.format(option=given.partition("=")[0], program=program))


def _add_to_project(name: str, table: dict[str, Any], workspace: Path) -> bool:
    """Whoever names a server themselves trusts it. Whether one of that name was there."""
    from ferrule.mcp_client.server_config import read_mcp_json

    file = workspace.resolve() / MCP_JSON
    replaced = ServerJson(file).add(name, table)
    for config in read_mcp_json(file, scope=str(workspace.resolve())).servers:
        if config.name == name:
            trust_server(config)
    return replaced


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
