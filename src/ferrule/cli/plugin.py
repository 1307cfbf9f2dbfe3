"""`ferrule plugin`: install, judge, use and remove the tools of others."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule._version import __version__
from ferrule.cli.ask import confirmed
from ferrule.cli.options import PlainError, json_option, warn, with_options, workspace_option
from ferrule.cli.output import at_a_terminal, show_list, write, write_json
from ferrule.cli.words import _, as_warning, localised
from ferrule.core.errors import ToolError
from ferrule.core.shown_text import shown_row
from ferrule.mcp_client.remote_tool import tool_name
from ferrule.plugins.consent import (
    NotAgreed,
    PluginWishes,
    as_asked,
    disable_plugin,
    enable_plugin,
    found_plugin,
    install_staged,
    is_newest,
    kinds_of,
    near_plugins,
    packages_of,
    remove_plugin,
    secrets_of,
)
from ferrule.plugins.lock import must_find, read_lock
from ferrule.workspace.granted_folders import dangers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from ferrule.plugins.consent import PluginQuestion, ToolChange
    from ferrule.plugins.install import StagedPlugin
    from ferrule.plugins.lock import LockedPlugin
    from ferrule.plugins.model_texts import ReadLine
    from ferrule.workspace.granted_folders import FolderDanger


_MARK = "!"
"""In front of a line that tells a model what to do."""

plugin_command = click.Group(
    "plugin", help=_("Install, judge, use and remove plugins: the tools of others, each in a box of its own.")
)


@contextmanager
def _told() -> Generator[None]:
    """What goes wrong with a plugin, in the user's words."""
    try:
        yield
    except ToolError as error:
        words = (localised(error.message), localised(error.suggestion or ""))
        raise PlainError(" ".join(filter(None, words))) from None


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
    return with_options(command, *_grant_options)


def _screen(plugin: LockedPlugin, near: Sequence[str], dangers: Sequence[FolderDanger]) -> list[str]:
    """All that a user should know before they agree, on one screen."""
    manifest, grants = plugin.manifest, plugin.grants
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
    unknown = _("not declared; each call asks until you allow the tool")
    nothing = _("none")
    folders = dict.fromkeys((*(one.folder for one in dangers), *grants.folders))
    lines += [
        f"  {_('Tools:')} {_all(kinds_of(plugin)) or unknown}",
        f"  {_('Network:')} {_all(sorted(grants.hosts, key=lambda host: not host.startswith('*'))) or nothing}",
        f"  {_('Folders:')} {_all(folders) or nothing}",
        f"  {_('Secrets:')} {_all(secrets_of(plugin)) or nothing}",
    ]
    if manifest.needs.programs:
        lines.append(f"  {_('Programs:')} {_all(manifest.needs.programs)}")
    add(_("Packages:"), _summed(packages_of(plugin)) or nothing)
    if manifest.runtime == "remote":
        add(_("Address:"), _("{url}: it runs elsewhere and sees what its tools are given").format(url=manifest.url))
    return lines


def _all(names: Iterable[str]) -> str:
    """Each made safe on its own: of one long text the middle would be left out."""
    return ", ".join(map(shown_row, names))


def _warn_of(dangers: Sequence[FolderDanger], *, err: bool) -> None:
    """In red, below all else, so that no list pushes it off the screen."""
    for one in dangers:
        words = as_warning(_("folder {folder}: {why}").format(folder=shown_row(one.folder), why=localised(one.why)))
        click.echo(click.style(f"  {words}", fg="red", bold=True), err=err)


def _summed(packages: list[str]) -> str:
    shown = ", ".join(packages[:12])
    more = len(packages) - 12
    return shown if more <= 0 else _("{shown} and {more} more").format(shown=shown, more=more)


def _question_lines(question: PluginQuestion) -> list[str]:
    if question.about == "tools":
        lines = [_("What models read of its tools:"), *(line for one in question.tools for line in _tool_lines(one))]
        if marked := sum(line.marked for one in question.tools for line in one.lines):
            words = _("Lines that tell a model what to do, marked with !: {count}.").format(count=marked)
            lines.append(as_warning(words))
        return lines
    if question.before is None:
        return _screen(question.plugin, question.near, question.dangers)
    labels = {
        "publisher": _("Publisher:"), "proof": _("Proof:"), "source": _("From:"), "tools": _("Tools:"),
        "hosts": _("Network:"), "folders": _("Folders:"), "secrets": _("Secrets:"), "programs": _("Programs:"),
        "packages": _("Packages:"),
    }  # fmt: skip
    plugin = question.plugin
    lines = [f"{plugin.name} {question.before.manifest.version} -> {plugin.manifest.version}"]
    for one in question.changes:
        listed = [f"-{shown_row(gone)}" for gone in one.gone] + [f"+{shown_row(came)}" for came in one.came]
        lines.append(f"  {labels[one.part]} {_summed(listed) if one.part == 'packages' else ', '.join(listed)}")
    if question.widens:
        lines.append("  " + _("It wants more than you granted before."))
    return lines


def _tool_lines(change: ToolChange) -> list[str]:
    """All that a model reads of a tool, or what of it is different."""
    if change.how == "new":
        signs = ["+", *" " * len(change.lines)]
        return [_read_line(line, sign) for line, sign in zip(change.lines, signs, strict=False)]
    first = f"  {'-' if change.how == 'gone' else '~'} {shown_row(change.name)}"
    return [first, *(_read_line(line, " ") for line in change.lines)]


