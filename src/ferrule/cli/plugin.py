"""`ferrule plugin`: install, judge, use and remove the tools of others."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule._version import __version__
from ferrule.cli.ask import at_a_terminal, confirmed
from ferrule.cli.options import PlainError, json_option, warn, workspace_option
from ferrule.cli.output import cut, print_table, write, write_json
from ferrule.cli.words import _, localised
from ferrule.core.errors import ToolError
from ferrule.plugins.lock import PluginGrants, changing_lock, granted, must_find, read_lock
from ferrule.policy.shown_text import shown_row

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ferrule.mcp_client.remote_tool import Definition
    from ferrule.plugins.install import FoundPlugin, StagedPlugin
    from ferrule.plugins.lock import LockedPlugin


_MOST_OF_DESCRIPTION = 100


@click.group("plugin", help=_("Install, judge, use and remove plugins: the tools of others, each in a box of its own."))
def plugin_command() -> None:
    """Only holds the commands below."""


@contextmanager
def _told() -> Generator[None]:
    """What goes wrong with a plugin, in the user's words."""
    try:
        yield
    except ToolError as error:
        words = (localised(error.message), localised(error.suggestion or ""))
        raise PlainError(" ".join(filter(None, words))) from None


# What the user agrees to


_grant_options = (
    click.option("--host", "hosts", multiple=True, metavar="HOST", help=_("Let it reach this host too. Repeatable.")),
    click.option(
        "--folder",
        "folders",
        multiple=True,
        metavar="FOLDER",
        help=_("Let it read this folder too, or with `:write` at its end change it. Repeatable."),
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME[=PLACE]",
        help=_("Give it this secret: the variable of this name, or what `${…}` names. Repeatable."),
    ),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help=_("Set one of its settings.")),
    click.option(
        "--arg",
        "arguments",
        multiple=True,
        metavar="WORD",
        help=_("Start its server with this argument; `${workspace}` is the workspace. Repeatable."),
    ),
    click.option("--yes", is_flag=True, help=_("Agree to what it asks for, without being asked.")),
)


def _with_grants(command: Any) -> Any:
    for option in reversed(_grant_options):
        command = option(command)
    return command


def _screen(plugin: LockedPlugin, grants: PluginGrants, near: Sequence[str]) -> list[str]:
    """All that a user should know before they agree, on one screen."""
    manifest = plugin.manifest
    lines = [f"{plugin.name} {manifest.version}", *([f"  {shown_row(manifest.summary)}"] if manifest.summary else [])]

    def add(label: str, text: str) -> None:
        lines.append(f"  {label} {shown_row(text)}")

    add(_("Publisher:"), shown_row(manifest.publisher) or _("unnamed"))
    add(_("Proof:"), localised(plugin.proof))
    if plugin.published:
        add(_("Published:"), plugin.published)
    add(_("From:"), shown_row(plugin.source))
    if near:
        add(_("Warning:"), _("its name resembles {names}").format(names=", ".join(near)))
    tools = [f"{one.name} ({one.kind})" for one in manifest.tools]
    unknown = _("not declared; each call asks until you allow the tool")
    add(_("Tools:"), ", ".join(tools) or unknown)
    nothing = _("none")
    add(_("Network:"), ", ".join(grants.hosts) or nothing)
    add(_("Folders:"), ", ".join(grants.folders) or nothing)
    add(_("Secrets:"), ", ".join(one.partition("=")[0] for one in grants.secrets) or nothing)
    if manifest.needs.programs:
        add(_("Programs:"), ", ".join(manifest.needs.programs))
    packages = [f"{one.name} {one.version}" for one in plugin.packages]
    add(_("Packages:"), _summed(packages) or nothing)
    if manifest.runtime == "remote":
        add(_("Address:"), _("{url}: it runs elsewhere and sees what its tools are given").format(url=manifest.url))
    return lines


def _summed(packages: list[str]) -> str:
    shown = ", ".join(packages[:12])
    more = len(packages) - 12
    return shown if more <= 0 else _("{shown} and {more} more").format(shown=shown, more=more)


def _agrees(lines: Sequence[str], question: str, *, yes: bool) -> bool | None:
    """The user's answer; None where nobody can be asked."""
    for line in lines:
        write(line, err=True)
    if yes:
        return True
    return confirmed(question) if at_a_terminal() else None


