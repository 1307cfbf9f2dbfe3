"""What servers offered last time, so that their tools are there before any of them is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.mcp_client.bounds import TOOLS
from ferrule.mcp_client.definitions import Listing, read_listing
from ferrule.mcp_client.private_files import read_json, write_json
from ferrule.mcp_client.tool_names import server_slug

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.mcp_client.definitions import Definition
    from ferrule.mcp_client.server_config import ServerConfig


class DefinitionStore:
    """A file for each server. It counts only for the very command or address that it was made with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, config: ServerConfig) -> Listing | None:
        """None where nothing is known."""
        found = read_json(self._file(config))
        tools: Any = found.get("tools")
        if found.get("fingerprint") != config.fingerprint or not isinstance(tools, list):
            return None
        payloads: list[Any] = [one for one in cast("list[Any]", tools)[:TOOLS] if isinstance(one, dict)]
        return read_listing(payloads)

    def save(self, config: ServerConfig, definitions: list[Definition]) -> None:
        tools = [dict(one.payload) for one in definitions]
        write_json(self._file(config), {"fingerprint": config.fingerprint, "tools": tools})

    def forget(self, config: ServerConfig) -> None:
        self._file(config).unlink(missing_ok=True)

    def _file(self, config: ServerConfig) -> Path:
        return self._folder / f"{server_slug(config.name)}-{config.fingerprint[:12]}.json"
