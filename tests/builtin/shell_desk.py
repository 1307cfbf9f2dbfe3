"""A session with the built-in tools that ends with all it started, and what a model reads of it without odd numbers."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.says_yes import SaysYes

from ferrule import Environment, Runtime, Session
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.session_shells import close_shell


class ShellDesk:
    def __init__(self, workspace: Path, *, policy: Any = None, **environment: Any) -> None:
        workspace.mkdir(exist_ok=True)
        self.workspace = workspace
        self.session = Session(workspace=workspace, environment=Environment(**environment))
        self.runtime = Runtime(builtin_tools(family="all"), policy=policy or SaysYes(), session=self.session)

    async def words(self, tool: str, **arguments: Any) -> str:
        """What a model reads, with the names that differ from run to run replaced."""
        text = (await self.runtime.run(tool, arguments)).llm_content
        text = re.sub(r"/\S*/output-[0-9a-f-]+\.txt", "/outputs/x.txt", text.replace(str(self.workspace), "/ws"))
        return re.sub(r"\(\d+: ", "(PID: ", text)

    async def bash(self, command: str, **arguments: Any) -> str:
        return await self.words("Bash", command=command, **arguments)


@asynccontextmanager
async def shell_desk(folder: Path, **given: Any) -> AsyncGenerator[ShellDesk]:
    desk = ShellDesk(folder / "ws", **given)
    try:
        yield desk
    finally:
        await close_shell(desk.session)
