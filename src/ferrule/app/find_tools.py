"""Every tool the settings name, in one registry. Apart from the rest, so that listing tools starts no runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ferrule.app.locations import added_folders, tool_folders
from ferrule.app.mcp_servers import build_servers
from ferrule.registry.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.app.settings import Settings
    from ferrule.mcp_client.server_config import Ports
    from ferrule.mcp_client.servers import Servers
    from ferrule.plugins.discovery import FolderTools
    from ferrule.plugins.plugin import BrokenModule, Plugin


@dataclass(slots=True)
class Tools:
    """The registry with everything that was found, and what was not."""

    registry: Registry
    plugins: list[Plugin] = field(default_factory=list[Any])
    """The installed ones."""
    skipped: list[BrokenModule] = field(default_factory=list[Any])
    """What of them could not be loaded."""
    folders: FolderTools | None = None
    servers: Servers | None = None
    notes: list[str] = field(default_factory=list[str])
    """What a person should hear of the MCP servers."""

    @property
    def broken(self) -> list[BrokenModule]:
        """All that could not be loaded, as it is now: the files of a folder may change."""
        return [*self.skipped, *(self.folders.broken if self.folders is not None else ())]


def build_tools(settings: Settings, workspace: Path, ports: Ports | None = None) -> Tools:
    """Built-ins, installed plugins, the settings' folders, and what is known of the MCP servers, in one registry.

    No server is started here: `tools.servers` does that when it is asked to, or when one of its tools is called.
    """
    from ferrule.builtin.all_tools import builtin_tools

    registry = Registry()
    registry.register_many(builtin_tools(), origin="builtin")
    tools = Tools(registry)
    if settings.tools.plugins or settings.tools.folders:
        from ferrule.plugins.discovery import Discovered, discover_installed
        from ferrule.plugins.plugin import descriptor_aside

        with descriptor_aside():
            found = discover_installed() if settings.tools.plugins else Discovered()
            found.register(registry)
            tools.plugins, tools.skipped = found.plugins, found.broken
            if settings.tools.folders:
                from ferrule.plugins.discovery import FolderTools

                tools.folders = FolderTools(
                    tool_folders(settings, workspace), registry, disabled=settings.tools.disabled
                )
                tools.folders.load()
    tools.servers, tools.notes = build_servers(settings, workspace, registry, added_folders(settings, workspace), ports)
    for name in settings.tools.disabled:
        if name in registry:
            registry.disable(name)
    return tools
