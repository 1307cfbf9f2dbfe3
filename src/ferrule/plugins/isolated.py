"""Installed plugins in use: each is an MCP server of its own, in a box that has what the user granted and no more."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import ferrule
from ferrule.core.phrases import phrase, said_by
from ferrule.mcp_client.server_config import ServerBox, ServerConfig, read_json, write_json
from ferrule.plugins.lock import LockedPlugin, read_lock
from ferrule.plugins.manifest import WRITES, PluginError, as_object
from ferrule.plugins.plugin import SETTINGS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.mcp_client.remote_tool import Definition

_SECONDS_TO_START = 30.0


def enabled_plugins(workspace: Path) -> tuple[list[ServerConfig], list[str]]:
    """The servers of all plugins that the user agreed to, and what is to be said of the others."""
    configs: list[ServerConfig] = []
    notes: list[str] = []
    try:
        plugins = read_lock()
    except PluginError as error:
        return [], [said_by(error)]
    for plugin in plugins.values():
        if not plugin.enabled:
            continue
        gone = _withdrawn(plugin.market) if plugin.market else {}
        if (why := gone.get((plugin.manifest.name, plugin.manifest.version))) is not None:
            words = phrase("The plugin `{name}` was withdrawn and is not used: {why}.", name=plugin.name,
                           why=why.rstrip("."))  # fmt: skip
            notes.append(words)
            continue
        try:
            configs.append(server_of(plugin, workspace))
        except PluginError as error:
            notes.append(said_by(error))
    return configs, notes


def _withdrawn(market: str) -> dict[tuple[str, str], str]:
    """By the market that it came from: no other has a say in it."""
    from ferrule.plugins.market_files import withdrawn_names

    return withdrawn_names(market)


def server_of(plugin: LockedPlugin, workspace: Path) -> ServerConfig:
    """How it is started, and the box that it is started in; raises `PluginError` where that cannot be."""
    manifest, program = plugin.manifest, plugin.program_folder
    environment = {**manifest.environment, **_secrets(plugin)}
    readable = [str(program)]
    if manifest.runtime == "remote":
        return ServerConfig(plugin.name, url=manifest.url)
    if manifest.runtime == "ferrule":
        own = _own_libraries()
        readable += own
        code = (
            f"import sys; sys.path += {own!r}; from ferrule.mcp_server.plugin_host import main; "
            f"main({manifest.entry!r}, {plugin.name!r}, {manifest.version!r})"
        )
        command = (str(program / "venv/bin/python"), "-I", "-c", code)
        environment[SETTINGS_VARIABLE] = json.dumps(_settings(plugin))
    elif manifest.runtime == "python" and manifest.requirement:
        command = (str(program / "venv/bin/python"), "-I", "-c", manifest.entry, *manifest.command)
    elif manifest.runtime == "node" and manifest.requirement:
        command = (_program("node"), str(program / manifest.entry), *manifest.command)
    else:
        command = tuple(_filled(word, plugin) for word in manifest.command)
        if os.sep in command[0] and not Path(os.path.realpath(command[0])).is_relative_to(os.path.realpath(program)):
            raise PluginError(
                phrase("`{name}` would start `{program}`, which lies outside of its bundle.", name=plugin.name,
                       program=command[0])
            )  # fmt: skip
        command = (_program(command[0]), *command[1:])
        environment = {name: _filled(value, plugin) for name, value in environment.items()}
    command = (*command, *(word.replace("${workspace}", str(workspace)) for word in plugin.arguments))
    readable.append(os.path.realpath(command[0]))
    if manifest.runtime != "node":
        readable.append(sys.base_prefix)
    return ServerConfig(
        plugin.name,
        command,
        {**environment, "HOME": str(plugin.home)},
        str(plugin.home),
        roots=False,
        confinement=_box(plugin, readable, workspace),
    )


def _box(plugin: LockedPlugin, readable: Iterable[str], workspace: Path) -> ServerBox:
    grants = plugin.grants
    folders = [(str(_folder(one.removesuffix(WRITES), workspace)), one.endswith(WRITES)) for one in grants.folders]
    writes = any(write for _, write in folders)
    # A tool can only be believed to change nothing where nothing lets it: the others ask as what they may do.
    kinds = {
        tool.name: "write" if tool.kind == "readonly" and writes else tool.kind
        for tool in plugin.manifest.tools
        if tool.kind != "unknown"
    }
    return ServerBox(
        readable=(*dict.fromkeys([*readable, *(path for path, write in folders if not write)]),),
        writable=tuple(path for path, write in folders if write),
        hosts=grants.hosts,
        kinds=kinds,
        agreed=plugin.definitions or None,
    )


def _folder(path: str, workspace: Path) -> Path:
    return workspace / Path(path).expanduser()


def _secrets(plugin: LockedPlugin) -> dict[str, str]:
    """Each from the variable of its name, unless the user said where it is."""
    found: dict[str, str] = {}
    for one in plugin.grants.secrets:
        name, given, place = one.partition("=")
        found[name] = place if given else f"${{{name}}}"
    return found


def _settings(plugin: LockedPlugin) -> dict[str, str]:
    found = plugin.manifest.settings.items()
    defaults = {name: one.default for name, one in found if one.default is not None}
    return {**defaults, **plugin.settings}


def _filled(word: str, plugin: LockedPlugin) -> str:
    """A word of a bundle's command, with the places that it names filled in."""
    word = word.replace("${__dirname}", str(plugin.program_folder / "bundle")).replace("${HOME}", str(plugin.home))
    for name, value in _settings(plugin).items():
        word = word.replace(f"${{user_config.{name}}}", value)
    for name, value in _secrets(plugin).items():
        word = word.replace(f"${{user_config.{name}}}", value)
    return word.replace("${/}", "/").replace("${pathSeparator}", "/")


