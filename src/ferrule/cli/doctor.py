"""`ferrule doctor`: what works here, proven by trying, and what to do about what does not."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ferrule._version import __version__
from ferrule.app.build import App
from ferrule.app.find_tools import build_tools
from ferrule.app.load_settings import SettingsError, load_settings
from ferrule.app.locations import (
    PROJECT_FILE,
    added_folders,
    audit_path,
    organisation_settings_file,
    user_settings_file,
)
from ferrule.app.mcp_servers import without_wrong_servers
from ferrule.app.settings import Settings
from ferrule.cli.check import Check
from ferrule.cli.mcp_checks import mcp_checks
from ferrule.cli.options import json_option, workspace_option
from ferrule.cli.output import for_stdout, write_json, write_styled
from ferrule.cli.protection_checks import protection_checks
from ferrule.cli.verdict import what_is_wrong
from ferrule.cli.words import _, said_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EXTRAS = {
    "files": ("charset_normalizer", "text in old encodings, and searching with ripgrep"),
    "mcp": ("mcp", "tools of MCP servers, and being one"),
    "schema": ("jsonschema_rs", "tools made from a raw JSON Schema"),
    "shell": ("tree_sitter_bash", "understanding shell commands before they run"),
    "telemetry": ("opentelemetry", "OpenTelemetry spans and metrics"),
}


@click.command("doctor", help=_("Check this installation, and what protects you here, by trying; say what to mend."))
@json_option
@workspace_option
def command(as_json: bool, workspace: Path) -> None:
    checks = list(_checks(workspace.resolve()))
    if as_json:
        write_json([asdict(check) for check in checks])
    else:
        colours = {"ok": "green", "note": "yellow", "fail": "red"}
        for check in checks:
            state = click.style(f"{check.state:5}", fg=colours[check.state])
            write_styled(f"{state} {for_stdout(f'{check.name}: {check.message}')}")
    sys.exit(1 if any(check.state == "fail" for check in checks) else 0)


def _checks(workspace: Path) -> Iterator[Check]:
    yield Check("ferrule", "ok", f"{__version__}, Python {platform.python_version()}, {platform.system()}")
    for extra, (module, what) in _EXTRAS.items():
        if find_spec(module):
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
        if loaded.set_aside:
            aside = _("{keys}: not applied, this folder is not in your `trusted_folders`").format(
                keys=", ".join(loaded.set_aside)
            )
            yield Check("settings", "note", aside)
        if loaded.overruled:
            overruled = _("{keys}: not applied, because {file} of your organisation is stricter.").format(
                file=organisation_settings_file(), keys=", ".join(loaded.overruled)
            )
            yield Check("settings", "note", overruled)
    yield from _files(settings, workspace)
    yield from protection_checks(settings, workspace)
    yield from mcp_checks(settings, workspace)
    yield from _tools(settings, workspace)
    yield from _records(settings, workspace)


def _files(settings: Settings, workspace: Path) -> Iterator[Check]:
    """What keeps the file tools inside the workspace, tried for real."""
    from ferrule.workspace.protection import PathWall, path_wall, search_wall

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
            "Do not let untrusted programs change the workspace meanwhile"
        )
        yield Check("searches", "note", without)
    for folder in added_folders(settings, workspace):
        if not folder.is_dir():
            missing = _("{folder}: named in `files.folders`, and not there").format(folder=folder)
            yield Check("folders", "fail", missing)


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
        yield Check("audit", "ok", _("{path}: {rows} records verified").format(path=path, rows=found.rows))
    else:
        yield Check("audit", "fail", f"{path}: {what_is_wrong(found)}")