def _grants_for(
    plugin: LockedPlugin,
    hosts: Sequence[str],
    folders: Sequence[str],
    secrets: Sequence[str],
    before: LockedPlugin | None,
) -> PluginGrants:
    """What it asks for, and what the user adds to it now."""
    from ferrule.process.sandbox.proxy import AllowedHosts, BadHost

    asked = granted(plugin.manifest.needs)
    dropped = {*before.manifest.needs.secrets} - {*asked.secrets} if before is not None else set[str]()
    given = [one for one in plugin.grants.secrets if one.partition("=")[0] not in dropped]
    places = {one.partition("=")[0]: one for one in (*asked.secrets, *given, *secrets)}
    try:
        AllowedHosts(hosts)
    except BadHost as error:
        raise click.UsageError(_("--host: {error}").format(error=error)) from None
    return PluginGrants(
        (*dict.fromkeys((*asked.hosts, *hosts)),),
        (*dict.fromkeys((*asked.folders, *folders)),),
        tuple(places.values()),
    )


def _settings_for(plugin: LockedPlugin, given: Sequence[str]) -> dict[str, str]:
    found = dict(plugin.settings)
    for one in given:
        name, between, value = one.partition("=")
        if "${" in value:
            raise click.UsageError(_("--set {given}: a secret is given with --secret.").format(given=one))
        if not between or name not in plugin.manifest.settings:
            known = ", ".join(plugin.manifest.settings) or _("none")
            raise click.UsageError(
                _("--set {given}: its settings are {known}, each as NAME=VALUE.").format(given=one, known=known)
            )
        found[name] = value
    return found


def _enable(
    plugin: LockedPlugin,
    workspace: Path,
    *,
    hosts: Sequence[str] = (),
    folders: Sequence[str] = (),
    secrets: Sequence[str] = (),
    settings: Sequence[str] = (),
    arguments: Sequence[str] = (),
    yes: bool = False,
    before: LockedPlugin | None = None,
) -> bool | None:
    """Ask, start it once in its box to see its tools, and let it be used; None where nobody can be asked."""
    from ferrule.plugins.isolated import listed_tools, remember_definitions, require_as_declared

    grants = _grants_for(plugin, hosts, folders, secrets, before)
    plugin = replace(
        plugin,
        grants=grants,
        settings=_settings_for(plugin, settings),
        arguments=tuple(arguments) or plugin.arguments,
        enabled=False,
    )
    lines = _screen(plugin, grants, _near(plugin)) if before is None else _differences(before, plugin)
    answer = _agrees(lines, _("Use it? [y/N] "), yes=yes)
    if not answer:
        return answer
    offered = listed_tools(plugin, workspace)
    require_as_declared(plugin, offered)
    if before is not None or {one.name for one in offered} != {one.name for one in plugin.manifest.tools}:
        changed = _tool_lines(before, offered)
        if changed and not _agrees(changed, _("Use these tools? [y/N] "), yes=yes):
            return False
    remember_definitions(plugin, offered)
    today = datetime.now(UTC).date().isoformat()
    digests = {one.name: one.digest for one in offered}
    with changing_lock() as plugins:
        plugins[plugin.name] = replace(plugin, enabled=True, definitions=digests, agreed=today)
    words = _("{name} {version} is enabled. Tools: {tools}")
    tools = _summed([f"mcp__{plugin.name}__{one.name}" for one in offered])
    write(words.format(name=plugin.name, version=plugin.manifest.version, tools=tools))
    return True


def _near(plugin: LockedPlugin) -> list[str]:
    from ferrule.plugins.offers import near_names

    return near_names(plugin.manifest.name, [one.manifest.name for one in read_lock().values()])


def _tool_lines(before: LockedPlugin | None, offered: Sequence[Definition]) -> list[str]:
    """What is new or different in what models read of its tools."""
    from ferrule.plugins.isolated import known_definitions

    known = known_definitions(before) if before is not None else {}
    lines: list[str] = []
    for one in offered:
        was = known.get(one.name)
        if was is not None and was.digest == one.digest:
            continue
        sign = "+" if was is None else "~"
        about = cut(shown_row(one.description.partition("\n")[0]), _MOST_OF_DESCRIPTION)
        lines.append(f"  {sign} {shown_row(one.name)}: {about}")
        if was is not None and was.description != one.description:
            from difflib import unified_diff

            diff = unified_diff(was.description.splitlines(), one.description.splitlines(), lineterm="", n=1)
            lines += [f"      {shown_row(line)}" for line in list(diff)[2:42]]
    now = {one.name for one in offered}
    lines += [f"  - {shown_row(name)}" for name in known if name not in now]
    return [_("Tools:"), *lines] if lines else []


def _differences(before: LockedPlugin, plugin: LockedPlugin) -> list[str]:
    """What an update changes of all that was agreed to."""
    lines = [f"{plugin.name} {before.manifest.version} -> {plugin.manifest.version}"]
    for label, text in _changes(before, plugin):
        lines.append(f"  {label} {text}")
    if plugin.grants.beyond(before.grants):
        lines.append("  " + _("It wants more than you granted before."))
    return lines


