"""The guard against tools that change once they are allowed.

When a tool is first used, what the person could see of it then is remembered as a digest. When its description or its
schema is another later, the leave that a rule gives does not count until the person has looked at it again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import phrase
from ferrule.mcp_client.private_files import read_json, write_json
from ferrule.mcp_client.remote_tool import RemoteTool
from ferrule.policy.shown_text import shown_argument

logger = logging.getLogger("ferrule.mcp")

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.tool import Tool


class Approvals:
    """Digests of tools as they were when they were allowed, by server and name."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, dict[str, str]] | None = None
        self._unwritten: dict[str, dict[str, str]] = {}

    def about(self, tool: Tool[Any]) -> str:
        """Why leave that was given earlier does not count for this tool; empty where it does."""
        if not isinstance(tool, RemoteTool) or self._fits(tool):
            return ""
        self._known = None  # somebody may have looked at it elsewhere meanwhile
        if self._fits(tool):
            return ""
        return phrase(
            "`{name}` is not the tool that was allowed: its server changed its description or its schema",
            name=tool.name,
        )

    def way_out(self, tool: Tool[Any]) -> str:
        """What the person can do about it where they cannot be asked."""
        if not isinstance(tool, RemoteTool):
            return ""
        typed = shown_argument(tool.server_name)
        return phrase(
            "The person can look at it and accept it as it is now: `ferrule mcp trust {server}`.", server=typed
        )

    def dispel(self, tool: Tool[Any]) -> None:
        """The person has allowed the tool as it is now."""
        if isinstance(tool, RemoteTool):
            self._remember(tool)

    def first_use(self, tool: RemoteTool) -> None:
        """Remember a tool that runs for the first time; what is remembered already stays."""
        if tool.definition.name not in self._of(tool):
            self._remember(tool)

    def forget(self, identity: str) -> None:
        """Of a server that was removed, or whose tools the person accepts as they will be."""
        known = self._read()
        if known.pop(identity, None) is not None:
            self._write(known)

    def _fits(self, tool: RemoteTool) -> bool:
        return self._of(tool).get(tool.definition.name, tool.definition.digest) == tool.definition.digest

    def _remember(self, tool: RemoteTool) -> None:
        known = self._read()
        known.setdefault(tool.identity, {})[tool.definition.name] = tool.definition.digest
        self._write(known)

    def _of(self, tool: RemoteTool) -> dict[str, str]:
        if self._known is None:
            self._known = self._read()
        return self._known.get(tool.identity, {})

    def _read(self) -> dict[str, dict[str, str]]:
        found = {**read_json(self._file), **self._unwritten}
        return {server: cast("dict[str, str]", tools) for server, tools in found.items() if isinstance(tools, dict)}

    def _write(self, known: dict[str, dict[str, str]]) -> None:
        self._known = known
        try:
            write_json(self._file, cast("dict[str, Any]", known))
        except OSError as error:
            logger.warning("What tools are like could not be remembered: %s", error)
            self._unwritten = known  # it holds for this process, then
