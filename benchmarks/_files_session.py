"""A session with the file tools, as an application has it, on a folder of its own; and text to fill files with."""

from __future__ import annotations

import random
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from ferrule import Environment, RulePolicy, Runtime, Session
from ferrule.builtin.edit import edit, multi_edit, write
from ferrule.builtin.read import read

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.result import ToolResult


class FilesSession:
    """Calls of the file tools, and how long the last one took: on the clock, and of CPU."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.history = folder / "workspace", folder / "history"
        self.workspace.mkdir(parents=True)
        session = Session(workspace=self.workspace, environment=Environment(history_folder=self.history))
        policy = RulePolicy(mode="accept-edits")
        self._runtime = Runtime([read, edit, multi_edit, write], policy=policy, session=session)
        self.wall = self.cpu = 0.0

    async def call(self, tool: str, **arguments: Any) -> ToolResult:
        began, began_cpu = perf_counter(), process_time()
        result = await self._runtime.run(tool, arguments)
        self.wall, self.cpu = perf_counter() - began, process_time() - began_cpu
        assert result.success, result.llm_content
        return result


def lines_of_code(size: int, seed: int = 7) -> list[str]:
    """So many bytes of lines that look like source, no two the same."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz_", k=chance.randint(2, 9))) for _ in range(3000)]
    lines: list[str] = []
    length = 0
    while length < size:
        indent = " " * (4 * chance.randint(0, 3))
        lines.append(
            f"{indent}{chance.choice(words)} = {chance.choice(words)}({', '.join(chance.choices(words, k=3))})"
        )
        length += len(lines[-1]) + 1
    return lines
