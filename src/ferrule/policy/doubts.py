"""Tools that are not what they were when somebody allowed them: leave that was given to the old does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ferrule.core.tool import Tool


class Doubts(Protocol):
    """Knows tools as they were. A tool that others define, as an MCP server does, can change after it was allowed."""

    def about(self, tool: Tool[Any]) -> str:
        """Why a rule's leave does not count for this tool; empty where it does."""
        ...

    def way_out(self, tool: Tool[Any]) -> str:
        """What the person can do about it where they cannot be asked; a whole sentence."""
        ...

    def dispel(self, tool: Tool[Any]) -> None:
        """The person has said «always» to the tool as it is now."""
        ...