def _program(name: str) -> str:
    if name in ("python", "python3"):
        return os.path.realpath(sys.executable)
    found = shutil.which(name)
    if found is None:
        raise PluginError(phrase("The program `{name}` is not installed.", name=name))
    return found


def _own_libraries() -> list[str]:
    """Where Ferrule and what it needs lie, to come after the plugin's own."""
    package = Path(ferrule.__file__).resolve().parents[1]
    libraries = [one for one in sys.path if Path(one).name in ("site-packages", "dist-packages") and Path(one).is_dir()]
    return [*dict.fromkeys([str(package), *map(os.path.realpath, libraries)])]


def listed_tools(plugin: LockedPlugin, workspace: Path) -> list[Definition]:
    """What it offers when it runs in its box, as it is granted now; raises `PluginError` where it does not start."""
    from ferrule.mcp_client.servers import Servers
    from ferrule.registry.registry import Registry
    from ferrule.workspace.data_folder import data_folder

    config = server_of(plugin, workspace)
    if config.confinement is not None:
        config = replace(config, confinement=replace(config.confinement, agreed=None))

    async def ask() -> tuple[list[Definition], str]:
        servers = Servers([config], Registry(), folders=(workspace,), data=data_folder() / "mcp")
        try:
            await servers.start(wait=_SECONDS_TO_START)
            joined = servers.joined[config.name]
            log = joined.server.log
            problem = joined.server.problem or ("" if joined.server.listed else phrase("it did not answer"))
            if problem and (said := log.last_line):
                problem = f"{problem} ({said})"
            return [one.definition for one in joined.tools.values()], problem
        finally:
            await servers.close()

    found, problem = asyncio.run(ask())
    if problem:
        raise PluginError(phrase("`{name}` cannot be used: {why}.", name=plugin.name, why=problem))
    return found


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
    write_json(_definitions_file(plugin), {one.name: dict(one.payload) for one in offered})


def known_definitions(plugin: LockedPlugin) -> dict[str, Definition]:
    from ferrule.mcp_client.remote_tool import read_listing

    listed = read_listing(map(as_object, read_json(_definitions_file(plugin)).values()))
    return {one.name: one for one in listed.definitions}


def _definitions_file(plugin: LockedPlugin) -> Path:
    return plugin.folder / "definitions.json"


def forget(plugin: LockedPlugin) -> None:
    """What is kept of it outside its own folder."""
    from ferrule.mcp_client.servers import Servers
    from ferrule.registry.registry import Registry
    from ferrule.workspace.data_folder import data_folder

    try:
        config = server_of(plugin, Path.cwd())
    except PluginError:  # a program that it needs is gone: then nothing was kept for that one
        return
    Servers([], Registry(), folders=(Path.cwd(),), data=data_folder() / "mcp").forget(config)
