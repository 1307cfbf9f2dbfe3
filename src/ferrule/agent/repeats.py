"""Notices when a model makes the same call again and again and gets the same result each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.core.call import RawCall
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool

NOTED = 3
ENDED = 5


class Repeats:
    """Counts calls of one turn that were made before with the same arguments and gave the same.

    A tool that may change things and does something new begins the count anew: tests that are run again after an edit
    are no loop, however they end.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], int] = {}

    def count(self, call: RawCall, result: ToolResult, tool: Tool[Any] | None) -> int:
        """How often this call has come to this result by now."""
        key = call.name, str(call.arguments), hash(result.llm_content)
        if key not in self._seen and result.success and tool is not None and not tool.read_only:
            self._seen.clear()
        self._seen[key] = times = self._seen.get(key, 0) + 1
        return times


def note(times: int) -> str:
    """What the model reads below a result that it had before."""
    return (
        f"\n\n[This call was made {times} times with the same arguments and the same result. Making it again changes "
        "nothing: try another approach, or say what holds you up.]"
    )
