"""The MCP servers that the settings and the workspace name, and which of them may be started.

A server is a program, or gets secrets sent to it. The person's own are started when they are needed; those that a
workspace brings, in its `.mcp.json` or its `ferrule.toml`, wait until the person has said so, and a server whose
command changed waits again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ferrule.app.settings import McpServerSettings, SettingsError, SourcedServer, is_trusted, user_settings_file
from ferrule.core.phrases import phrase
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ferrule.app.settings import Settings
    from ferrule.mcp_client.remote_tool import AgreedServer
    from ferrule.mcp_client.server_config import Ports, ServerConfig
    from ferrule.mcp_client.servers import Servers
    from ferrule.mcp_client.trust_records import TrustRecords
    from ferrule.registry.registry import Registry


MCP_JSON = ".mcp.json"


@dataclass(slots=True, frozen=True)
class KnownServer:
    """A server, the file that names it, and whether it may be started."""

    config: ServerConfig
    file: Path | None
    trusted: bool


@dataclass(slots=True)
class KnownServers:
    """Every server that is named somewhere, and what could not be understood."""

    servers: list[KnownServer] = field(default_factory=list[KnownServer])
    problems: list[str] = field(default_factory=list[str])
    left_out: list[str] = field(default_factory=list[str])
    """What was understood and is not used, because the person's own goes before it."""

    def find(self, name: str) -> KnownServer | None:
        return next((one for one in self.servers if one.config.name == name), None)


def known_servers(settings: Settings, workspace: Path) -> KnownServers:
    """The person's servers and the workspace's. Where both have a name, the person's is meant."""
    found = KnownServers()
    json_file = workspace / MCP_JSON
    if not settings.mcp_servers and not json_file.exists():
        return found  # as in most starts, and nothing more is imported then
    from ferrule.mcp_client.server_config import ConfigProblem, read_mcp_json

    folder_trusted = is_trusted(workspace, settings.trusted_folders)

    def add(config: ServerConfig, file: Path | None) -> None:
        trusted = not config.scope or folder_trusted or config.fingerprint in settings.trusted_mcp_servers
        found.servers.append(KnownServer(config, file, trusted))

    for name, table in settings.mcp_servers.items():
        kind = table.kind if isinstance(table, SourcedServer) else "program"
        try:
            config = _config(name, table)
        except ConfigProblem as problem:
            raise SettingsError(_wrong(table, problem)) from None
        scope = str(workspace) if kind == "project" else ""
        add(replace(config, scope=scope), table.file if isinstance(table, SourcedServer) else None)
    read = read_mcp_json(json_file, scope=str(workspace))
    found.problems += read.problems
    for config in read.servers:
        if found.find(config.name) is None:
            add(config, json_file)
        else:
            found.left_out.append(
                f"{json_file}: `{config.name}` is left out: your settings have a server of that name."
            )
    return found


def without_wrong_servers(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings without the servers that are described in a way that cannot work, and what is wrong with those."""
    wrong: dict[str, str] = {}
    for name, table in settings.mcp_servers.items():
        from ferrule.mcp_client.server_config import ConfigProblem

        try:
            _config(name, table)
        except ConfigProblem as problem:
            wrong[name] = _wrong(table, problem)
    kept = {name: table for name, table in settings.mcp_servers.items() if name not in wrong}
    return replace(settings, mcp_servers=kept), list(wrong.values())


def build_servers(
    settings: Settings,
    workspace: Path,
    registry: Registry,
    folders: tuple[Path, ...],
    ports: Callable[[], Ports] | None = None,
    *,
    may_come: bool = False,
) -> tuple[Servers | None, list[str]]:
    """The servers that may be started, with the tools that are known of them registered; and what is to be said.

    None where there are none, unless some `may_come` later.
    """
    known = known_servers(settings, workspace)
    plugins, of_plugins = plugin_servers(workspace)
    if not known.servers and not plugins and not may_come:
        return None, [*known.problems, *known.left_out, *of_plugins]
    from ferrule.mcp_client.servers import Servers

    waiting = [one for one in known.servers if not one.trusted and one.config.enabled]
    notes = [*known.problems, *known.left_out, *of_plugins]
    if waiting:
        from ferrule.core.shown_text import shown_argument

        names = ", ".join(f"`{one.config.name}`" for one in waiting)
        typed = shown_argument(waiting[0].config.name)
        notes.append(
            f"This workspace brings MCP servers that you have not trusted yet, and they are not started: {names}. "
            f"`ferrule mcp list` shows them, and `ferrule mcp trust {typed}` lets one start."
        )
    taken = {one.config.name for one in known.servers}
    notes += [
        phrase("The plugin `{name}` is left out: an MCP server in your settings has its name.", name=one.name)
        for one in plugins
        if one.name in taken
    ]
    servers = Servers(
        [one.config for one in known.servers if one.trusted],
        registry,
        agreed=[one for one in plugins if one.name not in taken],
        folders=(workspace, *folders),
        data=mcp_folder(),
        ports=ports() if ports is not None else None,
    )
    return servers, notes


def plugin_servers(workspace: Path) -> tuple[list[AgreedServer], list[str]]:
    """The servers of installed plugins; in most starts there are none, and nothing is imported then."""
    if lock_mark() is None:
        return [], []
    from ferrule.plugins.enabled import enabled_plugins

    return enabled_plugins(workspace)


def lock_mark() -> tuple[int, int, int] | None:
    """Another one once the lock of the plugins was replaced; None where there is none."""
    try:
        found = (data_folder() / "plugins" / "plugins.lock").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def trust_server(config: ServerConfig) -> None:
    """The person's word for a workspace's server as it is now, and what it was when they gave it."""
    from ferrule.app.server_files import ServerFile

    ServerFile(user_settings_file()).trust(config.fingerprint)
    trust_records().remember(config)


def distrust_server(identity: str, fingerprints: set[str]) -> bool:
    """Take back the person's word for a workspace's server, as it is and as it was; whether they had given it."""
    from ferrule.app.server_files import ServerFile

    records = trust_records()
    was_trusted = ServerFile(user_settings_file()).distrust(fingerprints | records.given(identity))
    records.forget(identity)
    return was_trusted


def trust_records() -> TrustRecords:
    """What workspaces' servers were when they were trusted."""
    from ferrule.mcp_client.trust_records import TrustRecords

    return TrustRecords(mcp_folder() / "trusted.json")


def mcp_folder() -> Path:
    """Where definitions, approvals and tokens are kept."""
    return data_folder() / "mcp"


def _wrong(table: McpServerSettings, problem: Exception) -> str:
    place = table.file if isinstance(table, SourcedServer) and table.file else "the settings"
    return f"{place}: `mcp_servers`: {problem}."


def _config(name: str, table: McpServerSettings) -> ServerConfig:
    from ferrule.mcp_client.server_config import ServerConfig

    given: dict[str, Any] = {one.name: getattr(table, one.name) for one in fields(McpServerSettings)}
    program, arguments, folder = given.pop("command"), given.pop("args"), given.pop("cwd")
    return ServerConfig(name, (program, *arguments) if program else (), folder=folder, **given)