def _changes(before: LockedPlugin, plugin: LockedPlugin) -> list[tuple[str, str]]:
    was, now = before.manifest, plugin.manifest
    pairs = [
        (_("Publisher:"), [was.publisher], [now.publisher]),
        (_("Proof:"), [before.proof], [plugin.proof]),
        (_("From:"), [before.source], [plugin.source]),
        (_("Tools:"), [f"{one.name} ({one.kind})" for one in was.tools],
         [f"{one.name} ({one.kind})" for one in now.tools]),
        (_("Network:"), before.grants.hosts, plugin.grants.hosts),
        (_("Folders:"), before.grants.folders, plugin.grants.folders),
        (_("Secrets:"), before.grants.secrets, plugin.grants.secrets),
        (_("Programs:"), was.needs.programs, now.needs.programs),
        (_("Packages:"), [f"{one.name} {one.version}" for one in before.packages],
         [f"{one.name} {one.version}" for one in plugin.packages]),
    ]  # fmt: skip
    found: list[tuple[str, str]] = []
    for label, old, new in pairs:
        gone = [f"-{one}" for one in old if one not in new]
        came = [f"+{one}" for one in new if one not in old]
        if gone or came:
            found.append((label, _summed([shown_row(one) for one in (*gone, *came)])))
    return found


# Commands


@plugin_command.command(
    "install",
    help=_(
        "Install SOURCE: a name from a market, `pypi:PACKAGE` or `npm:PACKAGE` for an MCP server, or a file (.whl, "
        ".mcpb, server.json). You are shown what it is and what it asks for before any of it runs."
    ),
)
@click.option("--market", help=_("The market to take it from, where several have it."))
@click.option("--no-enable", is_flag=True, help=_("Only install it. Enable it later: ferrule plugin enable NAME"))
@_with_grants
@workspace_option
@click.argument("source")
def install_command(source: str, market: str | None, no_enable: bool, workspace: Path, **given: Any) -> None:
    from ferrule.plugins.install import fetched

    with _told(), _found(source, market) as found, fetched(found) as staged:
        _put_to_use(staged, workspace, no_enable=no_enable, **given)


def _put_to_use(staged: StagedPlugin, workspace: Path, *, no_enable: bool, **given: Any) -> None:
    plugin = staged.put()
    before = staged.before
    try:
        agreed = None if no_enable else _enable(plugin, workspace.resolve(), before=before, **given)
    except BaseException:
        staged.take_back()
        raise
    if agreed is False:
        staged.take_back()
        raise PlainError(_("{name} was not installed.").format(name=plugin.name))
    if agreed is None and before is not None and not no_enable:
        staged.take_back()
        raise PlainError(
            _("There is no terminal to ask at, so {name} stays at {version}. To agree beforehand, add --yes.").format(
                name=plugin.name, version=before.manifest.version
            )
        )
    if agreed is None:
        words = _("{name} {version} is installed and disabled. To use it: ferrule plugin enable {name}")
        write(words.format(name=plugin.name, version=plugin.manifest.version))


@contextmanager
def _found(source: str, market: str | None) -> Generator[FoundPlugin]:
    """What is to be installed, with its file downloaded for as long as the block runs."""
    from ferrule.plugins.install import find_local, find_offered

    found = None if market else find_local(source)
    if found is not None:
        yield found
        return
    with find_offered(source, market, warn) as offered:
        yield offered


@plugin_command.command("enable", help=_("Look at what the plugin NAME is and asks for, and let it be used."))
@_with_grants
@workspace_option
@click.argument("name")
def enable_command(name: str, workspace: Path, **given: Any) -> None:
    with _told():
        plugin = must_find(read_lock(), name)
        agreed = _enable(plugin, workspace.resolve(), **given)
    if agreed is None:
        raise PlainError(
            _("There is no terminal to ask at, so {name} stays disabled. To agree, add --yes.").format(name=name)
        )
    if not agreed:
        raise PlainError(_("{name} stays disabled.").format(name=name))


@plugin_command.command("disable", help=_("Do not use the plugin NAME any more; it stays installed."))
@click.argument("name")
def disable_command(name: str) -> None:
    with _told(), changing_lock() as plugins:
        plugins[name] = replace(must_find(plugins, name), enabled=False)
    write(_("{name} is disabled.").format(name=name))


@plugin_command.command("list", help=_("List the installed plugins."))
@json_option
def list_command(as_json: bool) -> None:
    with _told():
        plugins = list(read_lock().values())
    if as_json:
        write_json([_document(one) for one in plugins])
    elif not plugins:
        click.echo(_("There are no plugins. Find some: ferrule market search"), err=True)
    else:
        rows = [
            [one.name, one.manifest.version, _("enabled") if one.enabled else _("disabled"),
             str(len(one.definitions or one.manifest.tools)), one.manifest.summary]
            for one in plugins
        ]  # fmt: skip
        print_table([_("NAME"), _("VERSION"), _("STATE"), _("TOOLS"), _("SUMMARY")], rows)


