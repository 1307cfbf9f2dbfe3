"""A session at work: a workspace, and the built-in tools driven through the real pipeline."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.says_yes import SaysYes

from ferrule import RawCall, RulePolicy, Runtime, Session, ToolResult
from ferrule.builtin.all_tools import builtin_tools
from ferrule.workspace.files import Files, files_of


class Desk:
    def __init__(self, workspace: Path, *, mode: str | None = None, **session: Any) -> None:
        """With a `mode` calls are decided by it; without one, somebody said yes to everything."""
        workspace.mkdir(exist_ok=True)
        self.workspace = workspace
        self.session = Session(workspace=workspace, **session)
        policy = RulePolicy(mode=mode) if mode is not None else SaysYes()
        self.runtime = Runtime(builtin_tools(family="all"), policy=policy, session=self.session)

    @property
    def files(self) -> Files:
        return files_of(self.session)

    def call(self, tool: str, file_path: str, **arguments: Any) -> ToolResult:
        name = "filePath" if tool == "readFile" else "file_path"
        return asyncio.run(self.runtime.run(tool, {name: file_path, **arguments}))

    def read(self, file_path: str, **arguments: Any) -> ToolResult:
        return self.call("Read", file_path, **arguments)

    def write(self, file_path: str, content: str) -> ToolResult:
        return self.call("Write", file_path, content=content)

    def edit(self, file_path: str, old: str, new: str, **arguments: Any) -> ToolResult:
        return self.call("Edit", file_path, old_string=old, new_string=new, **arguments)

    def multi_edit(self, file_path: str, *edits: tuple[str, str]) -> ToolResult:
        return self.call("MultiEdit", file_path, edits=[{"old_string": old, "new_string": new} for old, new in edits])

    def batch(self, *calls: RawCall) -> list[ToolResult]:
        return asyncio.run(self.runtime.batch(calls))

    def put(self, name: str, content: str | bytes) -> Path:
        """Make a file behind the session's back."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def seen(self, name: str, content: str | bytes) -> Path:
        """Make a file that the session has read."""
        path = self.put(name, content)
        assert self.read(name).success
        return path

    def bytes_of(self, name: str) -> bytes:
        return (self.workspace / name).read_bytes()

    def names(self) -> list[str]:
        """Every path in the workspace, temporary files included."""
        return sorted(
            os.path.relpath(f"{folder}/{name}", self.workspace)
            for folder, folders, files in os.walk(self.workspace)
            for name in (*folders, *files)
        )


def refused(result: ToolResult, code: str) -> ToolResult:
    """The result, which must be an error with this code."""
    assert not result.success, result.llm_content
    assert result.error is not None
    assert (result.error.details or {}).get("code") == code, result.llm_content
    return result
