"""`ferrule doctor`: what works here, proven by trying, and what to do about what does not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ferrule._version import __version__
from ferrule.app.build import (
    App,
    build_policy,
    build_tools,
    hook_command,
    sandbox_choice,
    writable_folders,
    written_rules,
)
from ferrule.app.mcp_servers import known_servers, mcp_folder, without_wrong_servers
from ferrule.app.settings import (
    PROJECT_FILE,
    Settings,
    SettingsError,
    added_folders,
    audit_path,
    load_settings,
    organisation_settings_file,
    user_settings_file,
)
from ferrule.cli.audit import what_is_wrong
from ferrule.cli.options import json_option, workspace_option
from ferrule.cli.output import write_json, write_styled
from ferrule.cli.words import _, localised, said_of
from ferrule.core.shown_text import shown_argument, shown_row, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.app.mcp_servers import KnownServer
    from ferrule.mcp_client.remote_server import RemoteServer
    from ferrule.mcp_client.servers import Joined


@dataclass(slots=True, frozen=True)
class Check:
    """`ok`, `note` (works, but you may want more) or `fail`."""

    name: str
    state: str
    message: str


def protection_checks(settings: Settings, workspace: Path) -> Iterator[Check]:
    """Each layer, strongest last resort first."""
    yield from _sandbox(settings, workspace)
    yield from _limits(settings, workspace)
    yield _commands()
    yield from _rules(settings, workspace)
    yield from _hooks(settings, workspace)


def _sandbox(settings: Settings, workspace: Path) -> Iterator[Check]:
    try:
        sandbox_choice(settings, workspace)
    except SettingsError as error:
        yield Check("sandbox", "fail", said_of(error))
    if not settings.sandbox.enabled:
        yield Check("sandbox", "note", _("turned off in the settings: commands run unconfined"))
        return
    from ferrule.process.sandbox.choose import probe_report
    from ferrule.workspace.layers.session_layer import layers_folder
    from ferrule.workspace.paths import Paths

    tried = probe_report((workspace,), layers_folder(Paths((workspace,))))
    works = any(one.works for one in tried)
    for one in tried:
        yield Check("sandbox", "ok" if one.works else "note" if works else "fail", f"{one.name}: {one.message}")
        for note in one.notes:
            yield Check("sandbox", "note", f"{one.name}: {note}")
    if not works:
        if settings.shell.unconfined == "allow":
            words = _("`shell.unconfined` is set: what your rules and the mode allow runs without asking")
            yield Check("sandbox", "fail", words)
        yield Check("sandbox", "fail", _("none works: every command asks before it runs, and runs unconfined"))
    for folder in writable_folders(settings, workspace):
        if not folder.is_dir():
            missing = _("{folder}: listed in `sandbox.writable`, but does not exist").format(folder=folder)
            yield Check("sandbox", "fail", missing)


def _limits(settings: Settings, workspace: Path) -> Iterator[Check]:
    """What a command may use at most, and what enforces that here."""
    from ferrule.builtin.session_shells import command_bounds
    from ferrule.core.sizes import size_words
    from ferrule.process.sandbox.choose import best_sandbox
    from ferrule.process.sandbox.limits import can_group

    try:
        bounds = command_bounds(sandbox_choice(settings, workspace))
    except SettingsError:
        return  # told above
    groups = can_group()
    confined = settings.sandbox.enabled and best_sandbox((workspace,)).name != "none"
    group, each = _("control group"), _("{limit}, for each process alone")
    for name, most, means in (
        ("memory", bounds.total_memory, group if "memory" in groups else each.format(limit="RLIMIT_DATA")),
        ("processes", bounds.processes, group if "pids" in groups else "RLIMIT_NPROC"),
        ("file_size", bounds.file_size, "RLIMIT_FSIZE"),
    ):
        by_group = means == group
        lacks = not by_group and (os.geteuid() == 0 if name == "processes" else not confined)
        if most is None:
            yield Check("limits", "note", _("{name}: no limit, by your settings").format(name=name))
        elif lacks:
            why = (
                _("{name}: no limit, as no control group can be made here")
                if name != "file_size"
                else _("{name}: no limit without a sandbox")
            )
            yield Check("limits", "note", why.format(name=name))
        else:
            shown = f"{most:,}" if name == "processes" else size_words(most)
            words = _("{name}: at most {most} ({means}); `shell.{name}` sets it")
            yield Check("limits", "ok", words.format(name=name, most=shown, means=means))


def _commands() -> Check:
    """A harmless command and one that hides a dangerous one, looked at as before any call."""
    from ferrule.policy.commands.analyse import analyse

    harmless, hidden = analyse("ls -l | head"), analyse('echo "$(env rm -rf /)"')
    if not harmless.unclear and hidden.dangers:
        return Check("commands", "ok", _("commands are analysed before they run"))
    return Check("commands", "note", _("commands cannot be analysed, so every one asks; pip install 'ferrule[shell]'"))


def _rules(settings: Settings, workspace: Path) -> Iterator[Check]:
    try:
        built = build_policy(settings, workspace, build_tools(settings, workspace))
    except SettingsError as error:
        yield Check("rules", "fail", said_of(error))
        return
    count = sum(1 for _rule in written_rules(settings))
    yield Check("rules", "ok", _("{count} rules, mode {mode}").format(count=count, mode=settings.permissions.mode))
    for note in built.notes:
        yield Check("rules", "note", note)


def _hooks(settings: Settings, workspace: Path) -> Iterator[Check]:
    for hook in settings.hooks:
        program = hook_command(hook)[0]
        place = os.path.join(workspace, program) if os.sep in program else program  # noqa: PTH118 - a name stays one
        found = shutil.which(place)
        about = f"{hook.event} {', '.join(hook.tools)}: {program}"
        if found is None:
            there = _("it cannot be executed") if Path(place).is_file() else _("there is no such program")
            refuses = _("so all these calls are refused")
            yield Check("hooks", "fail", f"{about}: {there}, {refuses}")
        elif Path(os.path.realpath(found)).is_relative_to(workspace):
            yield Check("hooks", "note", f"{about}: " + _("it is in the workspace, where an agent may change it"))
        else:
            yield Check("hooks", "ok", about)


_SECONDS = 10.0
_LONGEST = 300


def mcp_checks(settings: Settings, workspace: Path) -> Iterator[Check]:
    """One for each server, and for whatever could not be understood of them."""
    known = known_servers(settings, workspace)
    for problem in known.problems:
        yield Check("mcp", "fail", _one_row(problem))
    for problem in known.left_out:
        yield Check("mcp", "note", _one_row(problem))
    if not known.servers:
        if not known.problems:
            yield Check("mcp", "ok", _("no servers; add one: ferrule mcp add NAME COMMAND …"))
        return
    tried = _try([one for one in known.servers if one.trusted and one.config.enabled], settings, workspace)
    for one in known.servers:
        for state, message in tried.get(one.config.name) or [_not_tried(one)]:
            yield Check(f"mcp {_one_row(one.config.name)}", state, message)


def _try(usable: list[KnownServer], settings: Settings, workspace: Path) -> dict[str, list[tuple[str, str]]]:
    """Start them together, wait a few seconds, note what came of it, and end whatever was started."""
    if not usable:
        return {}
    import asyncio
    import logging

    from ferrule.cli.status_line import ServerWaits, StatusLine
    from ferrule.mcp_client.servers import Servers
    from ferrule.registry.registry import Registry

    logging.getLogger("ferrule.mcp").setLevel(logging.ERROR)  # what is left out of their tools is a check of its own
    servers = Servers(
        [one.config for one in usable],
        Registry(),
        folders=(workspace, *added_folders(settings, workspace)),
        data=mcp_folder(),
    )

    async def start() -> dict[str, list[tuple[str, str]]]:
        try:
            async with StatusLine().showing(ServerWaits(servers)):
                await servers.start(wait=_SECONDS)
            return {one.config.name: _outcome(one, servers.joined[one.config.name]) for one in usable}
        finally:
            await servers.close()

    return asyncio.run(start())


def _not_tried(one: KnownServer) -> tuple[str, str]:
    from ferrule.cli.mcp_servers import changed_since_trusted
    from ferrule.mcp_client.server_config import without_secrets

    config = one.config
    if not config.enabled:
        return "note", _("switched off in {file}").format(file=_file(one))
    words = (
        _(
            "changed since you trusted it, and not started: {command} ({file}). "
            "`ferrule mcp list` shows what changed; if that is right: {do}"
        )
        if changed_since_trusted(config)
        else _("not trusted yet, and not started: {command} ({file}). If that is right: {do}")
    )
    command = _one_row(without_secrets(config.shown))
    return "note", words.format(
        command=command, file=_file(one), do=f"ferrule mcp trust {shown_argument(one.config.name)}"
    )


def _outcome(one: KnownServer, joined: Joined) -> list[tuple[str, str]]:
    """Whether the server works, then a note for each thing that is wrong with its tools."""
    server, offered = joined.server, joined.server.offered
    if server.starting:
        words = _("it has not answered within {seconds} s; it may take up to {most} s: ferrule mcp test {name}")
        most = f"{one.config.start_timeout:g}"
        told = words.format(seconds=f"{_SECONDS:g}", most=most, name=shown_argument(one.config.name))
        if garbage := server.log.garbage():
            wrote = _("Its output contains something that is not a protocol message: {sample}")
            told = f"{told}. {wrote.format(sample=_one_row(repr(garbage)))}"
        found = "note", told
    elif server.problem:
        found = _why_not(one, server)
    else:
        tools = len(joined.tools)
        count = _("1 tool") if tools == 1 else _("{count} tools").format(count=tools)
        who = " ".join((offered.server, offered.version, offered.protocol)).strip() if offered else ""
        words = _("{count}; it is {who}, from {file}")
        found = "ok", words.format(count=count, who=_one_row(who), file=_file(one))
    return [found, *(("note", _one_row(note)) for note in joined.problems)]


def _why_not(one: KnownServer, server: RemoteServer) -> tuple[str, str]:
    """The reason, and what to do about it."""
    from ferrule.mcp_client.failures import Trouble

    file, name = _file(one), shown_argument(one.config.name)
    do = {
        Trouble.VALUE: _("Give it a value, or change {file}.").format(file=file),
        Trouble.PROGRAM: _("Install it, or correct {file}.").format(file=file),
        Trouble.ADDRESS: _("Check your network, and the address in {file}.").format(file=file),
        Trouble.SIGN_IN: "",  # the reason names the command
        Trouble.EXTRA: "",
    }.get(server.trouble, _("See what it says: ferrule mcp test {name}").format(name=name))
    state = "note" if server.trouble is Trouble.SIGN_IN else "fail"
    return state, f"{_one_row(server.problem)}. {do}".rstrip()


def _file(one: KnownServer) -> str:
    return _one_row(str(one.file)) if one.file else _("the settings")


def _one_row(text: str) -> str:
    """What others wrote, so that it cannot pass for another check."""
    return shown_row(text, _LONGEST)


EXTRAS = {
    "acp": (("acp",), "serving the assistant to editors"),
    "chat": (("prompt_toolkit", "yaml", "wcwidth"), "chatting in the terminal"),
    "code": (("pydantic_monty",), "running programs that a model writes"),
    "drafts": (("ty",), "checking the types of tools that a model drafts"),
    "files": (("charset_normalizer",), "text in old encodings, and searching with ripgrep"),
    "local": (("xllamacpp",), "a model on this machine, without a key or a server"),
    "mcp": (("mcp",), "using and serving tools over MCP"),
    "models": (("httpx2",), "asking a model over HTTP"),
    "plugins": (("cryptography", "mcp", "packaging"), "installing plugins, and markets of them"),
    "remote": (("nats", "nkeys"), "running tools on other machines"),
    "schema": (("jsonschema_rs",), "tools made from a raw JSON Schema"),
    "service": (("sqlalchemy",), "serving tools over HTTP"),
    "shell": (("tree_sitter_bash",), "analysing shell commands before they run"),
    "telemetry": (("opentelemetry",), "OpenTelemetry spans and metrics"),
}
"""Of each extra what it imports, and what it is for. `ferrule toolbox list` says it of the toolbox's."""


