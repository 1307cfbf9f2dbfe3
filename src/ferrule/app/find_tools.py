"""Every tool the settings name, in one registry. Apart from the rest, so that listing tools starts no runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ferrule.app.locations import added_folders
from ferrule.app.mcp_servers import build_servers
from ferrule.registry.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.settings import Settings
    from ferrule.mcp_client.ports import Ports
    from ferrule.mcp_client.servers import Servers
    from ferrule.plugins.discovery import Broken
    from ferrule.plugins.plugin import Plugin


@dataclass(slots=True)
class Tools:
    """The registry with everything that was found, and what was not."""

    registry: Registry
    plugins: list[Plugin] = field(default_factory=list[Any])
    broken: list[Broken] = field(default_factory=list[Any])
    servers: Servers | None = None
    notes: list[str] = field(default_factory=list[str])
    """What a person should hear of the MCP servers."""


def build_tools(settings: Settings, workspace: Path, ports: Ports | None = None) -> Tools:
    """Built-ins, installed plugins, the settings' folders, and what is known of the MCP servers, in one registry.

    No server is started here: `tools.servers` does that when it is asked to, or when one of its tools is called.
    """
    from ferrule.builtin.all_tools import builtin_tools

    registry = Registry()
    registry.register_many(builtin_tools(), origin="builtin")
    tools = Tools(registry)
    if settings.tools.plugins or settings.tools.folders:
        from ferrule.plugins.discovery import Broken, Discovered, discover_folder, discover_installed

        found = Discovered()
        if settings.tools.plugins:
            discover_installed(found)
        for folder in settings.tools.folders:
            place = workspace / folder.expanduser()
            if place.is_file():
                found.broken.append(Broken(str(place), "it is a file; name its folder"))
            else:
                discover_folder(place, found)
        found.register(registry)
        tools.plugins, tools.broken = found.plugins, found.broken
    tools.servers, tools.notes = build_servers(settings, workspace, registry, added_folders(settings, workspace), ports)
    for name in settings.tools.disabled:
        if name in registry:
            registry.disable(name)
    return tools
