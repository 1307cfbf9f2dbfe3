"""`ferrule mcp list`, `test`, `add`, `remove`, `trust` and `untrust`: the servers whose tools are used."""

from __future__ import annotations

import logging
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.mcp_servers import MCP_JSON, distrust_server, known_servers, mcp_folder, trust_records, trust_server
from ferrule.app.server_files import ServerFile, ServerJson
from ferrule.app.settings import (
    SettingsError,
    added_folders,
    is_trusted,
    load_settings,
    organisation_settings_file,
    user_settings_file,
)
from ferrule.cli.options import PlainError, json_option, settings_for, warn, workspace_option
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.words import _, localised
from ferrule.core.nearest import nearest
from ferrule.core.secrets import is_secret_name
from ferrule.core.shown_text import shown_argument, shown_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferrule.app.build import Tools
    from ferrule.app.mcp_servers import KnownServer, KnownServers
    from ferrule.app.settings import Settings
    from ferrule.cli.status_line import StatusLine
    from ferrule.mcp_client.remote_server import RemoteServer
    from ferrule.mcp_client.server_config import ServerConfig
    from ferrule.mcp_client.servers import Joined, Servers
    from ferrule.mcp_client.trust_records import TrustChange


_SECONDS_TO_LIST = 5.0
"""For whoever only wants to see what there is. A call waits for as long as its server may take to start."""


def servers_for(workspace: Path) -> tuple[Settings, KnownServers]:
    """The settings in force and every server they name; what could not be understood is said."""
    settings = settings_for(workspace).settings
    known = known_servers(settings, workspace.resolve())
    for problem in (*known.problems, *known.left_out):
        warn(problem)
    return settings, known


def must_find(known: KnownServers, name: str) -> KnownServer:
    """The server of this name; a name that nobody has ends the command."""
    found = known.find(name)
    if found is None:
        names = [one.config.name for one in known.servers]
        close = nearest(name, names, most=1)
        hint = _("Did you mean `{name}`?").format(name=close[0]) if close else _("`ferrule mcp list` shows them.")
        raise PlainError(_("There is no server `{name}`. {hint}").format(name=name, hint=hint))
    return found


def given_to(config: ServerConfig) -> list[str]:
    """What a person should know besides its command before they let a server start; no values, which may be secret."""
    from ferrule.process.references import places_in

    lines: list[str] = []
    if config.folder:
        lines.append(_("It starts in: {folder}").format(folder=shown_row(str(config.folder))))
    if names := sorted([*config.env, *config.headers]):
        lines.append(_("It receives: {names}").format(names=", ".join(map(shown_row, names))))
    if places := places_in(config.written):
        lines.append(_("It receives your values of: {places}").format(places=", ".join(map(shown_row, places))))
    return lines


def list_servers(tools: Tools) -> None:
    """Ask servers whose tools nobody knows yet, for a few seconds, then end them; say which did not answer."""
    for note in tools.notes:
        warn(note)
    servers = tools.servers
    if servers is None or all(one.listed for one in servers.joined.values()):
        return
    import asyncio  # only where a server must be asked; listing tools should start at once

    from ferrule.cli.status_line import ServerWaits, StatusLine

    async def ask() -> list[str]:
        try:
            async with StatusLine().showing(ServerWaits(servers)):
                await servers.start_unlisted(wait=_SECONDS_TO_LIST)
            return [name for name, one in servers.joined.items() if one.made and one.made.starting]
        finally:
            await servers.stop()

    slow = asyncio.run(ask())
    say_problems(servers)
    words = _(
        "The MCP server {name} had not answered after {seconds} s, so its tools are not shown. "
        "To wait longer: ferrule mcp test {typed}"
    )
    for name in slow:
        warn(words.format(name=shown_row(name), seconds=f"{_SECONDS_TO_LIST:g}", typed=shown_argument(name)))


def say_problems(servers: Servers) -> None:
    """Which servers cannot be used, and why."""
    for line in filter(None, (problem_line(name, one.made) for name, one in servers.joined.items())):
        warn(line)


def problem_line(name: str, server: RemoteServer | None) -> str | None:
    """What to say of a server that cannot be used now; of one that still starts, the tools come when it is ready."""
    if server is None:  # nobody has needed it yet
        return None
    if server.problem:
        return _("The MCP server {name} cannot be used: {why}.").format(name=name, why=localised(server.problem))
    if server.starting:
        return _("The MCP server {name} has not answered yet; its tools come when it does.").format(name=name)
    return None


_MOST = 40