@plugin_command.command("show", help=_("Show what the plugin NAME is, what it was granted, and how it is used."))
@json_option
@click.argument("name")
def show_command(name: str, as_json: bool) -> None:
    with _told():
        plugin = must_find(read_lock(), name)
    used = _usage(plugin)
    if as_json:
        write_json({**_document(plugin), "usage": used})
        return
    for line in _screen(plugin, plugin.grants, []):
        write(line)
    state = _("enabled, agreed to on {day}").format(day=plugin.agreed) if plugin.enabled else _("disabled")
    write(f"  {_('State:')} {state}")
    for tool, count, failed in used:
        write(
            "  "
            + _("{tool}: called {count} times, failed {failed} times").format(tool=tool, count=count, failed=failed)
        )


def _usage(plugin: LockedPlugin) -> list[tuple[str, int, int]]:
    """How often each of its tools was called, from the audit log."""
    from ferrule.app.settings import audit_path, load_settings
    from ferrule.records.statistics import statistics_of

    log = audit_path(load_settings(Path()).settings)
    if not log.exists():
        return []
    prefix = f"mcp__{plugin.name}__"
    return [(one.tool, one.count, one.failure) for one in statistics_of(log) if one.tool.startswith(prefix)]


def _document(plugin: LockedPlugin) -> dict[str, Any]:
    from pydantic import TypeAdapter

    from ferrule.plugins.lock import LockedPlugin

    return {"name": plugin.name, **TypeAdapter(LockedPlugin).dump_python(plugin, mode="json")}


@plugin_command.command("update", help=_("Bring the plugin NAME, or all, to the newest version, once you have agreed."))
@_with_grants
@workspace_option
@click.argument("name", required=False)
def update_command(name: str | None, workspace: Path, **given: Any) -> None:
    from ferrule.plugins.install import fetched, newest_source

    with _told():
        plugins = read_lock()
        chosen = [must_find(plugins, name)] if name else list(plugins.values())
        for plugin in chosen:
            source, market = newest_source(plugin)
            with _found(source, market) as found, fetched(found) as staged:
                same = staged.plugin.tree == plugin.tree and staged.plugin.manifest == plugin.manifest
                if same:
                    write(
                        _("{name} {version} is the newest.").format(name=plugin.name, version=plugin.manifest.version)
                    )
                else:
                    _put_to_use(staged, workspace, no_enable=not plugin.enabled, **given)


@plugin_command.command("remove", help=_("Remove the plugin NAME and everything that belongs to it."))
@click.argument("name")
def remove_command(name: str) -> None:
    from ferrule.plugins.install import remove
    from ferrule.plugins.isolated import forget

    with _told():
        plugin = must_find(read_lock(), name)
        forget(plugin)
        remove(plugin)
    write(_("{name} was removed.").format(name=name))


@plugin_command.command("verify", help=_("Check that the installed files of NAME, or of all, are what was locked."))
@click.argument("name", required=False)
def verify_command(name: str | None) -> None:
    from ferrule.plugins.installed_files import is_intact

    with _told():
        plugins = read_lock()
        chosen = [must_find(plugins, name)] if name else list(plugins.values())
    wrong = 0
    for plugin in chosen:
        fine = is_intact(plugin)
        wrong += not fine
        words = (
            _("{name} {version}: as it was installed")
            if fine
            else _("{name} {version}: its files were changed. Install it again: ferrule plugin install {source}")
        )
        write(words.format(name=plugin.name, version=plugin.manifest.version, source=plugin.again))
    if wrong:
        sys.exit(1)


@plugin_command.command("new", help=_("Begin a plugin in the new folder NAME, with a tool and a test that passes."))
@click.argument("name")
def new_command(name: str) -> None:
    from ferrule.plugins.new_plugin import make_plugin

    with _told():
        made = make_plugin(Path(name), Path(name).name, __version__)
    for file in made:
        write(str(file))


@plugin_command.command("check", help=_("Check the plugin in FOLDER before you publish it."))
@click.argument("folder", type=click.Path(path_type=Path), default=".")
def check_command(folder: Path) -> None:
    from ferrule.plugins.new_plugin import check_plugin

    with _told():
        manifest, findings = check_plugin(folder)
    for finding in findings:
        write(f"- {localised(finding)}")
    if findings:
        sys.exit(1)
    words = _("{name} {version} can be published. Tools: {tools}")
    tools = _summed([one.name for one in manifest.tools])
    write(words.format(name=manifest.name, version=manifest.version, tools=tools))