@click.command("doctor", help=_("Check this installation and its protections by trying them; say what to fix."))
@json_option
@workspace_option
def doctor_command(as_json: bool, workspace: Path) -> None:
    checks = list(_checks(workspace.resolve()))
    if as_json:
        write_json([asdict(check) for check in checks])
    else:
        colours = {"ok": "green", "note": "yellow", "fail": "red"}
        for check in checks:
            state = click.style(f"{check.state:5}", fg=colours[check.state])
            words = _("{what}: {why}").format(what=check.name, why=check.message)
            write_styled(f"{state} {visible(words)}")
    sys.exit(1 if any(check.state == "fail" for check in checks) else 0)


def _checks(workspace: Path) -> Iterator[Check]:
    yield Check("ferrule", "ok", f"{__version__}, Python {platform.python_version()}, {platform.system()}")
    for extra, (modules, what) in EXTRAS.items():
        if all(find_spec(module) for module in modules):
            yield Check(f"extra {extra}", "ok", _(what))
        else:
            missing = _("{what}: not installed; pip install 'ferrule[{extra}]'").format(what=_(what), extra=extra)
            yield Check(f"extra {extra}", "note", missing)
    settings = Settings()
    try:
        loaded = load_settings(workspace)
    except SettingsError as error:
        yield Check("settings", "fail", said_of(error))
    else:
        settings, wrong = without_wrong_servers(loaded.settings)
        for problem in wrong:
            yield Check("settings", "fail", problem)
        files = ", ".join(str(file) for file in loaded.files)
        none = _("none; would be read from {user} and {project}").format(
            user=user_settings_file(), project=workspace / PROJECT_FILE
        )
        yield Check("settings", "ok", files or none)
        for words, keys in (
            (_("{keys}: not applied, this folder is not in your `trusted_folders`"), loaded.set_aside),
            (_("{keys}: not applied, because only your own settings may say that"), loaded.not_the_projects),
            (_("{keys}: not applied, because your organisation's {file} is stricter."), loaded.overruled),
        ):
            if keys:
                told = words.format(keys=", ".join(keys), file=organisation_settings_file())
                yield Check("settings", "note", told)
    yield from _files(settings, workspace)
    yield from protection_checks(settings, workspace)
    yield from mcp_checks(settings, workspace)
    yield from _plugins(workspace)
    yield from _tools(settings, workspace)
    yield from _records(settings, workspace)
    yield from _set_aside()