def since_trusted(config: ServerConfig, settings: Settings) -> list[str]:
    """For whoever trusts it: that it is new, that it is as it was, or what changed."""
    if not config.scope:
        return []  # the person's own, which needs nobody's word
    records, name = trust_records(), shown_row(config.name)
    known = records.of(config)
    if known is not None:
        if known.fingerprint != config.fingerprint:
            return changed_since_trusted(config)
        return [_("{name} is as it was when you trusted it on {day}.").format(name=name, day=known.day)]
    if config.fingerprint in settings.trusted_mcp_servers:
        return [_("{name} is as it was when you trusted it.").format(name=name)]
    if set(settings.trusted_mcp_servers) - records.fingerprints():  # from before there were records
        words = _("{name} is new here, or was trusted before there was a record to compare it with.")
        return [words.format(name=name)]
    return [_("{name} is new here: you have not trusted it before.").format(name=name)]


def changed_since_trusted(config: ServerConfig) -> list[str]:
    """Only where it was trusted once, and is another now: when that was, and a line for each change."""
    known = trust_records().of(config) if config.scope else None
    if known is None or known.fingerprint == config.fingerprint:
        return []
    lines = [line for change in known.changes_to(config) for line in _lines(change)]
    if (more := len(lines) - _MOST) > 0:
        lines[_MOST:] = [_("… {n} more lines").format(n=f"{more:,}")]
    words = _("{name} has changed since you trusted it on {day}:")
    return [words.format(name=shown_row(config.name), day=known.day), *(f"  {line}" for line in lines)]


def _lines(change: TrustChange) -> Iterator[str]:
    from ferrule.mcp_client.trust_records import ADDRESS, COMMAND, FOLDER, HEADER, OF_YOURS, SIGN_IN, VARIABLE

    kind = {
        COMMAND: _("command"), ADDRESS: _("address"), FOLDER: _("folder"), VARIABLE: _("variable"),
        HEADER: _("header"), SIGN_IN: _("signing in"), OF_YOURS: _("your values"),
    }[change.kind]  # fmt: skip
    if change.hidden:
        hidden = _("a part that is not shown changed")
        yield f"~ {kind}: {shown_row(change.before or '')} ({hidden})"
        return
    if change.before is not None:
        yield f"- {kind}: {shown_row(change.before)}"
    if change.after is not None:
        yield f"+ {kind}: {shown_row(change.after)}"


@click.command("list", help=_("The servers whose tools are used, and the file that names each."))
@json_option
@workspace_option
def list_command(as_json: bool, workspace: Path) -> None:
    _settings, known = servers_for(workspace)
    if as_json:
        document = [_document(one) for one in known.servers]
        write_json(document)
        return
    if not known.servers:
        click.echo(_("There are no servers. Add one: ferrule mcp add NAME COMMAND …"), err=True)
        return
    rows = [[one.config.name, _state(one), str(one.file or "-"), one.config.shown] for one in known.servers]
    print_table([_("NAME"), _("STATE"), _("SOURCE"), _("COMMAND")], rows)
    waiting = [one.config for one in known.servers if not one.trusted and one.config.enabled]
    if waiting:
        write("")
        for config in waiting:
            for line in given_to(config):
                write(f"{shown_row(config.name)}: {line}")
            for line in changed_since_trusted(config):
                write(line)
        write(
            _("A workspace's server would start a program. Check its command, then: ferrule mcp trust {name}").format(
                name=shown_argument(waiting[0].name)
            )
        )


def _state(one: KnownServer) -> str:
    if not one.config.enabled:
        return _("off")
    if not one.trusted:
        return _("changed, not trusted yet") if changed_since_trusted(one.config) else _("not trusted yet")
    tools = _tools(one)
    if tools is None:
        return _("no answer yet")
    return _("1 tool") if tools == 1 else _("{count} tools").format(count=tools)


def _tools(one: KnownServer) -> int | None:
    """How many tools it had when it was last asked."""
    from ferrule.mcp_client.remote_tool import DefinitionStore

    known = DefinitionStore(mcp_folder() / "definitions").load(one.config)
    return None if known is None else len(known.definitions)


def _document(one: KnownServer) -> dict[str, object]:
    config = one.config
    return {
        "name": config.name,
        "enabled": config.enabled,
        "trusted": one.trusted,
        "file": str(one.file) if one.file else None,
        "command": [str(word) for word in config.command] or None,
        "url": config.shown if config.url else None,
        "env": sorted(config.env),
        "headers": sorted(config.headers),
        "tools": _tools(one) if one.trusted else None,
    }