def _read_line(line: ReadLine, sign: str) -> str:
    return f"{_MARK if line.marked else ' '} {sign} {shown_row(line.text)}"


def _asker(*, yes: bool) -> Callable[[PluginQuestion], bool | None]:
    """Shows a question, and gives the user's answer; None where nobody can be asked."""

    def agrees(question: PluginQuestion) -> bool | None:
        for line in _question_lines(question):
            if line.startswith(_MARK):
                click.echo(click.style(line, fg="yellow", bold=True), err=True)
            else:
                write(line, err=True)
        if question.about != "tools":
            _warn_of(question.dangers, err=True)
        if yes:
            return True
        words = _("Use these tools? [y/N] ") if question.about == "tools" else _("Use it? [y/N] ")
        if at_a_terminal():
            return confirmed(words)
        return False if question.about == "tools" else None

    return agrees


def _wishes(
    hosts: Sequence[str],
    folders: Sequence[str],
    secrets: Sequence[str],
    settings: Sequence[str],
    arguments: Sequence[str],
) -> PluginWishes:
    chosen: dict[str, str] = {}
    for one in settings:
        name, between, value = one.partition("=")
        if not between:
            raise click.UsageError(_("--set {given}: write it as NAME=VALUE.").format(given=one))
        chosen[name] = value
    return PluginWishes(hosts, folders, secrets, chosen, arguments)


def _say_enabled(plugin: LockedPlugin) -> None:
    words = _("{name} {version} is enabled. Tools: {tools}")
    tools = _summed([tool_name(plugin.name, one) for one in plugin.definitions])
    write(words.format(name=plugin.name, version=plugin.manifest.version, tools=tools))


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

    with _told(), found_plugin(source, market, warn) as found, fetched(found) as staged:
        _put_to_use(staged, workspace, enable=not no_enable, **given)


def _put_to_use(staged: StagedPlugin, workspace: Path, *, enable: bool, yes: bool, **given: Any) -> None:
    name = staged.plugin.name
    try:
        plugin = install_staged(staged, workspace.resolve(), _wishes(**given), _asker(yes=yes), enable=enable)
    except NotAgreed as answer:
        before = staged.before
        if answer.refused or before is None:
            raise PlainError(_("{name} was not installed.").format(name=name)) from None
        raise PlainError(
            _("There is no terminal to ask at, so {name} stays at {version}. To agree beforehand, add --yes.").format(
                name=name, version=before.manifest.version
            )
        ) from None
    if plugin.enabled:
        _say_enabled(plugin)
    else:
        words = _("{name} {version} is installed and disabled. To use it: ferrule plugin enable {name}")
        write(words.format(name=name, version=plugin.manifest.version))


@plugin_command.command("enable", help=_("Look at what the plugin NAME is and asks for, and let it be used."))
@_with_grants
@workspace_option
@click.argument("name")
def enable_command(name: str, workspace: Path, yes: bool, **given: Any) -> None:
    try:
        with _told():
            plugin = enable_plugin(name, workspace.resolve(), _wishes(**given), _asker(yes=yes))
    except NotAgreed as answer:
        words = (
            _("{name} stays disabled.")
            if answer.refused
            else _("There is no terminal to ask at, so {name} stays disabled. To agree, add --yes.")
        )
        raise PlainError(words.format(name=name)) from None
    _say_enabled(plugin)


@plugin_command.command("disable", help=_("Do not use the plugin NAME any more; it stays installed."))
@click.argument("name")
def disable_command(name: str) -> None:
    with _told():
        disable_plugin(name)
    write(_("{name} is disabled.").format(name=name))


@plugin_command.command("list", help=_("List the installed plugins."))
@json_option
def list_command(as_json: bool) -> None:
    with _told():
        plugins = list(read_lock().values())
    states = {True: _("enabled"), False: _("disabled")}
    rows = (
        [one.name, one.manifest.version, states[one.enabled], str(len(one.definitions or one.manifest.tools)),
         one.manifest.summary]
        for one in plugins
    )  # fmt: skip
    headers = [_("NAME"), _("VERSION"), _("STATE"), _("TOOLS"), _("SUMMARY")]
    nothing = _("There are no plugins. Find some: ferrule market search")
    show_list([_document(one) for one in plugins], as_json, nothing, headers, rows)


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
    asked = as_asked(plugin)
    dangers = dangers_of(asked.grants.folders, Path.cwd())
    for line in _screen(asked, near_plugins(plugin), dangers):
        write(line)
    _warn_of(dangers, err=False)
    state = _("enabled, agreed to on {day}").format(day=plugin.agreed) if plugin.enabled else _("disabled")
    write("  " + _("State:") + f" {state}")
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
    own = {tool_name(plugin.name, one) for one in plugin.definitions}
    return [(one.tool, one.count, one.failure) for one in statistics_of(log) if one.tool in own]


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
            with found_plugin(source, market, warn) as found, fetched(found) as staged:
                if is_newest(plugin, staged):
                    write(
                        _("{name} {version} is the newest.").format(name=plugin.name, version=plugin.manifest.version)
                    )
                else:
                    _put_to_use(staged, workspace, enable=plugin.enabled, **given)


@plugin_command.command("remove", help=_("Remove the plugin NAME and everything that belongs to it."))
@click.argument("name")
def remove_command(name: str) -> None:
    with _told():
        remove_plugin(name)
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