def _files(settings: Settings, workspace: Path) -> Iterator[Check]:
    """What keeps the file tools inside the workspace, tried for real."""
    from ferrule.core.errors import ToolError
    from ferrule.workspace.confined import PathWall, path_wall, search_wall
    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.ripgrep import find_ripgrep

    wall = path_wall()
    if wall is PathWall.KERNEL:
        yield Check("paths", "ok", _("the kernel keeps paths inside the workspace (openat2)"))
    elif wall is PathWall.WALK:
        yield Check("paths", "note", _("paths are checked part by part; this kernel has no openat2"))
    else:
        yield Check(
            "paths", "fail", _("a link that leads out of a folder was followed; do not use the file tools here")
        )
    if search_wall():
        yield Check("searches", "ok", _("the kernel keeps searches inside the workspace (Landlock)"))
    else:
        without = _(
            "this kernel has no Landlock: a folder swapped for a link in the middle of a search can lead it outside. "
            "Do not let untrusted programs change the workspace during a search"
        )
        yield Check("searches", "note", without)
    try:
        find_ripgrep(Paths([workspace]))
    except ToolError as error:
        yield Check("ripgrep", "fail", f"{said_of(error)} {localised(error.suggestion or '')}")
    for folder in added_folders(settings, workspace):
        if not folder.is_dir():
            missing = _("{folder}: listed in `files.folders` or `notes.vaults`, but does not exist").format(
                folder=folder
            )
            yield Check("folders", "fail", missing)