@click.command("test", help=_("Start the server NAME, show its tools and its messages, and stop it."))
@click.argument("name")
@json_option
@workspace_option
def test_command(name: str, as_json: bool, workspace: Path) -> None:
    import asyncio
    from dataclasses import replace

    from ferrule.cli.server_talk.questions import ServerQuestions, TerminalPlace
    from ferrule.cli.status_line import StatusLine
    from ferrule.mcp_client.servers import Servers
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
    from ferrule.cli.status_line import ServerWaits

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
        write(_("Its standard error:"), err=True)
        for line in document["log"].rstrip().split("\n"):
            write(f"  {line}", err=True)


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
    epilog=_("Refer to secrets instead of writing them out: --env TOKEN='${MY_TOKEN}', or '${keyring:service/user}'."),
)
@click.option("--env", "-e", multiple=True, metavar="NAME=VALUE", help=_("A variable for the program. Repeatable."))
@click.option("--header", "-H", multiple=True, metavar="NAME=VALUE", help=_("A header for the address. Repeatable."))
@click.option("--timeout", type=float, help=_("Seconds that one of its calls may take."))
@click.option("--project", is_flag=True, help=_("In the workspace's .mcp.json instead of your own settings."))
@workspace_option
@click.argument("name")
@click.argument("command_or_url")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def add_command(
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
                _("`{given}` is not a web address; it must start with http:// or https://.").format(
                    given=command_or_url
                )
            )
        table["command"] = command_or_url
        if arguments:
            _warn_of_our_options(arguments, command_or_url)
            table["args"] = list(arguments)
        if env:
            table["env"] = _pairs(env)
    if timeout is not None and project:
        raise click.UsageError(_("`.mcp.json` cannot store a time limit; use either --project or --timeout."))
    if timeout is not None:
        table["timeout"] = timeout
    _check(name, table, timeout)
    file = workspace.resolve() / MCP_JSON if project else user_settings_file()
    replaced = _add_to_project(name, table, workspace) if project else ServerFile(file).add(name, table)
    if replaced:
        warn(_("{name} existed already and was replaced.").format(name=name))
    from ferrule.mcp_client.remote_tool import server_slug

    if server_slug(name) != name:
        words = _("Its tools are named with {slug}: mcp__{slug}__…")
        write(words.format(slug=server_slug(name)), err=True)
    words = (
        _("{name} is now in {file}. See what it offers, and sign in if it asks you to: ferrule mcp test {name}")
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
            words = _(
                "{option} comes after the command, so it is passed to {program}. Put Ferrule's options before the name."
            )
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
            raise click.UsageError(_("`{given}` is not in the form NAME=VALUE.").format(given=name or one))
        if is_secret_name(name) and "${" not in value:
            warn(
                _("{name} is stored in the file as plain text. Better refer to a variable: {name}='{place}'").format(
                    name=name, place=f"${{{name.upper().replace('-', '_')}}}"
                )
            )
        pairs[name] = value
    return pairs


@click.command("remove", help=_("Remove the server NAME from the file that names it."))
@click.argument("name")
@workspace_option
def remove_command(name: str, workspace: Path) -> None:
    from ferrule.mcp_client.remote_tool import DefinitionStore
    from ferrule.mcp_client.trust_records import Approvals

    _settings, known = servers_for(workspace)
    found = must_find(known, name)
    if found.file is None or found.file == organisation_settings_file():
        raise PlainError(_("{name} is set for everyone on this machine; you cannot remove it.").format(name=name))
    file = ServerJson(found.file) if found.file.name == MCP_JSON else ServerFile(found.file)
    file.remove(name)
    DefinitionStore(mcp_folder() / "definitions").forget(found.config)
    Approvals(mcp_folder() / "approved.json").forget(found.config.identity)
    if found.config.scope:  # one that comes back under this name has to be trusted anew
        distrust_server(found.config.identity, {found.config.fingerprint})
    write(_("{name} was removed from {file}.").format(name=name, file=found.file))


@click.command(
    "trust",
    help=_("Trust the workspace's server NAME with its current command and tools."),
    epilog=_("If its command changes, it must be trusted again."),
)
@click.argument("name")
@workspace_option
def trust_command(name: str, workspace: Path) -> None:
    from ferrule.mcp_client.trust_records import Approvals

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


@click.command("untrust", help=_("Stop trusting the workspace's server NAME, as it is now and as it was before."))
@click.argument("name")
@workspace_option
def untrust_command(name: str, workspace: Path) -> None:
    from ferrule.mcp_client.server_config import identity_of

    workspace = workspace.resolve()
    _settings, known = servers_for(workspace)
    found = known.find(name)
    if found is not None and not found.config.scope:
        words = _("{name} is your own server and needs no trust. To remove it: ferrule mcp remove {typed}")
        raise PlainError(words.format(name=shown_row(name), typed=shown_argument(name)))
    fingerprints = {found.config.fingerprint} if found is not None else set[str]()
    if not distrust_server(identity_of(name, str(workspace)), fingerprints):
        must_find(known, name)
        write(_("{name} was not trusted.").format(name=shown_row(name)))
    elif found is None:
        write(_("{name} no longer exists, and is no longer trusted.").format(name=shown_row(name)))
    else:
        words = _("{name} will not be started again, until: ferrule mcp trust {typed}")
        write(words.format(name=shown_row(name), typed=shown_argument(name)))
    settings = load_settings(workspace).settings
    still = known_servers(settings, workspace).find(name)
    if still is None or not still.trusted:
        return
    if is_trusted(workspace, settings.trusted_folders):
        warn(_("It may still be started, because this folder is in your `trusted_folders`."))
    else:
        warn(_("It may still be started, because your organisation trusts it."))
