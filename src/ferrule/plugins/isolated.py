"""Installed plugins in use: each is an MCP server of its own, in a box that has what the user granted and no more."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import ferrule
from ferrule import ToolError
from ferrule.extension import Template, data_folder, phrase, read_json, said_by, write_json
from ferrule.extension.hosting import ServerBox, ServerConfig, shown_folders
from ferrule.plugins.installed_files import require_intact
from ferrule.plugins.lock import LockedPlugin, read_lock
from ferrule.plugins.manifest import PluginError, as_object
from ferrule.plugins.plugin import SETTINGS_VARIABLE
from ferrule.plugins.plugin_files import DEFINITIONS, TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferrule.extension.hosting import Definition

_SECONDS_TO_START = 30.0


def agreed_config(name: str, digests: Mapping[str, str], workspace: Path) -> ServerConfig:
    """How a plugin is started whose tools were agreed to in this form; raises `ToolError` where it cannot be."""
    try:
        plugin = read_lock().get(name)
        if plugin is None or not plugin.enabled or plugin.definitions != digests:
            raise ToolError(
                phrase("The plugin `{name}` was changed, disabled or removed since this session began.", name=name),
                suggestion=phrase("A new session uses it as it is now."),
            )
        return _checked_server(plugin, workspace)
    except PluginError as error:
        raise ToolError(said_by(error), suggestion=error.suggestion) from None


def _checked_server(plugin: LockedPlugin, workspace: Path) -> ServerConfig:
    """The same for a plugin that is about to be started: its files must be those that were installed."""
    if plugin.manifest.runtime != "remote":
        require_intact(plugin)
    return server_of(plugin, workspace)


def server_of(plugin: LockedPlugin, workspace: Path) -> ServerConfig:
    """How it is started, and the box that it is started in; raises `ToolError` where that cannot be."""
    manifest, program = plugin.manifest, plugin.program_folder
    if manifest.runtime == "remote":
        return ServerConfig(plugin.name, url=manifest.url)
    secrets = _secrets(plugin)
    # What its declaration may name, with what stands for it.
    own = {"__dirname": str(program / "bundle"), "HOME": str(plugin.home), "/": "/", "pathSeparator": "/"}
    given = {f"user_config.{name}": value for name, value in {**_settings(plugin), **secrets}.items()}
    places: dict[str, str | Template] = {**own, **given}
    words = [_filled(word, plugin, places) for word in manifest.command]
    environment = {name: _filled(value, plugin, places) for name, value in manifest.environment.items()} | secrets
    readable = [str(program)]
    if manifest.runtime == "ferrule":
        # Where Ferrule and what it needs lie, to come after the plugin's own.
        package = str(Path(ferrule.__file__).resolve().parents[1])
        libraries = [one for one in sys.path if Path(one).name in ("site-packages", "dist-packages")]
        own = [*dict.fromkeys([package, *(os.path.realpath(one) for one in libraries if Path(one).is_dir())])]
        readable += own
        code = (
            f"import sys; sys.path += {own!r}; from ferrule.mcp_server.plugin_host import main; "
            f"main({manifest.entry!r}, {plugin.name!r}, {manifest.version!r})"
        )
        first, words = str(program / "venv/bin/python"), [Template((one,)) for one in ("-I", "-c", code)]
        environment[SETTINGS_VARIABLE] = Template((json.dumps(_settings(plugin)),))
    elif manifest.runtime == "python" and manifest.requirement:
        first = str(program / "venv/bin/python")
        words = [*(Template((one,)) for one in ("-I", "-c", manifest.entry)), *words]
    elif manifest.runtime == "node" and manifest.requirement:
        first, words = _program("node"), [Template((str(program / manifest.entry),)), *words]
    else:
        named, *words = words
        first = str(named)
        if named.places or (
            os.sep in first and not Path(os.path.realpath(first)).is_relative_to(os.path.realpath(program))
        ):
            raise PluginError(
                phrase("`{name}` would start `{program}`, which lies outside of its bundle.", name=plugin.name,
                       program=first)
            )  # fmt: skip
        first = _program(first)
    here = {"workspace": str(workspace)}
    words += [Template.parse(word).put(here) for word in plugin.arguments]
    readable.append(os.path.realpath(first))
    readable += [os.path.realpath(found) for one in manifest.needs.programs if (found := shutil.which(one))]
    if manifest.runtime != "node":
        readable.append(sys.base_prefix)
    home = Template((str(plugin.home),))
    folders = [*shown_folders(plugin.grants.folders, workspace)]
    box = ServerBox(
        readable=(*dict.fromkeys([*(path for path, write in folders if not write), *readable]),),
        writable=tuple(path for path, write in folders if write),
        hosts=plugin.grants.hosts,
        emptied=(str(workspace),),
    )
    try:
        return ServerConfig(
            plugin.name,
            (Template((first,)), *words),
            {**environment, "HOME": home},
            home,
            roots=False,
            confinement=box,
        )
    except ValueError as problem:
        raise PluginError(f"{problem}.") from None


def _secrets(plugin: LockedPlugin) -> dict[str, Template]:
    """Each from the variable of its name, unless the user said where it is."""
    found: dict[str, Template] = {}
    for one in plugin.grants.secrets:
        name, given, place = one.partition("=")
        found[name] = Template.parse(place) if given else Template(("", ""), (name,))
    return found


def _settings(plugin: LockedPlugin) -> dict[str, str]:
    found = plugin.manifest.settings.items()
    defaults = {name: one.default for name, one in found if one.default is not None}
    return {**defaults, **plugin.settings}


def _filled(text: str, plugin: LockedPlugin, places: Mapping[str, str | Template]) -> Template:
    """A text of its declaration, with what it names put in."""
    template = Template.parse(text)
    if missing := next((one for one in template.places if one not in places), None):
        raise PluginError(
            phrase("`{name}` needs a value for `{missing}`.", name=plugin.name, missing=missing),
            suggestion=phrase("Set it with --set NAME=VALUE, or with --secret NAME."),
        )
    return template.put(places)


def _program(name: str) -> str:
    if name in ("python", "python3"):
        return os.path.realpath(sys.executable)
    found = shutil.which(name)
    if found is None:
        raise PluginError(phrase("The program `{name}` is not installed.", name=name))
    return found


def listed_tools(plugin: LockedPlugin, workspace: Path) -> list[Definition]:
    """What it offers when it runs in its box, as it is granted now; raises `PluginError` where it does not start."""
    from ferrule.extension.hosting import list_tools

    config = _checked_server(plugin, workspace)
    asking = list_tools(config, workspace=workspace, tokens=plugin.folder / TOKENS, seconds=_SECONDS_TO_START)
    try:
        return asyncio.run(asking)
    except ToolError as failed:
        raise PluginError(phrase("`{name}` cannot be used: {why}.", name=plugin.name, why=failed.message)) from None


def require_as_declared(plugin: LockedPlugin, offered: Iterable[Definition]) -> None:
    """Of a plugin that declares its tools: it offers these, of these kinds, and no others. Raises `PluginError`."""
    declared = {one.name: one for one in plugin.manifest.tools}
    if plugin.manifest.runtime != "ferrule":
        return
    found = {one.name: one for one in offered}
    wrong = [phrase("`{name}` is not declared", name=name) for name in found if name not in declared]
    wrong += [phrase("`{name}` is declared but missing", name=name) for name in declared if name not in found]
    for name, tool in declared.items():
        if name in found and tool.kind == "readonly" and not found[name].hints("readOnlyHint"):
            wrong.append(phrase("`{name}` is declared readonly, but its code says otherwise", name=name))
    if wrong:
        raise PluginError(
            phrase("The tools of `{name}` differ from what it declares: {what}.", name=plugin.name,
                   what="; ".join(wrong)),
            suggestion=phrase("It stays disabled. Tell its publisher."),
        )  # fmt: skip


# What its tools were like when the user agreed to them, to show what has changed when they change.


def remember_definitions(plugin: LockedPlugin, offered: Iterable[Definition]) -> None:
    forget(plugin)  # what its tools were like when they were last used: the user agrees to what they are now
    write_json(plugin.folder / DEFINITIONS, {one.name: dict(one.payload) for one in offered})


def known_definitions(plugin: LockedPlugin) -> dict[str, Definition]:
    from ferrule.extension.hosting import read_listing

    listed = read_listing(map(as_object, read_json(plugin.folder / DEFINITIONS).values()))
    return {one.name: one for one in listed.definitions}


def forget(plugin: LockedPlugin) -> None:
    """What is kept of it outside its own folder."""
    from ferrule.extension.hosting import Approvals

    Approvals(data_folder() / "mcp" / "approved.json").forget(plugin.name)