def _plugins(workspace: Path) -> Iterator[Check]:
    """The installed plugins: whether their files are what was locked, and whether the enabled ones can be started."""
    from ferrule.plugins.plugin_files import lock_file, withdrawn_names

    if not lock_file().exists():
        return
    from ferrule.core.errors import ToolError
    from ferrule.plugins.installed_files import is_intact
    from ferrule.plugins.isolated import server_of
    from ferrule.plugins.lock import read_lock
    from ferrule.process.sandbox.choose import best_sandbox

    try:
        plugins = read_lock().values()
    except ToolError as error:
        yield Check("plugins", "fail", f"{said_of(error)} {localised(error.suggestion or '')}")
        return
    if any(one.enabled and one.manifest.runtime != "remote" for one in plugins) and not best_sandbox().confines:
        yield Check("plugins", "fail", _("no sandbox works here, so plugins are not started"))
    for one in plugins:
        about = f"{one.name} {one.manifest.version}"
        withdrawn = withdrawn_names(one.market).get(one.offered) if one.market else None
        if not is_intact(one):
            words = _("{plugin}: its files were changed. Install it again: ferrule plugin install {source}")
            yield Check("plugins", "fail", words.format(plugin=about, source=_one_row(one.again)))
        elif withdrawn is not None:
            words = _("{plugin}: withdrawn by its market, and not used: {why}")
            yield Check("plugins", "note", words.format(plugin=about, why=_one_row(withdrawn)))
        elif not one.enabled:
            yield Check("plugins", "ok", _("{plugin}: disabled").format(plugin=about))
        else:
            try:
                server_of(one, workspace)
            except ToolError as error:
                yield Check(
                    "plugins", "fail", f"{about}: {said_of(error)} {localised(error.suggestion or '')}".rstrip()
                )
            else:
                yield Check("plugins", "ok", _("{plugin}: enabled, and as it was installed").format(plugin=about))


