"""A session with a vault, and the note tools driven through the real pipeline."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.says_yes import SaysYes

from ferrule import Runtime, Session, ToolResult
from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.events import Question
from ferrule.toolbox.accounts import Accounts
from ferrule.toolbox.areas import toolbox_tools
from ferrule.workspace.files import files_of


class NoteDesk:
    """`policy` decides the calls; without one, somebody said yes to everything. Whoever is asked says no."""

    def __init__(self, folder: Path, policy: Any = None, vaults: list[Path] | None = None, **session: Any) -> None:
        self.asked: list[Question] = []
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.session = Session(workspace=folder, **session)
        tools = toolbox_tools(Accounts(vaults=[folder] if vaults is None else vaults))
        self.runtime = Runtime(
            [*builtin_tools(), *tools], policy=policy or SaysYes(), session=self.session, ask=self._answer
        )

    def _answer(self, question: Question) -> str:
        self.asked.append(question)
        return "no"

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def call(self, tool: str, **arguments: Any) -> ToolResult:
        return asyncio.run(self.runtime.run(tool, arguments))

    def data(self, tool: str, **arguments: Any) -> Any:
        result = self.call(tool, **arguments)
        assert result.success, result.llm_content
        return result.data

    def edit(self, note: str, operation: str, **arguments: Any) -> ToolResult:
        """Read a note and edit it."""
        if operation != "create":
            assert self.call("ReadNote", note=note).success
        return self.call("EditNote", note=note, operation=operation, **arguments)

    def undo(self) -> None:
        report = files_of(self.session).history.undo()
        assert report.refused is None, report

    def contents(self) -> dict[str, bytes]:
        """Every file, temporary ones too."""
        return {
            one.relative_to(self.folder).as_posix(): one.read_bytes()
            for one in sorted(self.folder.rglob("*"))
            if one.is_file()
        }