def _tools(settings: Settings, workspace: Path) -> Iterator[Check]:
    tools = build_tools(settings, workspace)
    for broken in tools.broken:
        yield Check("tools", "fail", f"{broken.source}: {broken.reason}")
    for tool in tools.registry:
        if (fault := tool.fault) is not None:
            yield Check("tools", "fail", fault)
    # Those of servers are counted with their servers: hundreds of names would hide what is wrong.
    joined = tools.servers.joined.values() if tools.servers else ()
    remote = {tool.name for one in joined for tool in one.tools.values()}
    yield Check("tools", "ok", ", ".join(name for name in tools.registry.names() if name not in remote))


def _set_aside() -> Iterator[Check]:
    """What was moved out of the way, which a user may want to look at or remove before it goes by itself."""
    from ferrule.process.sandbox.guarded import KEPT_DAYS, quarantines
    from ferrule.workspace.snapshots.changes import Caps
    from ferrule.workspace.snapshots.snapshot_store import histories_set_aside

    days = int(Caps().age // 86_400)
    for folder in histories_set_aside():
        words = _("{folder}: a history that could not be read, {size}; it is removed after {days} days")
        yield Check("history", "note", words.format(folder=folder, size=_size(folder), days=days))
    for folder in quarantines():
        words = _("{folder}: files that a command was not allowed to leave, {size}; removed after {days} days")
        yield Check("quarantine", "note", words.format(folder=folder, size=_size(folder), days=KEPT_DAYS))


def _size(folder: Path) -> str:
    size = sum(os.lstat(os.path.join(top, one)).st_size for top, _folders, names in os.walk(folder) for one in names)  # noqa: PTH118
    return f"{size / 1e6:.1f} MB"


def _records(settings: Settings, workspace: Path) -> Iterator[Check]:
    """A real call, recorded, and the chain of records verified."""
    import asyncio

    from ferrule.core.call import RawCall
    from ferrule.records.database import AuditError
    from ferrule.records.verification import verify

    async def call() -> bool:
        async with App(settings, workspace, single_call=True) as app:  # which starts no server
            result = await app.runtime.run(RawCall("getCurrentDateTime"))
            return result.success and "unrecorded" not in result.metadata

    path = audit_path(settings)
    try:
        done = asyncio.run(call())
    except (AuditError, OSError, ValueError) as error:
        yield Check("call", "fail", said_of(error))
        return
    yield Check("call", "ok" if done else "fail", "getCurrentDateTime")
    if not settings.audit.enabled:
        yield Check("audit", "note", _("switched off in the settings"))
        return
    try:
        found = verify(path)
    except AuditError as error:
        yield Check("audit", "fail", said_of(error))
        return
    if found.ok:
        yield Check("audit", "ok", _("{path}: records verified: {rows}").format(path=path, rows=found.rows))
    else:
        yield Check("audit", "fail", f"{path}: {what_is_wrong(found)}")
